"""How alike the children of one parent are drawn: correlated places in each child's own laws; it sees no record.

A child's column k is drawn by the inverse of its law, x = F⁻¹(u | parent, columns before), u even on [0, 1]. Siblings i
get u = Φ(z) of normal z with variance 1 and correlation ρ_k between any two of them, independent over columns. Every
child still has exactly the law that it would have alone, beside its parent's columns; only what siblings have in common
changes. With m of them,

    z_i = √(1 − ρ)·(e_i − ē) + √(1 + (m − 1)·ρ)·ē,   e independent normal, ē their mean,   ρ ≥ −1/(m − 1).

ρ_k is found one column after another, in the order in which they are drawn: pairs of siblings are drawn from the model
beside drawn parents, and ρ is moved until they are as alike as the release says (`sibling_likeness`), which grows with
ρ. (A Gaussian copula over siblings: Nelsen 2006, section 2.3.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from privot.mechanisms.table_counts.sibling_likeness import PARTS, SiblingSums
from privot.synthesis.tabular.column_laws.conditional import Floats, probabilities
from privot.synthesis.tabular.table_model import TableModel

Ints = NDArray[np.int64]
MOST_ALIKE = 0.99
PAIRS = 20_000
"""Pairs of siblings that are drawn to find ρ."""
_HALVINGS = 16


def places_in_laws(owner: Ints, likeness: Floats, rng: np.random.Generator) -> Floats:
    """u of every child in every column, (children, columns), siblings alike; `owner` is the parent of each child."""
    drawn = rng.standard_normal((len(owner), len(likeness)))
    parents = int(owner.max()) + 1 if len(owner) else 0
    number = np.bincount(owner, minlength=parents)
    sums = np.stack([np.bincount(owner, drawn[:, k], parents) for k in range(len(likeness))], axis=1)
    mean = sums / np.maximum(number, 1)[:, None]
    # siblings of a parent with many children cannot be more unlike than this
    rho = np.maximum(likeness[None, :], -1.0 / np.maximum(number - 1, 1)[:, None])
    apart, shared = np.sqrt(1.0 - rho), np.sqrt(np.maximum(1.0 + (number[:, None] - 1) * rho, 0.0))
    out: Floats = ndtr(apart[owner] * (drawn - mean[owner]) + shared[owner] * mean[owner])
    return out


def fit_likeness(
    model: TableModel,
    context: Floats,
    released: Floats,
    sigma: float,
    summed: SiblingSums,
    most: int,
    rng: np.random.Generator,
) -> Floats:
    """ρ of every column of a child, and of its label where there is one.

    Parameters
    ----------
    model
        The model of children beside their parents.
    context
        Columns of drawn parents with at least two children.
    released, sigma
        The noisy sums of `summed` over real parents, and their noise.
    most
        The most children of a parent.
    """
    columns, given = len(summed.axes), context.shape[1]
    parents = max(float(released[-1]), 1.0)
    wanted, noise = released[:-1] / parents, sigma / parents
    out = np.zeros(columns)
    if not len(context):
        return out
    taken = context[rng.integers(0, len(context), PAIRS)]
    groups = np.zeros((2, PAIRS, len(model.codec.features)), dtype=np.int64)
    for place in range(given):
        groups[:, :, place] = model.levels.groups[place][model.axes[place].index(taken, None)]
    # the fitted model's groups are those of the release
    for factor in model.factors:
        if factor.column is not None and factor.column < given:
            continue
        k = columns - 1 if factor.column is None else factor.column - given
        ends = [probabilities(model.levels.one_hot(own, factor.features), factor.theta, factor.bias) for own in groups]
        for own in ends:
            np.cumsum(own, axis=1, out=own)
        first, other = rng.standard_normal((2, PAIRS))
        one = _at(ends[0], first)

        def alike(rho: float) -> tuple[float, Ints]:
            two = _at(ends[1], rho * first + (1.0 - rho**2) ** 0.5 * other)  # noqa: B023
            return _likeness(one, two, summed.ranks[k]), two  # noqa: B023

        start = alike(0.0)[0]
        aim = start + _shrunk(wanted[k] - start, noise)
        low, high = -1.0 / max(most - 1, 1), MOST_ALIKE
        low, high = (0.0, high) if aim >= start else (max(low, -MOST_ALIKE), 0.0)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if alike(middle)[0] < aim else (low, middle)
        out[k] = 0.5 * (low + high) if aim != start else 0.0
        two = alike(float(out[k]))[1]
        if factor.column is not None:
            groups[0, :, factor.column], groups[1, :, factor.column] = one, two
    return out


def _shrunk(found: float, noise: float) -> float:
    """`found` less what noise of this deviation makes: found·(1 − noise²/found²), and 0 where that is negative."""
    return found * max(1.0 - (noise / found) ** 2, 0.0) if found else 0.0


def _at(ends: Floats, normal: Floats) -> Ints:
    """The value of every row whose law has the cumulative shares `ends`, at the place Φ(`normal`)."""
    at = ndtr(normal)[:, None] * ends[:, -1:]
    return np.asarray((ends <= at).sum(axis=1).clip(max=ends.shape[1] - 1), dtype=np.int64)


def _likeness(one: Ints, two: Ints, ranks: Sequence[int] | None) -> float:
    """What the release measures, of drawn pairs."""
    if ranks is None:
        return float((one == two).mean())
    rank = np.asarray(ranks, dtype=np.float64) / PARTS
    return float((rank[one] * rank[two]).mean())
