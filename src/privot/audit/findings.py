"""The result of an audit: a claimed upper bound on ε beside a measured lower bound, always with the adjacency."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from privot.audit.statistics.epsilon_bounds import shift_epsilon
from privot.audit.statistics.estimates import Measured
from privot.common.arguments import check_delta
from privot.common.html_facts import html_facts
from privot.common.privacy_unit import RECORD, Unit, relation_words, unit_words
from privot.guarantee import Adjacency, Curve, Guarantee, Standing, TabulatedCurve


@dataclass(frozen=True)
class Claim:
    """A claimed upper bound: ε `quoted` at δ, its adjacency and standing, and its whole privacy curve if that is known.

    `unit` is what neighbours differ in where that is not one record. `shift` is set if the claim is that of a Gaussian
    mechanism with this shift (sensitivity over σ).
    """

    quoted: float
    delta: float
    adjacency: Adjacency
    standing: Standing
    sampling: str = "all records"
    curve: Curve | None = field(default=None, repr=False)
    shift: float | None = None
    unit: Unit | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))

    @property
    def relation(self) -> str:
        """The adjacency, and the unit where it is not a record."""
        return relation_words(self.adjacency, self.unit)

    def epsilon(self, delta: float | None = None) -> float:
        """The claimed ε at `delta` (the quoted one unless given); infinite where nothing is claimed."""
        if delta is None or delta == self.delta:
            return self.quoted
        if self.curve is not None:
            return self.curve.epsilon(delta)
        return self.quoted if check_delta(delta) > self.delta else math.inf

    @classmethod
    def of(cls, guarantee: Guarantee, shift: float | None = None) -> Claim:
        """The claim of a guarantee; its curve is tabulated once, because an audit evaluates it often."""
        fields = guarantee.to_dict()
        points = tuple((p["delta"], math.inf if p["epsilon"] is None else p["epsilon"]) for p in fields["curve"])
        return cls(
            guarantee.epsilon(),
            guarantee.at_delta,
            guarantee.adjacency,
            guarantee.standing,
            guarantee.sampling,
            TabulatedCurve(points),
            shift,
            guarantee.unit,
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; ε is null if it is infinite."""
        return {
            "epsilon": self.quoted if math.isfinite(self.quoted) else None,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "unit": RECORD if self.unit is None else self.unit.to_dict(),
            "standing": str(self.standing),
            "sampling": self.sampling,
        }


@dataclass(frozen=True)
class Finding:
    """The result of one attack: the claim, the measured bounds and how they were measured, and whether it is refuted.

    `real` holds bounds from runs of the mechanism itself; `simulated` holds bounds from many more trials of its noise
    and sampler, on the values that its code computes without noise. Either is None if there were no such trials.
    """

    name: str
    claim: Claim
    description: str
    real: Measured | None
    simulated: Measured | None
    refuted: bool
    seconds: float
    where: str = ""
    """Where on its curve a refuted claim is broken, by the trials that refute it."""

    def epsilon(self, delta: float | None = None) -> float:
        """The largest lower bound on ε at `delta` (the claim's unless given) that assumes nothing of the mechanism.

        What is not private for an ε at the claim's δ is not at any smaller δ; of a larger one nothing is known: 0.
        """
        if delta is not None and check_delta(delta) > self.claim.delta:
            return 0.0
        return max((m.epsilon for m in (self.real, self.simulated) if m is not None), default=0.0)

    @property
    def if_gaussian(self) -> float | None:
        """The lower bound on ε if the noise is Gaussian; None unless the claim is that of a Gaussian mechanism."""
        if self.claim.shift is None:
            return None
        shifts = [m.shift for m in (self.real, self.simulated) if m is not None]
        return shift_epsilon(max(shifts), self.claim.delta)

    @property
    def confidence(self) -> float:
        """The probability with which all bounds hold together: the errors of both kinds of trials add up."""
        return 1.0 - sum(1.0 - m.confidence for m in (self.real, self.simulated) if m is not None)

    @property
    def ratio(self) -> float:
        """Measured ε over claimed ε."""
        claimed = self.claim.epsilon()
        return self.epsilon() / claimed if claimed > 0.0 else math.inf

    def _repr_html_(self) -> str:
        claim, gaussian = self.claim, self.if_gaussian
        verdict = (
            f"REFUTED: {self.where}"
            if self.refuted
            else "not refuted, which proves nothing: these attacks do not break it"
        )
        return html_facts(
            f"Audit of {self.name}",
            [
                ("claimed", f"ε ≤ {claim.epsilon():.6g} at δ = {claim.delta:g}, {claim.standing}"),
                ("measured", f"ε ≥ {self.epsilon():.4g} at {self.confidence:.1%} confidence"),
                ("if the noise is Gaussian", None if gaussian is None else f"ε ≥ {gaussian:.4g}"),
                ("adjacency", claim.adjacency),
                ("unit", unit_words(claim.unit)),
                ("the claim is", verdict),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "kind": "mechanism",
            "name": self.name,
            "claimed": self.claim.to_dict(),
            "measured": {
                "epsilon": self.epsilon(),
                "epsilon_if_gaussian": self.if_gaussian,
                "confidence": self.confidence,
                "delta": self.claim.delta,
                "adjacency": str(self.claim.adjacency),
                "unit": self.claim.to_dict()["unit"],
                "meaning": "a lower bound: the mechanism is not private for any smaller ε at this δ",
            },
            "description": self.description,
            "real": None if self.real is None else self.real.to_dict(),
            "simulated": None if self.simulated is None else self.simulated.to_dict(),
            "refuted": self.refuted,
            "refuted_where": self.where or None,
            "seconds": round(self.seconds, 2),
        }


@dataclass(frozen=True)
class Check:
    """One yes-or-no question about an implementation or a file."""

    name: str
    passed: bool
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"kind": "check", "name": self.name, "passed": self.passed, "detail": self.detail}


Findings = list[Finding | Check]


def broken(findings: Findings) -> list[str]:
    """Names of refuted findings and failed checks."""
    return [f.name for f in findings if (f.refuted if isinstance(f, Finding) else not f.passed)]
