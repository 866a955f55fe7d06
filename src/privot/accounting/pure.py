"""Pure differential privacy: ε at δ = 0, where a mechanism has one; it composes by adding up."""

from __future__ import annotations

import math

from privot.accounting.events import Event, Laplace, Renyi, Sampled, leaves

_UP = 1.0 + 1e-12
"""What rounding of a few exponentials, logarithms and a sum may take."""


def pure_epsilon(event: Event) -> float:
    """ε at δ = 0 of everything in `event`; infinite where some step has none, as all Gaussian noise.

    Notes
    -----
    Formal guarantees:
      * Laplace noise of scale b on a number of sensitivity Δ is Δ/b-DP;
      * of an ε-DP mechanism on a sample of share q, ln(1 + q·(e^ε − 1)): Poisson sampling under add-remove and sampling
        without replacement under replace-one;
      * steps add up, also where each depends on what the earlier ones released.

    References
    ----------
    Dwork, McSherry, Nissim & Smith 2006, "Calibrating noise to sensitivity in private data analysis"; Balle, Barthe &
    Gaboardi 2018, "Privacy amplification by subsampling" (theorems 8 and 9).

    Examples
    --------
    >>> from privot import Adjacency
    >>> from privot.accounting import Laplace, Repeated
    >>> round(pure_epsilon(Repeated(Laplace(4.0, 1.0, Adjacency.ADD_REMOVE), 10)), 9)
    2.5
    """
    parts = [times * _one(step) for step, times in leaves(event)]
    return math.fsum(parts) * _UP if all(map(math.isfinite, parts)) else math.inf


def _one(step: Event) -> float:
    if isinstance(step, Sampled):
        inner, share = _one(step.event), step.sampling.share
        # where e^ε would overflow: ln(1 + q(e^ε − 1)) ≤ ε
        return math.log1p(share * math.expm1(inner)) if inner < 700.0 else inner
    if isinstance(step, Laplace):
        return step.sensitivity / step.scale
    return step.pure if isinstance(step, Renyi) else math.inf
