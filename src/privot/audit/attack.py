"""Runs an attack: trials on two neighbouring data sets that the audit made, and the lower bounds on ε that they give.

A claim counts as refuted only if a second, independent set of trials refutes it at a far higher confidence: an audit
that stops at 95 % would refute one in twenty correct and tight mechanisms. It touches no user's record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privot.audit.findings import Claim, Finding
from privot.audit.statistics.discriminants import learned_scores
from privot.audit.statistics.epsilon_bounds import DEFAULT_CONFIDENCE, check_confidence
from privot.audit.statistics.estimates import MIN_TRIALS, Measured, measure
from privot.errors import UsageError

Array = NDArray[np.float64]

SURE = 0.999
"""Confidence of the second set of trials, which must refute a claim as well."""
RUNS = 4_000
TRIALS = 1_000_000
PARTS = 4
"""Two kinds of trials, each on two data sets."""


class Attack(Protocol):
    """Two neighbouring data sets D and D', a mechanism that runs on either, and what an attacker observes.

    Observations are scores (trials,), where higher means that D' is more likely, or rows of numbers (trials, columns)
    from which a score is learned.
    """

    @property
    def name(self) -> str:
        """The mechanism and its parameters, in a few words."""
        ...

    @property
    def claim(self) -> Claim:
        """The upper bound on ε that is tested."""
        ...

    @property
    def description(self) -> str:
        """The data sets and the statistic, in words."""
        ...

    def real(self, present: bool, trials: int) -> Array:
        """Observations from runs of the mechanism itself, on D' where `present`, else on D."""
        ...

    def simulated(self, present: bool, trials: int) -> Array | None:
        """Observations from many trials at once of its noise and sampler, on values its code computed; None without."""
        ...


def run_attack(
    attack: Attack,
    *,
    runs: int = RUNS,
    trials: int = TRIALS,
    confidence: float = DEFAULT_CONFIDENCE,
    progress: Callable[[int, int], None] | None = None,
) -> Finding:
    """Run an attack: `runs` runs of the mechanism and `trials` simulated ones, on each of the two data sets.

    `progress` is called with (parts done, parts in all) after each kind of trials on each data set.

    A claim counts as refuted only if fresh trials refute it again, at `SURE` or at `confidence` where that is higher.
    Raises `UsageError` if both numbers are 0, or one of them is between 1 and 19.
    """
    check_confidence(confidence)
    if min(runs, trials) < 0 or max(runs, trials) == 0:
        raise UsageError("An audit needs runs of the mechanism, simulated trials, or both: runs and trials are 0.")
    if any(0 < many < MIN_TRIALS for many in (runs, trials)):
        # refused here: with fewer, even learning a score would only give warnings
        raise UsageError(
            f"An audit needs at least {MIN_TRIALS} runs or trials per data set, got "
            f"{min(m for m in (runs, trials) if m)}."
        )
    began = time.monotonic()
    real, simulated = _measure(attack, runs, trials, confidence, progress)
    where = ""
    if any(refutes(m, attack.claim) for m in (real, simulated) if m is not None):
        again = _measure(attack, runs, trials, max(SURE, confidence))
        where = next((said for m in again if m is not None and (said := refutation(m, attack.claim))), "")
    seconds = time.monotonic() - began
    return Finding(attack.name, attack.claim, attack.description, real, simulated, bool(where), seconds, where)


def refutes(measured: Measured, claim: Claim) -> bool:
    """Whether the measurement contradicts the claim: its ε at its δ, its shift, or any point of its curve."""
    return bool(refutation(measured, claim))


def refutation(measured: Measured, claim: Claim) -> str:
    """Where the measurement contradicts the claim, in words; empty if it does not.

    A claim is a whole curve: it may hold at its δ, where few trials show little, and be broken at a smaller ε.
    """
    if measured.epsilon > (most := claim.epsilon()):
        return f"at δ = {claim.delta:g}, ε ≤ {most:.4g} is claimed and ε ≥ {measured.epsilon:.4g} was measured"
    if claim.curve is not None:
        broken = [found for rates in (measured.free, measured.gaussian) if (found := rates.broken_at(claim.curve))]
        if broken:
            epsilon, claimed, shown = max(broken, key=lambda point: point[2] - point[1])
            return f"at ε = {epsilon:.3g}, δ ≤ {claimed:.3g} is claimed and δ ≥ {shown:.3g} was measured"
    # the slack covers rounding of quantiles, not chance
    if claim.shift is not None and measured.shift > claim.shift * (1.0 + 1e-9):
        return f"a shift μ ≤ {claim.shift:.4g} is claimed and μ ≥ {measured.shift:.4g} was measured"
    return ""


def _measure(
    attack: Attack,
    runs: int,
    trials: int,
    confidence: float,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Measured | None, Measured | None]:
    """Bounds from both kinds of trials, which share the allowed error."""
    delta = attack.claim.delta
    tell = progress or (lambda done, many: None)
    seen: list[Array | None] = [None, None]
    for part, present in enumerate((False, True)):
        seen[part] = attack.simulated(present, trials) if trials else None
        tell(part + 1, PARTS)
    kinds = int(runs > 0) + int(seen[0] is not None)
    each = 1.0 - (1.0 - confidence) / max(kinds, 1)
    real = simulated = None
    if runs:
        without = attack.real(False, runs)
        tell(3, PARTS)
        real = measure(*_scores(without, attack.real(True, runs)), delta, each)
    if seen[0] is not None and seen[1] is not None:
        simulated = measure(*_scores(seen[0], seen[1]), delta, each)
    if kinds == 0:
        raise UsageError("This attack has no simulated trials: it needs runs of the mechanism.")
    return real, simulated


def _scores(without: Array, with_: Array) -> tuple[Array, Array]:
    """The scores as they are, or learned ones where observations have several columns."""
    return (without, with_) if without.ndim == 1 else learned_scores(without, with_)
