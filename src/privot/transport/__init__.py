"""Optimal transport, usable alone: exact, entropic, sliced, one-dimensional. It knows nothing of privacy.

NumPy arrays in, NumPy out; tensors in, tensors out, with gradients, on the device they came from. Every
function answers with a result whose `.value` is the answer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privot.extras import needing

if TYPE_CHECKING:
    from privot.transport.barycenter import free_support_barycenter
    from privot.transport.calibration import calibrated_gradients
    from privot.transport.costs import with_labels
    from privot.transport.directions import draw_directions
    from privot.transport.divergence import semi_debiased, sinkhorn_divergence
    from privot.transport.entropic import sinkhorn
    from privot.transport.geometry import barycentric_map, bures, interpolate
    from privot.transport.label_aware import otdd
    from privot.transport.one_dimensional import wasserstein_1d
    from privot.transport.optimal import exact
    from privot.transport.slicing import max_sliced, sliced

__all__ = [
    "barycentric_map",
    "bures",
    "calibrated_gradients",
    "draw_directions",
    "exact",
    "free_support_barycenter",
    "interpolate",
    "max_sliced",
    "otdd",
    "semi_debiased",
    "sinkhorn",
    "sinkhorn_divergence",
    "sliced",
    "wasserstein_1d",
    "with_labels",
]

# Imported when first asked for: drawing directions needs no tensors, and the barrier draws them. No module is
# called what a function is called, or importing the module would hide the function.
_HOMES = {
    "barycentric_map": "geometry",
    "bures": "geometry",
    "calibrated_gradients": "calibration",
    "draw_directions": "directions",
    "exact": "optimal",
    "free_support_barycenter": "barycenter",
    "interpolate": "geometry",
    "max_sliced": "slicing",
    "otdd": "label_aware",
    "semi_debiased": "divergence",
    "sinkhorn": "entropic",
    "sinkhorn_divergence": "divergence",
    "sliced": "slicing",
    "wasserstein_1d": "one_dimensional",
    "with_labels": "costs",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        with needing("Transport needs", "torch"):
            return getattr(import_module(f"privot.transport.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'privot.transport' has no attribute {name!r}")
