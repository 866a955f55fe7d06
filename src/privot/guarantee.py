"""The words everyone shares: adjacency, standing, and the guarantee that every release carries.

This module knows no mechanism and no accountant: a guarantee holds a *curve*, and the accountant that
counted the events (`privot.accounting`) supplies one. Read back from a file, a guarantee holds the tabulated curve
that was written with it, which is valid on its own and a hair more pessimistic between its points.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, Protocol

from privot.common.arguments import check_delta, is_number
from privot.common.html_facts import html_facts
from privot.common.privacy_unit import RECORD, Unit, relation_words, unit_words
from privot.errors import DataError, UsageError, brief
from privot.opening import parse_json

SCHEMA_VERSION = 1

# δ at which a curve is tabulated when it is written down: dense where people ask.
TABLE_DELTAS = (*(10.0**-e for e in range(15, 0, -1)), 0.3, 0.5)


class Adjacency(StrEnum):
    """Which two data sets count as neighbours. There is no default anywhere: it is always stated.

    `ADD_REMOVE`: one has a record more than the other (or all records of one unit, where a guarantee has a `Unit`).
    The number of records is private.
    `REPLACE_ONE`: they differ in one record. The number of records is public, and the sensitivity of a sum of clipped
    records is twice as large.

    Examples
    --------
    >>> Adjacency("add-remove").sensitivity(0.5), Adjacency("replace-one").sensitivity(0.5)
    (0.5, 1.0)
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @classmethod
    def parse(cls, text: str | Adjacency) -> Adjacency:
        """The adjacency that a user typed: "add-remove" or "replace-one", in any case, also with an underscore.

        Raises
        ------
        UsageError
            If it is neither.

        >>> Adjacency.parse("Replace_One")
        <Adjacency.REPLACE_ONE: 'replace-one'>
        """
        try:
            return cls(str(text).replace("_", "-").lower())
        except ValueError:
            raise UsageError(f"Unknown adjacency {brief(text)}: say add-remove or replace-one.") from None

    def sensitivity(self, clip: float) -> float:
        """Largest ‖x − x'‖ between neighbours whose records are clipped to norm `clip`.

        `clip` when a record is added or removed (compared with the zero row), 2·`clip` when one is replaced.
        """
        return clip if self is Adjacency.ADD_REMOVE else 2.0 * clip


class Standing(StrEnum):
    """What stands behind a privacy claim: a theorem, a limit argument, or a claim as published.

    `PROVEN`: a theorem under the stated assumptions. `ASYMPTOTIC`: a limit argument, an estimate and no bound.
    `UNPROVEN`: no theorem; it must not be relied on. A vault releases what is not PROVEN only if it is allowed
    explicitly.

    Examples
    --------
    >>> Standing.weakest([Standing.PROVEN, Standing.UNPROVEN])
    <Standing.UNPROVEN: 'unproven'>
    """

    PROVEN = "proven"
    ASYMPTOTIC = "asymptotic"
    UNPROVEN = "unproven"

    @staticmethod
    def weakest(standings: Sequence[Standing]) -> Standing:
        """A chain of claims stands as firmly as its weakest link."""
        order = [Standing.PROVEN, Standing.ASYMPTOTIC, Standing.UNPROVEN]
        return max(standings, key=order.index, default=Standing.PROVEN)


_NEIGHBOURS = {
    Adjacency.ADD_REMOVE: "one record is added to or removed from the data",
    Adjacency.REPLACE_ONE: "one record is replaced by any other record (their number stays the same)",
}
_GROUNDS = {
    Standing.PROVEN: "a mathematical theorem under the assumptions",
    Standing.ASYMPTOTIC: "a limit argument, an estimate and no bound",
    Standing.UNPROVEN: "NO theorem; it must not be relied on to protect anybody",
}


class Curve(Protocol):
    """A privacy curve: for each δ the smallest ε that is claimed, and the other way round."""

    def epsilon(self, delta: float) -> float:
        """ε at `delta`; infinite when nothing is claimed there."""
        ...

    def delta(self, epsilon: float) -> float:
        """δ at `epsilon` ≥ 0."""
        ...

    def compose(self, others: Sequence[Curve]) -> Curve:
        """The curve of this and all `others` together, counted by an accountant."""
        ...


@dataclass(frozen=True)
class TabulatedCurve:
    """A curve known at some points, valid everywhere.

    δ as a function of e^ε is convex and falling, so the chord between two valid points lies above the curve
    and is itself a valid claim; outside the table the nearest more cautious point is used.
    """

    points: tuple[tuple[float, float], ...]
    """(δ, ε) with δ rising and ε falling."""

    def epsilon(self, delta: float) -> float:
        """ε at `delta`, by the chord in e^ε (computed without ever forming e^ε)."""
        delta = check_delta(delta, pure=True)
        below: tuple[float, float] | None = None
        for d, e in self.points:
            if d > delta:
                if below is None:
                    return math.inf
                d0, e0 = below
                if not math.isfinite(e0):
                    return math.inf
                # e^ε = e^ε0 − (e^ε0 − e^ε1)·share, with ε0 ≥ ε1
                share = (delta - d0) / (d - d0)
                left = 1.0 + share * math.expm1(e - e0)
                return max(e, e0 + math.log(left)) if left > 0.0 else e
            below = (d, e)
        return below[1] if below else math.inf

    def delta(self, epsilon: float) -> float:
        """δ at `epsilon`, by the same chord."""
        above: tuple[float, float] | None = None
        for d, e in reversed(self.points):
            if e > epsilon:
                if above is None:
                    return 1.0
                d1, e1 = above
                if not math.isfinite(e):
                    return d1
                # share of the chord from (e1, d1) to (e, d)
                share = math.expm1(epsilon - e1) / math.expm1(e - e1) if e - e1 < 700 else 0.0
                return d1 - share * (d1 - d)
            above = (d, e)
        return above[0] if above else 1.0

    def compose(self, others: Sequence[Curve]) -> Curve:
        """Refuse: a table cannot be composed tightly; its events can."""
        raise UsageError("A guarantee read from a file composes by its events: use privot.accounting.read_guarantee.")


@dataclass(frozen=True, repr=False)
class Guarantee:
    """What a release costs in privacy, under which adjacency, and how firmly that stands.

    A guarantee is made by an accountant (`privot.accounting.account`) or read back from JSON; users rarely build one.

    Parameters
    ----------
    curve
        ε at any δ, and δ at any ε.
    adjacency
        Which two data sets count as neighbours.
    standing
        Whether a theorem stands behind the curve.
    sampling
        How records were chosen, in words.
    assumptions
        What the claim rests on besides the mathematics, each in words.
    events
        What was released, as plain JSON types; the curve can be counted again from them.
    at_delta
        The δ at which this guarantee is quoted unless another is given.
    unit
        What neighbours differ in: everything one `Unit` has, such as all rows of a patient. None: one record.

    Raises
    ------
    UsageError
        If `at_delta` is neither 0 nor between 0 and 1.

    Notes
    -----
    Formal guarantee: for every δ in (0, 1), and for δ = 0 where ε is finite there, the mechanism that made the release
    is (epsilon(δ), δ)-differentially private for data sets that are neighbours under `adjacency`, provided that
    `assumptions` hold; that is a theorem only where `standing` is `PROVEN`. The accountant rounds its curves up, by
    bounds on what floating point may take (`privot.accounting`); between its points, a curve read from a file lies
    above the one that was written.

    References
    ----------
    Dwork & Roth 2014, "The algorithmic foundations of differential privacy".

    Examples
    --------
    >>> from privot.accounting import Gaussian, account
    >>> one = account(Gaussian(4.0, 1.0, Adjacency.ADD_REMOVE), 1e-5)
    >>> one
    Guarantee(ε = 0.926342 at δ = 1e-05, add-remove, proven)
    >>> round(one.compose(one).epsilon(), 4)  # less than twice as much
    1.3565
    >>> Guarantee.from_json(one.to_json()).epsilon() == one.epsilon()
    True
    """

    curve: Curve
    adjacency: Adjacency
    standing: Standing
    sampling: str
    assumptions: tuple[str, ...]
    events: tuple[Mapping[str, Any], ...]
    at_delta: float = 1e-5
    """The δ at which this guarantee is quoted unless another is asked for."""
    unit: Unit | None = None

    def __post_init__(self) -> None:
        check_delta(self.at_delta, pure=True)

    def __repr__(self) -> str:
        return f"Guarantee({self.stated()})"

    def facts(self) -> list[tuple[str, str]]:
        """What every display of this guarantee says: ε and δ, unit and adjacency, standing, sampling.

        >>> from privot.accounting import Gaussian, account
        >>> for name, words in account(Gaussian(4.0, 1.0, Adjacency.ADD_REMOVE), 1e-5).facts():
        ...     print(f"{name}: {words}")
        privacy: ε = 0.926342 at δ = 1e-05
        adjacency: add-remove: one record is added to or removed from the data
        unit: one record
        standing: proven: a mathematical theorem under the assumptions
        sampling: none
        """
        epsilon = self.epsilon()
        promised = f"ε = {epsilon:.6g}" if math.isfinite(epsilon) else "ε = ∞, nothing is promised"
        return [
            ("privacy", f"{promised} at δ = {self.at_delta:g}"),
            ("adjacency", f"{self.adjacency}: {self._neighbours}"),
            ("unit", unit_words(self.unit)),
            ("standing", f"{self.standing}: {_GROUNDS[self.standing]}"),
            ("sampling", self.sampling),
        ]

    def _repr_html_(self) -> str:
        assumed = [("assumed", words) for words in self.assumptions]
        return html_facts("Guarantee", [*self.facts(), *assumed])

    @property
    def relation(self) -> str:
        """The adjacency, and the unit where it is not a record: "add-remove of one patient_id, at most 5 rows"."""
        return relation_words(self.adjacency, self.unit)

    @property
    def _neighbours(self) -> str:
        if self.unit is None:
            return _NEIGHBOURS[self.adjacency]
        rows = "one row of it takes" if self.unit.rows == 1 else f"at most {self.unit.rows} rows of it take"
        return f"everything that one {self.unit.name} has is added to or removed from the data ({rows} part)"

    def stated(self) -> str:
        """ε, δ, adjacency, unit and standing: no number without the others."""
        return f"ε = {self.epsilon():.6g} at δ = {self.at_delta:g}, {self.relation}, {self.standing}"

    def epsilon(self, delta: float | None = None) -> float:
        """ε at `delta` (at the quoted δ unless given); infinite where nothing is claimed: at 0 for Gaussian noise."""
        return self.curve.epsilon(self.at_delta if delta is None else check_delta(delta, pure=True))

    def delta(self, epsilon: float) -> float:
        """δ at `epsilon`."""
        if not is_number(epsilon) or epsilon < 0:
            raise UsageError(f"ε must be a finite number of at least 0, got {brief(epsilon)}.")
        return self.curve.delta(float(epsilon))

    def best_guess(self) -> float:
        """How often an attacker can be right, at most, who guesses at even odds which of two neighbours was used.

        By the whole curve that is ½ + ½·δ(0), since δ at ε = 0 bounds the total variation between both laws; from
        (ε, δ) alone it is 1 − (1 − δ)/(1 + e^ε). Both hold, so the smaller one is given; ½ is a coin flip.

        >>> from privot.accounting import Gaussian, account
        >>> round(account(Gaussian(4.0, 1.0, Adjacency.ADD_REMOVE), 1e-5).best_guess(), 4)  # Φ(Δ/2σ)
        0.5497
        """
        epsilon = self.epsilon()
        by_quote = 1.0 if epsilon > 500.0 else 1.0 - (1.0 - self.at_delta) / (1.0 + math.exp(epsilon))
        return min(1.0, by_quote, 0.5 + 0.5 * self.delta(0.0))

    def quoted_at(self, delta: float) -> Guarantee:
        """The same guarantee, quoted at another δ."""
        return replace(self, at_delta=check_delta(delta, pure=True))

    def compose(self, *others: Guarantee) -> Guarantee:
        """The guarantee of this release and `others` on the same data, counted together by the accountant.

        Raises
        ------
        UsageError
            If the adjacencies or the units differ, or a guarantee was read by `from_json`, which knows a table only:
            read it by `privot.accounting.read_guarantee`, which counts its events.
        """
        for other in others:
            if other.adjacency is not self.adjacency:
                raise UsageError(
                    f"Guarantees under {self.adjacency} and {other.adjacency} do not compose: "
                    "count both under one adjacency."
                )
            if (other.unit and other.unit.name) != (self.unit and self.unit.name):
                raise UsageError(
                    f"A guarantee for {unit_words(self.unit)} and one for {unit_words(other.unit)} do not compose: "
                    "make both releases for one unit."
                )
        everyone = (self, *others)
        units = [g.unit for g in everyone if g.unit is not None]
        samplings = list(dict.fromkeys(g.sampling for g in everyone))
        return Guarantee(
            curve=self.curve.compose([g.curve for g in others]),
            adjacency=self.adjacency,
            standing=Standing.weakest([g.standing for g in everyone]),
            sampling="; ".join(samplings),
            assumptions=tuple(dict.fromkeys(a for g in everyone for a in g.assumptions)),
            events=tuple(e for g in everyone for e in g.events),
            at_delta=self.at_delta,
            unit=max(units, key=lambda unit: unit.rows, default=None),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain JSON types; ε is written as null where it is infinite."""

        def finite(x: float) -> float | None:
            return x if math.isfinite(x) else None

        # from the largest δ down, ε may only grow: rounding must not dent the table
        table: list[tuple[float, float]] = []
        for d in sorted({*TABLE_DELTAS, self.at_delta}, reverse=True):
            table.append((d, max(self.curve.epsilon(d), table[-1][1] if table else 0.0)))
        return {
            "schema": SCHEMA_VERSION,
            "epsilon": finite(self.epsilon()),
            "delta": self.at_delta,
            "adjacency": str(self.adjacency),
            "unit": RECORD if self.unit is None else self.unit.to_dict(),
            "standing": str(self.standing),
            "sampling": self.sampling,
            "assumptions": list(self.assumptions),
            "events": [dict(e) for e in self.events],
            "curve": [{"delta": d, "epsilon": finite(e)} for d, e in reversed(table)],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """The guarantee as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Guarantee:
        """Read what `to_dict` wrote; refuses what is no guarantee with a `DataError`."""
        try:
            if fields["schema"] != SCHEMA_VERSION:
                schema = brief(fields["schema"])
                raise DataError(f"This guarantee has schema {schema}; this version of privot reads {SCHEMA_VERSION}.")
            points = []
            for point in fields["curve"]:
                d, e = float(point["delta"]), point["epsilon"]
                points.append((check_delta(d, pure=True), math.inf if e is None else float(e)))
            points.sort()
            finite = [e for _, e in points]
            if any(math.isnan(e) or e < 0 for e in finite) or any(a < b for a, b in pairwise(finite)):
                raise DataError("This is not a guarantee: its curve does not fall as δ grows.")
            curve, stated = TabulatedCurve(tuple(points)), fields["epsilon"]
            if stated is not None and not float(stated) >= curve.epsilon(float(fields["delta"])) * (1.0 - 1e-9):
                raise DataError(f"This guarantee states ε = {brief(stated)}, less than its own curve says.")
            return cls(
                curve=curve,
                adjacency=Adjacency(fields["adjacency"]),
                standing=Standing(fields["standing"]),
                sampling=str(fields["sampling"]),
                assumptions=tuple(str(a) for a in fields["assumptions"]),
                events=tuple(dict(e) for e in fields["events"]),
                at_delta=float(fields["delta"]),
                unit=Unit.from_dict(fields.get("unit")),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, DataError):
                raise
            name, text = type(error).__name__, str(error)[:200]
            raise DataError(f"This is not a guarantee privot wrote: {name} {text}.") from None

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        """Read what `to_json` wrote."""
        fields = parse_json(text, "This guarantee")
        if not isinstance(fields, dict):
            raise DataError("This is not a guarantee privot wrote: not a JSON object.")
        return cls.from_dict(fields)

    def explain(self) -> str:
        """The guarantee in a paragraph that needs no mathematics to read."""
        epsilon, delta = self.epsilon(), self.at_delta
        neighbours = self._neighbours
        standing = {
            Standing.PROVEN: "This is a mathematical theorem under the assumptions listed.",
            Standing.ASYMPTOTIC: "This rests on a limit argument, not on a bound: it is an estimate, not a promise.",
            Standing.UNPROVEN: "NO theorem stands behind this number; it must not be relied on to protect anybody.",
        }[self.standing]
        if math.isfinite(epsilon):
            rest = f", plus {delta:.3g}" if delta else ""
            factor = f"{math.exp(epsilon):.4g}" if epsilon < 500 else f"e^{epsilon:.4g}"
            claim = (
                f"(ε = {epsilon:.6g}, δ = {delta:.3g}), {self.relation}, {self.standing}. If {neighbours}, "
                f"no result becomes more probable than {factor} times what it was{rest}."
            )
            if epsilon < 500:
                # the best test between two (ε, δ)-close hypotheses at even odds errs at least (1 − δ)/(1 + e^ε)
                wrong = (1.0 - delta) / (1.0 + math.exp(epsilon))
                claim += (
                    f" An attacker who must guess, at even odds, which of two such data sets was used is right with "
                    f"probability at most {_at_most(wrong)}."
                )
        else:
            claim = f"(ε = ∞, δ = {delta:.3g}), {self.relation}, {self.standing}: nothing is promised at this δ."
        text = f"{claim} {standing} Sampling: {self.sampling}."
        if self.assumptions:
            text += " Assumptions: " + "; ".join(self.assumptions) + "."
        return text


def _at_most(wrong: float) -> str:
    """The probability 1 − `wrong`, rounded up, with as many digits as it takes not to call it certain."""
    percent = 100.0 * wrong
    if percent < 1e-6:
        return f"1 − {10.0 ** math.floor(math.log10(wrong)):.0e}"
    places = max(2, math.ceil(-math.log10(percent)))
    return f"{100.0 - math.floor(percent * 10**places) / 10**places:.{places}f} %"
