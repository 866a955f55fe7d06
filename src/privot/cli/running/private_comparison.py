"""One `privot compare --method dp-swd`: both sides checked, each private one charged to its ledger, then compared."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
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
    from privot.ledger import Ledger
    from privot.vault import Vault

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
    from privot.data.record_digest import row_digests
    from privot.errors import UsageError
    from privot.jobs.release_once import delivering
    from privot.opening.limits import MAX_TEXT
    from privot.vault import Vault

    _check(sides, asked)
    assert asked.epsilon is not None
    assert asked.delta is not None
    terms = (check_epsilon(asked.epsilon), check_delta(asked.delta))
    private = [name != asked.public for name in "ab"]
    sets = [
        load_points(data, sides.words, sides.facts, private=hidden)
        for data, hidden in zip((sides.first, sides.second), private, strict=True)
    ]
    same_space(*(found.x for found in sets))
    held: list[dict[str, Any]] = [
        {"x": found.x, "clip": asked.clip, "adjacency": asked.adjacency, "label": ledgers.label_of(data)}
        for found, data in zip(sets, (sides.first, sides.second), strict=True)
    ]
    # checked before a ledger is created, so that what cannot be used leaves none behind
    trials = [Vault(**each, budget=terms) for each in held]
    how: dict[str, Any] = {"epsilon": terms[0], "delta": terms[1], "slices": slices, "p": p, "seed": seed}
    _rehearse(trials, how)
    with ExitStack() as stack:
        vaults: list[Vault] = []
        payers: list[Path | None] = []
        books: list[Ledger] = []
        for data, each, trial, hidden in zip((sides.first, sides.second), held, trials, private, strict=True):
            if not hidden or (data in ledgers.BUILT_IN and asked.ledger is None):
                # public: there is nobody whose budget could be spent
                vaults.append(trial)
                payers.append(None)
                continue
            book, own = stack.enter_context(ledgers.paying_ledger(data, asked.ledger, Path(data)))
            fresh = terms if own or asked.new_records else None
            vaults.append(ledgers.open_vault(book, terms=fresh, new_records=asked.new_records, where=data, **each))
            payers.append(book.path)
            books.append(book)
        if all(private) and payers[0] is not None and payers[0] == payers[1]:
            raise UsageError("Both sides are guarded by one ledger: a private distance needs two data sets.")
        paying = _Paying(vaults, held, asked, how)
        if not books:
            # nobody's budget is spent, so nothing has to be kept
            return show(_answer(paying.make(None, paying.choose()), asked, payers))
        names = [books[0].fingerprint({"x": row_digests(each["x"])}) for each in held]
        path = ledgers.kept_place(books[0], ["dp-swd", names, asked.clip, asked.adjacency, asked.public, how])
        with (
            delivering(
                path, paying.choose, paying.make, charged=paying.charged, what="comparison", most=MAX_TEXT
            ) as kept,
            in_one_piece(),
        ):
            show(_answer(kept.content, asked, payers, kept.before))


class _Paying:
    """The two releases and what follows from them, as one text that is kept until it is shown."""

    def __init__(
        self, vaults: list[Vault], held: list[dict[str, Any]], asked: PrivateOptions, how: dict[str, Any]
    ) -> None:
        self.vaults = vaults[::-1] if asked.public == "a" else vaults
        self.public, self.how = asked.public is not None, how
        self.purpose = f"compare dp-swd {held[0]['label'][:30]} and {held[1]['label'][:30]}"

    def choose(self) -> dict[str, str]:
        """The seed of the directions, public and fresh: both sides, and both attempts after a kill, have the same."""
        return {"directions": str(secrets.randbits(120))}

    def charged(self, mark: str) -> int:
        """How many of the two releases were charged under `mark`."""
        return sum(vault.charges(mark) for vault in self.vaults if vault.ledger is not None)

    def make(self, secret: bytes | None, chosen: Mapping[str, Any]) -> bytes:
        """Pay for both sides, and compare what they release."""
        from privot.federation.private_distance import check_comparison, compare_projections
        from privot.jobs.release_once import MARK, release_marked

        how = {name: self.how[name] for name in ("epsilon", "delta", "slices", "p")}
        mechanism = check_comparison(*self.vaults, **how, directions=int(chosen["directions"]))
        purpose, delta = self.purpose, self.how["delta"]
        # both are asked before either pays: a refusal of the second must not cost the first
        for vault in self.vaults:
            if vault.ledger is None or not vault.charges(chosen[MARK]):
                vault.check(mechanism.event(vault.facts), purpose=purpose)
        first, second = (
            vault.release(mechanism, purpose=purpose, delta=delta)
            if vault.ledger is None or secret is None
            else release_marked(vault, mechanism, secret, chosen, purpose=purpose, delta=delta)
            for vault in self.vaults
        )
        found = compare_projections(first, second, self.how["p"], seed=self.how["seed"], second_is_public=self.public)
        plain = {name: value for name, value in vars(found).items() if name != "guarantees"}
        return json.dumps(plain | {"guarantees": [g and g.to_dict() for g in found.guarantees]}).encode()


def _answer(content: bytes, asked: PrivateOptions, payers: list[Path | None], before: bool = False) -> PrivateAnswer:
    """The answer that `_Paying` made, with the sides in the order in which they were named."""
    from privot.accounting import read_guarantee
    from privot.federation.private_distance import PrivateSliced
    from privot.opening import parse_json

    said = parse_json(content.decode(), "what is kept of a comparison")
    guarantees = [None if g is None else read_guarantee(json.dumps(g)) for g in said["guarantees"]]
    public = dict(said["public"])
    if asked.public == "a":
        guarantees, public["records"] = guarantees[::-1], public["records"][::-1]
    low, high = said["interval"]
    found = PrivateSliced(
        **(said | {"interval": (low, high), "public": public, "guarantees": (guarantees[0], guarantees[1])})
    )
    return PrivateAnswer(found, (payers[0], payers[1]), before)


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


def _rehearse(trials: list[Vault], how: dict[str, Any]) -> None:
    """Refuse, before a ledger exists, all that the comparison would refuse by public facts."""
    from privot.federation.private_distance import check_comparison

    check_comparison(trials[0], trials[1], **{name: how[name] for name in ("epsilon", "delta", "slices", "p")})
