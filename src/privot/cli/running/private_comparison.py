"""One `privot compare --method dp-swd`: both sides checked, each private one charged to its ledger, then compared."""

from __future__ import annotations

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
        }


def compare_privately(sides: Sides, asked: PrivateOptions, *, p: float, slices: int | None, seed: int) -> PrivateAnswer:
    """Check everything, charge the ledger of every private side, and compare what was released."""
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import UsageError
    from privot.federation.private_distance import private_sliced
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
        if all(private) and payers[0] is not None and payers[0] == payers[1]:
            raise UsageError("Both sides are guarded by one ledger: a private distance needs two data sets.")
        order = (1, 0) if asked.public == "a" else (0, 1)
        other: Any = vaults[order[1]] if asked.public is None else held[order[1]]["x"]
        purpose = f"compare dp-swd {held[0]['label'][:60]} and {held[1]['label'][:60]}"
        found = private_sliced(vaults[order[0]], other, purpose=purpose, **how)
    if asked.public == "a":
        from dataclasses import replace

        guarantees, public = found.guarantees[::-1], {**found.public, "records": found.public["records"][::-1]}
        found = replace(found, guarantees=(guarantees[0], guarantees[1]), public=public)
    return PrivateAnswer(found, (payers[0], payers[1]))


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
