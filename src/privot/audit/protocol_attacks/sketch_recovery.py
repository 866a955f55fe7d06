"""The same attacks on private sketches of open records: what they add to public knowledge, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.attacks.reconstruction import from_sketch, identically_distributional, membership_scores
from privot.audit.findings import Check
from privot.audit.protocol_attacks.exchanges import play_triangle
from privot.audit.statistics.effects import Effect
from privot.audit.statistics.membership_gain import Gain, inside_gain, membership_auc
from privot.federation import Sketch, compare_sketches, sketch
from privot.mechanisms import SketchDesign
from privot.vault import Vault

Array = NDArray[np.float64]
HALVINGS, FEWER = 10, 3
"""How often the pool is halved, and how often for attacks that solve transport problems."""
KNOWN = 1000
"""Public records around which the sketch is designed."""


@dataclass(frozen=True)
class SketchRecovery:
    """What being in a sketch adds to the recovery of a record, per attack, and how well membership can be told."""

    epsilon: float
    delta: float
    gains: tuple[Gain, ...]
    """The first one is the control: TriangleWad, which gives everything back."""
    area: Effect

    def findings(self) -> list[Check]:
        """Whether no attack recovers more records that were in than records that were not, by more than chance."""
        out = []
        for gain in self.gains[1:]:
            more = gain.clear.over_outside
            detail = f"inside − outside, in % of records: {_percent(more)}; in dB: {gain.over_outside}"
            out.append(Check(f"sketch at ε = {self.epsilon:g}, {gain.name}", more.low <= 0.0, detail))
        return out

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": "replace-one",
            "standing": "proven",
            "membership_auc": _effect(self.area),
            "gains": [
                {
                    "attack": gain.name,
                    "decibels": {"prior": gain.prior, "outside": gain.outside, "inside": gain.inside},
                    "inside_over_outside_decibels": _effect(gain.over_outside),
                    "clear_shares": {
                        "prior": gain.clear.prior,
                        "outside": gain.clear.outside,
                        "inside": gain.clear.inside,
                    },
                    "inside_over_outside_clear": _effect(gain.clear.over_outside),
                }
                for gain in self.gains
            ],
        }


def recover_from_sketches(
    x: Array,
    y: Array,
    public: Array,
    own: Array,
    *,
    epsilon: float,
    delta: float,
    span: float = 2.0,
    halvings: int = HALVINGS,
    seed: int = 0,
) -> SketchRecovery:
    """Attack sketches of halves of the open records x and y, (ε, δ) each under replace-one.

    `public` records are the attacker's and shape the sketch; `own` are those of a party that attacks by equation 5,
    which is left out where they are fewer than one side's.
    Sketches are released by vaults in memory, as any party's; the records themselves are open, so no ledger is charged.
    """
    generator = np.random.default_rng(seed)
    known = public[generator.permutation(len(public))[:KNOWN]]
    design = SketchDesign.around(known)
    pool = np.vstack([x, y])
    pool = pool[: len(pool) - len(pool) % 2]

    def gain(name: str, attacked: Any, times: int) -> Gain:
        return inside_gain(name, attacked, design.prototypes, pool, halvings=times, span=span, seed=seed)

    def attacked(z: Array) -> Array:
        return from_sketch(_released(z, epsilon, delta, design), design, len(z))

    gains = [
        gain("control: TriangleWad, shared random γ", lambda z: play_triangle(z, z).inverted(), 2),
        gain("counts and features", attacked, halvings),
    ]
    if 2 * len(own) >= len(pool):
        fewer = min(FEWER, halvings)
        gains.append(gain("equation 5", lambda z: _by_equation_5(z, own[: len(z)], epsilon, delta, design), fewer))
    area = membership_auc(
        lambda z, rows: membership_scores(_released(z, epsilon, delta, design), design, rows, known),
        pool,
        halvings=halvings,
        seed=seed,
    )
    return SketchRecovery(epsilon, delta, tuple(gains), area)


def _released(x: Array, epsilon: float, delta: float, design: SketchDesign) -> Sketch:
    vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(2.0 * epsilon, min(0.5, 2.0 * delta)))
    return sketch(vault, epsilon=epsilon, delta=delta, design=design)


def _by_equation_5(x: Array, own: Array, epsilon: float, delta: float, design: SketchDesign) -> Array:
    """Equation 5 by a party with `own` records and the other's sketch: both distances as sketches estimate them."""
    seen = _released(x, epsilon, delta, design)
    guess = from_sketch(seen, design, len(x))
    # of its own points an attacker can make sketches with next to no noise
    far, near = (compare_sketches(seen, _released(z, 1e4, delta, design), draws=0).value for z in (guess, own))
    return identically_distributional(guess, own, far, max(near - far, 1e-9), rounds=15)


def _percent(effect: Effect) -> str:
    return f"{100 * effect.value:+.2f} ({100 * effect.low:+.2f} to {100 * effect.high:+.2f})"


def _effect(effect: Effect) -> dict[str, float]:
    return {"value": effect.value, "low": effect.low, "high": effect.high}
