"""Which pairs of columns go together in the released counts and not in the synthetic rows; it sees no record.

The fit draws what noise could have made towards independence, and a model of few parents may miss what is there. With
D the released counts of a pair less those of independent columns, in records, V what noise and chance alone make of
‖D‖² (the noise's variance and the expected records, added up over free cells), the pair is seen where ‖D‖² is far
above V, and E, the same as D in the synthetic rows, keeps

    ⟨D, E⟩ / (‖D‖² − V)

of it: about 1 where the model follows the counts, about 0 where it makes the columns independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.mechanisms.table_counts.cell_axes import Axis
from privot.synthesis.tabular.column_laws.consistent_marginals import Estimates

SEEN = 6.0
"""Deviations of ‖D‖² under noise and chance alone by which it must exceed V for a pair to be seen."""
KEPT = 0.5
"""Less than this share of what is seen is a loss."""
MAX_NAMED = 5


@dataclass(frozen=True)
class LostLink:
    """Two columns, by place, the share of their link that is `kept`, and how clearly the released counts show it."""

    columns: tuple[int, int]
    kept: float
    clear: float


def lost_links(known: Estimates, axes: Sequence[Axis], rows: NDArray[np.float64]) -> list[LostLink]:
    """The lost ones, the clearest first; `axes` are the cells of the release, `rows` compact synthetic ones."""
    codes = [groups[axis.index(rows, None)] for axis, groups in zip(axes, known.groups, strict=True)]
    out = []
    for i, j in known.pairs:
        table = known.two(i, j)
        free = (table.shape[0] - 1) * (table.shape[1] - 1)
        if free < 1:
            continue
        left, right = table.sum(axis=1), table.sum(axis=0)
        seen = known.records * (table - np.outer(left, right))
        chance = known.records * np.outer(np.clip(left, 0.0, 1.0), np.clip(right, 0.0, 1.0))
        variance = (known.two_spread(i, j) ** 2 + chance) * free / table.size
        link = float(np.square(seen).sum() - variance.sum())
        clear = link / float(2.0 * np.square(variance).sum()) ** 0.5
        if clear < SEEN:
            continue
        made = np.bincount(codes[i] * table.shape[1] + codes[j], minlength=table.size).reshape(table.shape) / len(rows)
        drawn = known.records * (made - np.outer(made.sum(axis=1), made.sum(axis=0)))
        kept = float((seen * drawn).sum()) / link
        if kept < KEPT:
            out.append(LostLink((i, j), kept, clear))
    return sorted(out, key=lambda lost: -lost.clear)


def lost_sentences(lost: Sequence[LostLink], names: Sequence[str]) -> list[str]:
    """A sentence for each of the clearest, and one for all others."""
    out = [
        f"The released counts say that {names[i]} and {names[j]} go together, and the synthetic rows have "
        f"{max(link.kept, 0.0):.0%} of it: do not judge this pair by them."
        for link in lost[:MAX_NAMED]
        for i, j in [link.columns]
    ]
    more = len(lost) - MAX_NAMED
    return [*out, *([f"So it is with {more} more pair{'s' if more > 1 else ''} of columns."] if more > 0 else [])]
