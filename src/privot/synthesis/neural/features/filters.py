"""Features of filter outputs, averaged over regions of an image; drawn from a recorded seed, without any record.

A network that classifies images uses edges and textures, wherever in a region they lie. Pixels compared one by one
(`fourier.Fourier`) carry little of that information; these features carry it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from privot.common.image_axes import image_axes
from privot.errors import UsageError
from privot.synthesis.neural.features.filter_banks import Bank
from privot.synthesis.neural.features.fourier import Fourier, kept_on, public_range, register, to_unit
from privot.transport.slice_directions import check_seed

_STRIDE = 2
"""Pixels between the positions of a bank that no second bank reads."""


class Filtered:
    """φ(x) = Fourier(u(x)), u the outputs of a `Bank` of `filters` of `width` × `width` in regions of `cell` pixels.

    x is scaled from [`low`, `high`] to [0, 1]; u has the gain cell/√F. With `then` = (F₂, width₂, cell₂, stride₂),
    where stride₂ is 1 by default, a second bank is applied to the outputs of the first at every position: corners,
    crossings, textures, the second order of a scattering network with random filters (Bruna & Mallat 2013); u is then
    the output of the second, with the gain cell₂·√(F/F₂). `bandwidths` are those of `Fourier` in the unit of u. The
    norm of φ is exactly 1.

    In float64 everything is as exact as there: x lies on a grid of 2⁻¹⁶, a bank's outputs are exact, and they are put
    on such a grid again before the next bank or `Fourier` reads them.
    """

    kind = "filtered"
    rounding = Fourier.rounding

    def __init__(
        self,
        shape: Sequence[int],
        filters: int,
        frequencies: int,
        bandwidths: Sequence[float],
        seed: int,
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
        width: int = 5,
        cell: int = 4,
        then: Sequence[int] | None = None,
    ) -> None:
        self.shape, self.seed = tuple(int(s) for s in shape), check_seed(seed)
        axes = image_axes(self.shape)
        self.dim = math.prod(axes[:3])
        self.low, self.high = public_range(low, high, self.dim)

        def drawn(which: int) -> np.random.SeedSequence:
            return np.random.SeedSequence(self.seed, spawn_key=(which,))

        first = Bank(axes, filters, width, cell, _STRIDE if then is None else 1, drawn(2))
        self.banks: tuple[Bank, ...] = (first,)
        if then is not None:
            if len(then) not in (3, 4):
                raise UsageError("A second bank has a number of filters, their width, the side of a region, a stride.")
            # in the unit of the first bank's outputs, times √F, which its gain was divided by
            unit = first.most * math.sqrt(first.filters)
            filters, width, cell, stride = (*then, 1)[:4]
            self.banks = (first, Bank(first.out, filters, width, cell, stride, drawn(3), unit, each=True))
        last = self.banks[-1]
        # not orthogonal: among thousands of columns directions nearly are, and a frame takes minutes to draw
        scaled = [h / last.most for h in bandwidths]
        self.inner = Fourier(last.size, frequencies, scaled, self.seed, 0.0, last.most, "independent")
        self.bandwidths = tuple(float(h) for h in bandwidths)

    @property
    def size(self) -> int:
        """A cosine and a sine for every frequency."""
        return self.inner.size

    def seen(self, x: torch.Tensor) -> torch.Tensor:
        """u, of shape (rows, regions · filters)."""
        _, low, span = kept_on(self, x, lambda: (0.0, self.low, self.high))
        seen = self.banks[0].seen(to_unit(x, low, span))
        for before, bank in pairwise(self.banks):
            seen = bank.seen(to_unit(seen, seen.new_zeros(()), seen.new_full((), before.most)))
        return seen

    def plain(self, x: torch.Tensor, known: dict[str, torch.Tensor] | None = None) -> tuple[torch.Tensor, float]:
        """u/f and f, of generated samples on a GPU, where multiplying by f would be another pass over large arrays.

        The outputs of the first bank for this x are kept in `known`, if given.
        """
        _, low, span = kept_on(self, x, lambda: (0.0, self.low, self.high))
        held, name = {} if known is None else known, repr((self.banks[0].name, self.low, self.high))
        if name not in held:
            held[name] = self.banks[0].plain(to_unit(x, low, span))
        seen, factor = held[name], self.banks[0].gain
        for before, bank in pairwise(self.banks):
            seen, factor = bank.plain(seen), factor * bank.gain / before.most
        return seen, factor

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, size) from (rows, dim)."""
        return self.inner.features(self.seen(x))

    def to_dict(self) -> dict[str, Any]:
        """All it takes to draw the map again."""
        first, *others = self.banks
        last = self.banks[-1]
        then = {"then": [last.filters, last.width, last.cell, last.stride]} if others else {}
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "filters": first.filters,
            "frequencies": self.inner.frequencies,
            "bandwidths": list(self.bandwidths),
            "seed": self.seed,
            "low": self.low,
            "high": self.high,
            "width": first.width,
            "cell": first.cell,
            **then,
        }


@register("filtered")
def _filtered(fields: Mapping[str, Any]) -> Filtered:
    names = ("shape", "filters", "frequencies", "bandwidths", "seed", "low", "high", "width", "cell")
    return Filtered(**{name: fields[name] for name in names}, then=fields.get("then"))
