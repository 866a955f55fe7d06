"""Optimal transport, usable alone: exact, entropic, sliced, one-dimensional. It knows nothing of privacy.

NumPy arrays in, NumPy out; tensors in, tensors out, with gradients, on the device they came from. Every
function answers with a result whose `.value` is the answer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privot.common.extras import needing

if TYPE_CHECKING:
    from privot.transport._barycenter import free_support_barycenter
    from privot.transport._divergences import sinkhorn_divergence
    from privot.transport._exact import exact
    from privot.transport._lava import calibrated_gradients
    from privot.transport._maps import barycentric_map, bures, interpolate
    from privot.transport._otdd import otdd
    from privot.transport._sinkhorn import sinkhorn
    from privot.transport._sliced import max_sliced, sliced
    from privot.transport._univariate import wasserstein_1d
    from privot.transport.slice_directions import draw_directions

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
    "sinkhorn",
    "sinkhorn_divergence",
    "sliced",
    "wasserstein_1d",
]

# Imported when first asked for: drawing directions needs no tensors, and the barrier draws them. No module is
# called what a function is called, or importing the module would hide the function.
_HOMES = {
    "barycentric_map": "_maps",
    "bures": "_maps",
    "calibrated_gradients": "_lava",
    "draw_directions": "slice_directions",
    "exact": "_exact",
    "free_support_barycenter": "_barycenter",
    "interpolate": "_maps",
    "max_sliced": "_sliced",
    "otdd": "_otdd",
    "sinkhorn": "_sinkhorn",
    "sinkhorn_divergence": "_divergences",
    "sliced": "_sliced",
    "wasserstein_1d": "_univariate",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        with needing("Transport needs", "torch"):
            return getattr(import_module(f"privot.transport.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'privot.transport' has no attribute {name!r}")
