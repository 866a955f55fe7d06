"""One `privot compare --method dp-swd`: both sides checked, each private one charged to its ledger, then compared."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli import ledgers
from privot.cli.records import load_points, same_space

if TYPE_CHECKING:
    from privot.cli.running.comparisons import Sides
    from privot.federation.private_distance import PrivateSliced

UNIT = "one record"


@dataclass(frozen=True)
class PrivateOptions:
    """The options that only a private comparison has, as they were typed; None or False where they were not."""

    epsilon: float | None = None
    delta: float | None = None
    adjacency: str | None = None
    clip: float | None = None
    public: str | None = None
    ledger: Path | None = None
    new_records: bool = False

    def refuse_any(self, method: str) -> None:
        """Refuse an option that another method would ignore: a stated ε must never be without effect."""
        from privot.errors import UsageError

        for field in fields(self):
            if getattr(self, field.name) not in (None, False):
                option = "--" + field.name.replace("_", "-")
                raise UsageError(f"{option} works with --method dp-swd only, and this is {method}, without privacy.")


@dataclass(frozen=True)
class PrivateAnswer:
    """What was found, and which ledgers paid; None for a public side and for built-in data."""

    found: PrivateSliced
    payers: tuple[Path | None, Path | None]
    before: bool = False
    """Whether an earlier attempt paid."""

    def to_dict(self) -> dict[str, Any]:
        """The answer of the command, as plain JSON types."""
        from privot.cli.printing.guarantee_words import summary

        found = self.found
        sides = [None if g is None else summary(g) for g in found.guarantees]
        return {
            "method": "dp-swd",
            "value": found.value,
            "interval": list(found.interval),
            "interval_of": found.interval_of,
            "null_level": found.null_level,
            "raw": found.raw,
            "distinguishable": found.distinguishable,
            "p": found.p,
            **found.public,
            "unit": UNIT,
            "guarantee": {"a": sides[0], "b": sides[1]},
            "ledger": dict(zip("ab", (None if p is None else str(p) for p in self.payers), strict=True)),
            "paid_before": self.before,
        }


def compare_privately(
    sides: Sides,
    asked: PrivateOptions,
    *,
    p: float,
    slices: int | None,
    seed: int,
    show: Callable[[PrivateAnswer], None],
) -> None:
    """Check everything, charge the ledger of every private side, compare what was released, and `show` it.

    A comparison that was paid for and not shown by an earlier attempt is shown at no further cost.
    """
    from privot.cli.printing.printed_answer import in_one_piece
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import UsageError
    from privot.federation.private_distance import check_comparison, distance_once
    from privot.vault import Vault

    _check(sides, asked)
    assert asked.epsilon is not None
    assert asked.delta is not None
    terms = (check_epsilon(asked.epsilon), check_delta(asked.delta))
    names = (sides.first, sides.second)
    private = [name != asked.public for name in "ab"]
    sets = [
        load_points(data, sides.words, sides.facts, private=hidden) for data, hidden in zip(names, private, strict=True)
    ]
    same_space(*(found.x for found in sets))
    held: list[dict[str, Any]] = [
        {"x": found.x, "clip": asked.clip, "adjacency": asked.adjacency, "label": ledgers.label_of(data)}
        for found, data in zip(sets, names, strict=True)
    ]
    # checked before a ledger is created, so that what cannot be used leaves none behind
    vaults = [Vault(**each, budget=terms) for each in held]
    how: dict[str, Any] = {"epsilon": terms[0], "delta": terms[1], "slices": slices, "p": p}
    check_comparison(vaults[0], vaults[1], **how)
    with ExitStack() as stack:
        payers: list[Path | None] = [None, None]
        for side, (data, each) in enumerate(zip(names, held, strict=True)):
            # nobody's budget could be spent for what is public
            if private[side] and (data not in ledgers.BUILT_IN or asked.ledger is not None):
                book, own = stack.enter_context(ledgers.paying_ledger(data, asked.ledger, Path(data)))
                fresh = terms if own or asked.new_records else None
                vaults[side] = ledgers.open_vault(book, terms=fresh, new_records=asked.new_records, where=data, **each)
                payers[side] = book.path
        if all(private) and payers[0] is not None and payers[0] == payers[1]:
            raise UsageError("Both sides are guarded by one ledger: a private distance needs two data sets.")
        purpose = f"compare dp-swd {held[0]['label'][:30]} and {held[1]['label'][:30]}"
        more = {**how, "seed": seed, "purpose": purpose, "public": asked.public}
        with distance_once(vaults[0], vaults[1], **more) as paid, in_one_piece():
            show(PrivateAnswer(paid.value, (payers[0], payers[1]), paid.before))


def _check(sides: Sides, asked: PrivateOptions) -> None:
    from privot.errors import UsageError

    for name in ("epsilon", "delta", "adjacency", "clip"):
        if getattr(asked, name) is None:
            raise UsageError(f"dp-swd needs --{name}: --epsilon, --delta, --adjacency and --clip are all stated.")
    if asked.public not in (None, "a", "b"):
        raise UsageError(f"--public must be a or b, the side that is public, got {asked.public!r}.")
    if asked.ledger is not None and asked.public is None:
        raise UsageError("--ledger names the ledger of one data set: with two private sides each has its own.")
    if sides.labels:
        raise UsageError("--labels cannot be combined with dp-swd: leave it out.")
    if asked.public is None and realpath(sides.first) == realpath(sides.second):
        raise UsageError("Both sides are the same data set: a private distance needs two.")
