"""What a party allows: which protocols, at which price, who may ask and how often; what it does not name is refused.

A policy is a TOML file that the party's steward writes:

    version = 1
    name = "north clinic"

    [data]                          # the vault; no record of it is ever sent
    file = "records.npz"
    ledger = "records.ledger"
    adjacency = "replace-one"
    epsilon = 2.0                   # the whole budget, set once
    delta = 1e-5
    classes = 10                    # only if labels count; of a folder of images the names: ["rare", "common"]
    # shape = [28, 28]              # of a folder of images

    [open]                          # points that anybody may see (public, or synthesised privately): the only ones
    file = "synthetic.npz"          # that FedWad and TriangleWad, which protect nobody, are ever given

    [[allow]]
    protocol = "sketch"
    askers = ["9f…"]                # public keys, 64 hexadecimal digits
    epsilon = 1.0                   # the most that one sketch may cost …
    delta = 1e-5                    # … at this δ
    requests = 10                   # at most so many new requests of one asker …
    days = 30                       # … in so many days

    [[allow]]
    protocol = "triangle"
    askers = ["9f…"]
    allow_unproven = true
    requests = 50
    days = 1

A party needs `[data]` only where it allows sketches: one with `[open]` alone has no vault, and no ledger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privot.common.arguments import check_delta, check_epsilon
from privot.data import StatedFacts
from privot.errors import DataError, PolicyError, UnprovenError, UsageError
from privot.federation.coordination.requests import PROTOCOLS, Request
from privot.federation.sketches.sketch_order import Order
from privot.federation.toml_tables import TomlTable
from privot.guarantee import Adjacency

VERSION = 1
_READ = ("classes", "shape")
"""What is stated about a file, beside its name."""


@dataclass(frozen=True)
class Rule:
    """One `[[allow]]`: a protocol, who may ask for it, at which price and how often."""

    protocol: str
    askers: frozenset[str]
    requests: int
    days: float
    epsilon: float | None = None
    delta: float | None = None
    allow_unproven: bool = False


@dataclass(frozen=True)
class VaultTerms:
    """`[data]`: the records that are never shown, their ledger, and the whole budget."""

    data: Path
    ledger: Path
    adjacency: Adjacency
    budget: tuple[float, float]
    stated: StatedFacts

    @property
    def classes(self) -> int | None:
        """How many classes labels may name, if they count."""
        return self.stated.count


@dataclass(frozen=True)
class Policy:
    """A party's policy, read and checked; paths are relative to the file's folder."""

    name: str
    vault: VaultTerms | None
    open: Path | None
    open_stated: StatedFacts
    rules: tuple[Rule, ...]

    @classmethod
    def read(cls, path: Path) -> Policy:
        """Read the file; whatever is unknown, missing or out of range is refused, never guessed."""
        if not path.exists():
            raise UsageError(f"There is no policy {path}: a party without one allows nothing.")
        top = TomlTable.read(path, "policy", VERSION, {"name", "data", "open", "allow"})
        shown = TomlTable("[open]", top.take("open", dict, {}), {"file", *_READ})
        here = path.parent
        terms = _vault_terms(here, top.take("data", dict)) if "data" in top.said else None
        shows = _path(here, shown.take("file", str)) if "open" in top.said else None
        rules = tuple(_rule(entry) for entry in top.take("allow", list, []))
        if terms is None and shows is None:
            raise DataError(
                f"{path.name} has neither [data] (records for sketches) nor [open] (points to show): add one."
            )
        if terms is None and any(rule.protocol == "sketch" for rule in rules):
            raise DataError(f"{path.name} allows sketches and has no [data]: say which records they are made of.")
        if terms is not None and shows is not None and shows.resolve() == terms.data.resolve():
            raise DataError("[open] names the file of [data]: what the vault holds is never shown.")
        return cls(top.take("name", str), terms, shows, _stated(shown, None), rules)

    def check(self, request: Request, asker: str, earlier: int) -> Rule:
        """The rule that allows `request` of `asker`, who asked `earlier` other things in the rule's days; or refuse."""
        mine = [rule for rule in self.rules if rule.protocol == request.protocol]
        if not mine:
            raise PolicyError(f"The policy allows no {request.protocol}.")
        mine = [rule for rule in mine if asker in rule.askers]
        if not mine:
            raise PolicyError(f"The policy does not let {asker[:16]}… ask for {request.protocol}.")
        rule = mine[0]
        if earlier >= rule.requests:
            raise PolicyError(
                f"The policy allows {rule.requests} requests in {rule.days:g} days, and they are used up."
            )
        if request.order is not None:
            self._check_order(rule, request.order)
        else:
            if not rule.allow_unproven:
                raise UnprovenError(f"{request.protocol} protects nobody, and the policy does not say allow_unproven.")
            if self.open is None:
                raise PolicyError(
                    f"{request.protocol} shows every record, and the policy names no open data that it may show."
                )
        return rule

    @property
    def askers(self) -> frozenset[str]:
        """Everybody who may ask for anything."""
        return frozenset().union(*(rule.askers for rule in self.rules))

    def rule_days(self, protocol: str, asker: str) -> float:
        """Over how many days requests of this kind are counted."""
        return max((r.days for r in self.rules if r.protocol == protocol and asker in r.askers), default=0.0)

    def _check_order(self, rule: Rule, order: Order) -> None:
        assert rule.epsilon is not None
        assert rule.delta is not None
        if order.epsilon > rule.epsilon or order.delta > rule.delta:
            raise PolicyError(
                f"The policy allows a sketch at ε = {rule.epsilon:g}, δ = {rule.delta:g} at most, and "
                f"ε = {order.epsilon:g}, δ = {order.delta:g} was asked."
            )
        if self.vault is None:
            raise PolicyError("The policy names no [data] that a sketch could be made of.")
        if order.adjacency is not self.vault.adjacency:
            raise PolicyError(f"The policy counts under {self.vault.adjacency}, and {order.adjacency} was asked.")
        if order.design.classes and order.design.classes != self.vault.classes:
            raise PolicyError(
                f"The policy knows {self.vault.classes or 'no'} classes, and {order.design.classes} were asked."
            )


def _vault_terms(here: Path, entry: Any) -> VaultTerms:
    table = TomlTable("[data]", entry, {"file", "ledger", "adjacency", "epsilon", "delta", *_READ})
    return VaultTerms(
        data=_path(here, table.take("file", str)),
        ledger=here / table.take("ledger", str),
        adjacency=Adjacency.parse(table.take("adjacency", str)),
        budget=(check_epsilon(table.take("epsilon", float)), check_delta(table.take("delta", float))),
        stated=_stated(table, 0),
    )


def _rule(entry: Any) -> Rule:
    known = {"protocol", "askers", "epsilon", "delta", "requests", "days", "allow_unproven"}
    table = TomlTable("[[allow]]", entry, known)
    protocol, askers = table.take("protocol", str), table.take("askers", list)
    requests, days = table.take("requests", int), table.take("days", float)
    if protocol not in PROTOCOLS:
        raise DataError(f"The policy allows {protocol[:20]!r}: there are {', '.join(PROTOCOLS)}.")
    if not all(isinstance(a, str) and len(a) == 64 and set(a) <= set("0123456789abcdef") for a in askers):
        raise DataError("The policy names askers by public keys, 64 lower-case hexadecimal digits.")
    if requests < 0 or not 0.0 < days < math.inf:
        raise DataError("The policy must allow a number of requests in a number of days greater than 0.")
    epsilon = delta = None
    if protocol == "sketch":
        epsilon, delta = check_epsilon(table.take("epsilon", float)), check_delta(table.take("delta", float))
    elif "epsilon" in entry or "delta" in entry:
        raise DataError(f"The policy prices {protocol} with an ε, and it has none: it protects nobody.")
    unproven = table.take("allow_unproven", bool, False)
    return Rule(protocol, frozenset(askers), requests, days, epsilon, delta, unproven)


def _stated(table: TomlTable, classes: int | None) -> StatedFacts:
    """What a table says about its file before it is read, with `classes` where it says nothing of them."""
    shape = table.take("shape", list, None)
    try:
        return StatedFacts(table.said.get("classes", classes), shape)
    except UsageError as error:
        raise DataError(f"{table.where}: {error}") from None


def _path(here: Path, name: str) -> Path:
    # `digits` is a data set, not a file
    return Path(name) if name == "digits" else here / name
