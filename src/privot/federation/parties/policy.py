"""A party's policy: allowed protocols, their cost, the keys that may request them, and how often. All else is refused.

A policy is a TOML file that the party's steward writes:

    version = 1
    name = "north clinic"

    [data]                          # the vault; no record of it is ever sent
    file = "records.npz"
    ledger = "records.ledger"
    adjacency = "replace-one"
    epsilon = 2.0                   # the whole budget, set once
    delta = 1e-5
    classes = 10                    # only with labels; for a folder of images the names: ["rare", "common"]
    # shape = [28, 28]              # for a folder of images

    [open]                          # points that anybody may see (public or synthetic): the only ones that
    file = "synthetic.npz"          # FedWad and TriangleWad, which protect nobody, ever get

    [[allow]]
    protocol = "sketch"
    askers = ["9f…"]                # public keys, 64 hexadecimal digits
    epsilon = 1.0                   # the largest cost of one sketch …
    delta = 1e-5                    # … at this δ
    requests = 10                   # the largest number of new requests per asker …
    days = 30                       # … in this many days

    [[allow]]
    protocol = "triangle"
    askers = ["9f…"]
    allow_unproven = true
    requests = 50
    days = 1

A party needs `[data]` only if it allows sketches: a party with `[open]` alone has no vault and no ledger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from os.path import realpath
from pathlib import Path
from typing import Any

from privot.common.arguments import check_delta, check_epsilon
from privot.data.stated_facts import StatedFacts
from privot.errors import DataError, PolicyError, UnprovenError, UsageError
from privot.federation.coordination.requests import PROTOCOLS, Request
from privot.federation.sketches.sketch_order import Order
from privot.federation.toml_tables import TomlTable
from privot.guarantee import Adjacency

VERSION = 1
_READ = ("classes", "shape")
"""Names of the public facts that are stated about a file."""


@dataclass(frozen=True)
class Rule:
    """One `[[allow]]`: a protocol, the keys that may request it, its largest cost, and how often."""

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
        """The number of classes; None without labels."""
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
        """Read the file; raises `DataError` for what is unknown, missing or out of range. Nothing is guessed."""
        if not path.exists():
            raise UsageError(f"There is no policy {path}: a party without one allows nothing.")
        top = TomlTable.read(path, "policy", VERSION, {"name", "data", "open", "allow"})
        shown = TomlTable("[open]", top.take("open", dict, {}), {"file", *_READ})
        here = path.parent
        terms = _vault_terms(here, top.take("data", dict)) if "data" in top.stated else None
        shows = _path(here, shown.take("file", str)) if "open" in top.stated else None
        rules = tuple(_rule(entry) for entry in top.take("allow", list, []))
        if terms is None and shows is None:
            raise DataError(
                f"{path.name} has neither [data] (records for sketches) nor [open] (points to show): add one."
            )
        if terms is None and any(rule.protocol == "sketch" for rule in rules):
            raise DataError(f"{path.name} allows sketches and has no [data]: add the file that they are made from.")
        if terms is not None and shows is not None and realpath(shows) == realpath(terms.data):
            raise DataError(
                "[open] names the file of [data]: records of the vault are never shown, so name another file."
            )
        return cls(top.take("name", str), terms, shows, _stated(shown, None), rules)

    def check(self, request: Request, asker: str, earlier: int) -> Rule:
        """The rule that allows `request` from `asker`, of whom `earlier` requests were accepted in the rule's days.

        Raises `PolicyError` or `UnprovenError` if no rule allows it.
        """
        fitting = [rule for rule in self.rules if rule.protocol == request.protocol]
        if not fitting:
            raise PolicyError(f"The policy allows no {request.protocol}.")
        fitting = [rule for rule in fitting if asker in rule.askers]
        if not fitting:
            raise PolicyError(f"The policy does not allow {request.protocol} for {asker[:16]}….")
        rule = fitting[0]
        if earlier >= rule.requests:
            raise PolicyError(
                f"The policy allows {rule.requests} requests in {rule.days:g} days, and all of them are used."
            )
        if request.order is not None:
            self._check_order(rule, request.order)
        else:
            if not rule.allow_unproven:
                raise UnprovenError(f"{request.protocol} protects nobody, and the policy does not set allow_unproven.")
            if self.open is None:
                raise PolicyError(
                    f"{request.protocol} shows every record, and the policy names no [open] data that may be shown."
                )
        return rule

    @property
    def askers(self) -> frozenset[str]:
        """All keys that may request anything."""
        return frozenset().union(*(rule.askers for rule in self.rules))

    def rule_days(self, protocol: str, asker: str) -> float:
        """The number of days over which requests of this kind are counted."""
        return max((r.days for r in self.rules if r.protocol == protocol and asker in r.askers), default=0.0)

    def _check_order(self, rule: Rule, order: Order) -> None:
        assert rule.epsilon is not None
        assert rule.delta is not None
        if order.epsilon > rule.epsilon or order.delta > rule.delta:
            raise PolicyError(
                f"The policy allows a sketch at ε = {rule.epsilon:g}, δ = {rule.delta:g} at most, got a "
                f"request for ε = {order.epsilon:g}, δ = {order.delta:g}."
            )
        if self.vault is None:
            raise PolicyError("The policy names no [data] to make a sketch from.")
        if order.adjacency is not self.vault.adjacency:
            raise PolicyError(f"The policy states {self.vault.adjacency}, got a request under {order.adjacency}.")
        if order.design.classes and order.design.classes != self.vault.classes:
            raise PolicyError(
                f"The policy states {self.vault.classes or 'no'} classes, got a request for {order.design.classes}."
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
        raise DataError(f"Unknown protocol {protocol[:20]!r} in the policy: use one of {', '.join(PROTOCOLS)}.")
    if not all(isinstance(a, str) and len(a) == 64 and set(a) <= set("0123456789abcdef") for a in askers):
        raise DataError("The askers in the policy must be public keys, 64 lower-case hexadecimal digits each.")
    if requests < 0 or not 0.0 < days < math.inf:
        raise DataError("The policy needs requests of at least 0 and days greater than 0.")
    epsilon = delta = None
    if protocol == "sketch":
        epsilon, delta = check_epsilon(table.take("epsilon", float)), check_delta(table.take("delta", float))
    elif "epsilon" in entry or "delta" in entry:
        raise DataError(f"The policy states ε or δ for {protocol}, which protects nobody and has none: remove them.")
    unproven = table.take("allow_unproven", bool, False)
    return Rule(protocol, frozenset(askers), requests, days, epsilon, delta, unproven)


def _stated(table: TomlTable, classes: int | None) -> StatedFacts:
    """The public facts that a table states about its file; `classes` is the default."""
    shape = table.take("shape", list, None)
    try:
        return StatedFacts(table.stated.get("classes", classes), shape)
    except UsageError as error:
        raise DataError(f"{table.where}: {error}") from None


def _path(here: Path, name: str) -> Path:
    # `digits` is a data set, not a file
    return Path(name) if name == "digits" else here / name
