"""Checks the arguments of a vault before it takes them; it keeps none of them, and its refusals quote no record."""

from __future__ import annotations

from typing import Any

from privot.common.arguments import check_delta, check_epsilon
from privot.errors import UsageError
from privot.kinds import Kind, Vectors, as_kind
from privot.noise import NoiseSource, SystemNoise
from privot.noise.kept_noise import KeptNoise
from privot.vault.record_sources import RecordSource

CLIP_RANGE = (1e-100, 1e100)
"""Bounds on norms for which neither a squared norm nor σ leaves the floats."""


def check_clip(clip: Any) -> None:
    """Refuse a clip that is not a number in `CLIP_RANGE`."""
    if isinstance(clip, bool) or not isinstance(clip, int | float) or not CLIP_RANGE[0] <= clip <= CLIP_RANGE[1]:
        raise UsageError(f"The clip must be a number from {CLIP_RANGE[0]:g} to {CLIP_RANGE[1]:g}, got {clip!r}.")


def stated_kind(
    kind: Any, source: RecordSource, clip: float | None, classes: int | None
) -> tuple[Kind, Any, int | None]:
    """What the records are, with the clip and the number of classes: from the kind where it says them.

    The kind is the one that is stated, else what the source says of itself, else plain vectors.
    """
    found = (source.kind or Vectors()) if kind is None else as_kind(kind)
    if kind is not None and found.by_schema and any(given is not None for given in (clip, classes)):
        raise UsageError("A schema says the clip and the classes of a table: leave out clip, classes, shape.")
    if kind is not None and clip is not None and found.clip not in (None, clip):
        raise UsageError("The clip is said twice, and differently: leave it to the kind.")
    known = (found.count if source.labelled else None) if classes is None else classes
    return found, found.clip if clip is None else clip, known


def checked_budget(budget: Any) -> tuple[float, float]:
    """The pair (ε, δ) of a budget."""
    try:
        epsilon, delta = budget
    except (TypeError, ValueError):
        raise UsageError(f"Expected a budget (ε, δ), a pair of numbers, got {type(budget).__name__}.") from None
    return check_epsilon(epsilon), check_delta(delta)


def checked_terms(ledger: Any, budget: Any) -> tuple[float, float] | None:
    """The (ε, δ) of a vault's budget, None where the ledger has to know one; refuses a vault with neither."""
    if ledger is None and budget is None:
        raise UsageError("A vault needs a budget: give it a ledger, or budget=(ε, δ).")
    return None if budget is None else checked_budget(budget)


def checked_noise(noise: NoiseSource | None) -> NoiseSource:
    """The noise of a vault: the operating system's unless another is given."""
    if isinstance(noise, KeptNoise):
        # the same for everything asked of it: two releases, or two vaults, would show what differs between them
        raise UsageError("Noise from a kept secret serves one release: leave noise out, and use release_once.")
    return SystemNoise() if noise is None else noise
