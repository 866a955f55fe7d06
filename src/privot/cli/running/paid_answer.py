"""Answers a request of `privot adapt --ask`, once, out of the budget of the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli import ledgers
from privot.cli.records import read_records, stated

if TYPE_CHECKING:
    from privot.adaptation.adaptation_request import AdaptationRequest


def check_affordable(asked: AdaptationRequest, terms: tuple[float, float]) -> None:
    """Refuse a request that costs more than `terms` = (ε, δ) allow."""
    from privot.errors import BudgetError

    epsilon, delta = terms
    # written so that a NaN is refused
    if not asked.cost(delta).epsilon() <= epsilon:
        raise BudgetError(
            f"The answer costs {asked.cost(delta).stated()}, more than the allowed ε = {epsilon:g}: nothing was paid."
        )


class PaidAnswer:
    """An answer to one request: everything is checked first, then the ledger is charged and the answer is made."""

    def __init__(
        self,
        asked: AdaptationRequest,
        target: str,
        terms: tuple[float, float],
        out: Path,
        *,
        ledger: Path | None,
        key: Path | None,
        shape: str | None,
    ) -> None:
        from privot.adaptation.adaptation_answer import check_asked
        from privot.errors import DataError, UsageError
        from privot.federation.wire.signing import make_key, read_key
        from privot.guarantee import Adjacency
        from privot.vault import Vault

        self.asked, self.terms, self.out = asked, terms, out
        if not out.parent.is_dir():
            raise UsageError(f"There is no folder {out.parent}: create it before the answer is paid for.")
        rows = read_records(target, stated(None, shape), labels=False, private=True).x
        self.held: dict[str, Any] = {"x": rows, "clip": 1.0, "adjacency": Adjacency.REPLACE_ONE}
        self.held["label"] = ledgers.label_of(target)
        # checked before a ledger is created, so that what cannot be answered leaves none behind
        check_asked(asked, Vault(**self.held, budget=terms))
        self.ledger = ledger or ledgers.default_ledger(target, out)
        ledgers.check_ledger_file(self.ledger)
        self.answers = self.ledger.with_name(self.ledger.name + ".answers")
        if not self.ledger.exists():
            _check_free(out, None)
            if any(self.answers.glob("*-*.*")):
                raise DataError(f"There is no ledger {self.ledger}, but answers were paid for: restore its backup.")
        self.signing = None if key is None else read_key(key) if key.exists() else make_key(key)

    def pay(self, new_records: bool) -> bool:
        """Charge the ledger and write the answer; False where it was paid for before, and is written again."""
        from privot.adaptation.adaptation_answer import answer_once, stored
        from privot.data.record_digest import row_digests

        with ledgers.open_ledger(self.ledger, only_open=False) as book:
            data = book.fingerprint({"x": row_digests(self.held["x"])})
            _check_free(self.out, stored(self.asked, self.answers, data))
            vault = ledgers.open_vault(book, terms=self.terms, new_records=new_records, **self.held)
            made = answer_once(self.asked, vault, self.answers, data, self.signing)
        self._deliver(made.content)
        return made.paid

    def _deliver(self, content: bytes) -> None:
        """Write the answer; where that fails, say that it is paid for and kept."""
        from privot.common.files import write_whole
        from privot.errors import DataError

        try:
            write_whole(self.out, content)
        except OSError as error:
            raise DataError(
                f"{self.out} cannot be written ({error.strerror}): the answer is paid for and kept, so run the command "
                "again with another --out, which costs nothing."
            ) from None


def _check_free(out: Path, earlier: Path | None) -> None:
    """Refuse an existing file, unless it is the `earlier` answer."""
    from privot.common.files import is_taken
    from privot.errors import UsageError

    if is_taken(out) and not (earlier is not None and earlier.exists() and earlier.read_bytes() == out.read_bytes()):
        raise UsageError(f"{out} exists already and is not this answer: an answer overwrites nothing.")
