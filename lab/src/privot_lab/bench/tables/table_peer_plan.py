"""One estimate of a graphical model as a plan: all arrays, and the order in which they are filled.

Potentials lie on the cliques of a tree. Beliefs are propagated with one exponential per clique: to the root with the
messages of the children, back by the ratio of the separator's two sums. Measurements of the same columns are one, and
all of them lie in one vector. `descend` is mirror descent by a plan; `table_peer_kernel.py` does the same in C. This
file imports nothing of privot; `table_peer_inference.py` says what it is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Names = tuple[str, ...]

LOWEST_SUM, LOWEST_TOP, HIGHEST_SUM = 1e-200, 1e-50, 1e200
"""Sums of exponentials beyond these have lost digits or are about to; the largest must not be below the second."""
SMALL = 4096
"""Cells of a clique below which passes cost less than calls."""
TRIALS = 25
"""Step sizes that one step of mirror descent tries."""


def cells_of(sizes: dict[str, int], names: Iterable[str]) -> int:
    """The cells of a table of some columns."""
    out = 1
    for name in names:
        out *= sizes[name]
    return out


def ranks(sizes: dict[str, int]) -> dict[str, int]:
    """The order of axes in all tables here: the longest is last, so that inner loops are long."""
    return {name: i for i, name in enumerate(sorted(sizes, key=lambda name: sizes[name]))}


class Sum(NamedTuple):
    """A sum over axes of one array into another, made once."""

    source: Any
    axes: tuple[int, ...]
    last: int
    out: Any

    def run(self) -> None:
        """The last axis, where it goes and is long, by a product with ones; the others as NumPy does."""
        if not self.axes:
            np.copyto(self.out, self.source)
        elif self.last:
            rows = self.source.reshape(-1, self.last) @ np.ones(self.last)
            rest = self.axes[:-1]
            np.add.reduce(rows.reshape(self.source.shape[:-1]), axis=rest, out=self.out)
        else:
            np.add.reduce(self.source, axis=self.axes, out=self.out)


def summed(source: Floats, have: Names, want: Names, out: Floats) -> Sum:
    """The sum of an array with axes `have` onto `want`, which keeps their order."""
    axes = tuple(i for i, name in enumerate(have) if name not in want)
    last = source.shape[-1] if axes and axes[-1] == len(have) - 1 else 0
    return Sum(source, axes, last, out)


def spread(values: Floats, have: Names, onto: Names) -> Floats:
    """A view of `values` that broadcasts against an array with axes `onto`; both are in the same order."""
    shape, sizes = [], dict(zip(have, values.shape, strict=True))
    for name in onto:
        shape.append(sizes.get(name, 1))
    return values.reshape(shape)


def between(whole: Names, parts: Iterable[Names], sizes: dict[str, int]) -> list[Names]:
    """Tables of all columns of `whole` but one that hold several of `parts`: through them fewer passes touch the whole.

    >>> between(tuple("abcd"), [("a", "b"), ("b", "c"), ("c", "d")], dict.fromkeys("abcd", 16))
    [('b', 'c', 'd')]
    """
    if cells_of(sizes, whole) < SMALL or len(whole) < 3:
        return []
    parts = set(parts)
    left = [part for part in parts if not any(set(part) < set(other) for other in parts) and len(part) < len(whole) - 1]
    out: list[Names] = []
    while len(left) > 1:
        dropped = max(whole, key=lambda name: (sum(name not in part for part in left), sizes[name]))
        if sum(dropped not in part for part in left) < 2:
            break
        out.append(tuple(name for name in whole if name != dropped))
        left = [part for part in left if dropped in part]
    return out


class Adder:
    """The sum of small tables over a whole one: those within a larger one are added to it first.

    `target` is filled with `base` (where it is given) plus every source, minus a scalar.
    """

    def __init__(self, whole: Names, target: Floats, sources: Sequence[tuple[Names, Floats]], sizes: dict[str, int],
                 base: Floats | None = None) -> None:  # fmt: skip
        self.target, self.base = target, base
        self.steps: list[tuple[Any, Any, Any]] = []
        tables: dict[Names, list[Floats]] = {}
        for names, values in sources:
            tables.setdefault(names, []).append(values)
        for names in between(whole, tables, sizes):
            tables.setdefault(names, [])
        tops: list[Floats] = []
        for names in sorted(tables, key=lambda held: (cells_of(sizes, held), len(held))):
            held = self._gathered(tables[names], tuple(sizes[name] for name in names))
            larger = [other for other in tables if set(names) < set(other)]
            if larger:
                onto = min(larger, key=lambda other: cells_of(sizes, other))
                tables[onto].append(spread(held, names, onto))
            else:
                tops.append(spread(held, names, whole))
        self.first = np.zeros(tops[0].shape) if tops else None
        self.tops = tops

    def _gathered(self, held: list[Floats], shape: tuple[int, ...]) -> Floats:
        """One table for all that are added to it: itself where it is the only one."""
        if len(held) == 1 and held[0].shape == shape:
            return held[0]
        out = np.zeros(shape)
        if len(held) == 1:
            held = [held[0], np.zeros(())]
        self.steps.append((held[0], held[1], out))
        self.steps += [(out, other, out) for other in held[2:]]
        return out

    def run(self, shift: float = 0.0) -> None:
        for left, right, out in self.steps:
            np.add(left, right, out=out)
        if self.first is None:
            if self.base is None:
                self.target.fill(-shift)
            else:
                np.subtract(self.base, shift, out=self.target)
            return
        np.subtract(self.tops[0], shift, out=self.first)
        rest = self.tops[1:]
        if self.base is not None:
            np.add(self.base, self.first, out=self.target)
        elif rest:
            np.add(self.first, rest[0], out=self.target)
            rest = rest[1:]
        else:
            np.copyto(self.target, self.first)
        for top in rest:
            np.add(self.target, top, out=self.target)


class Clique:
    """One clique: where its numbers lie, and what is summed out of it and added to it."""

    gather: Adder
    """Its belief: potentials and the messages of the children."""
    slope: Adder
    """Its gradient, from those of what is measured."""

    def __init__(self, names: Names, shape: tuple[int, ...], buffers: dict[str, Floats], start: int) -> None:
        self.names, self.shape = names, shape
        self.slice = slice(start, start + int(np.prod(shape, dtype=np.int64)))
        self.theta, self.belief, self.gradient = (
            buffers[name][self.slice].reshape(shape) for name in ("theta", "belief", "gradient")
        )
        self.sums: list[Sum] = []
        """Of the marginal, in order."""
        self.measured: list[Names] = []
        self.children: list[int] = []
        self.shift: float | None = None
        """What its belief was at most when it was last looked at; it changes little from step to step."""
        self.careful = False


class Link:
    """The separator between a clique and its parent."""

    def __init__(self, clique: Clique, above: Clique, sizes: dict[str, int]) -> None:
        self.names = tuple(name for name in clique.names if name in above.names)
        shape = tuple(sizes[name] for name in self.names)
        self.message, self.ratio, self.sums = (np.zeros(shape) for _ in range(3))
        self.up = summed(clique.belief, clique.names, self.names, self.sums)
        self.spread = spread(self.ratio, self.names, clique.names)
        self.above: Floats
        """The parent's marginal."""


class Plan:
    """All arrays of one estimate, and the order in which they are filled.

    `cliques` are in an order in which a parent is before its children; `parents` are their places, −1 for the first.
    `measured` maps columns to weights, means and the place of the clique that they belong to.
    """

    def __init__(
        self,
        sizes: dict[str, int],
        cliques: Sequence[Names],
        parents: Sequence[int],
        measured: dict[Names, tuple[Floats, Floats, int]],
        total: float,
    ) -> None:
        self.sizes, self.total, self.evaluations = sizes, total, 0
        order = ranks(sizes)
        ordered = [tuple(sorted(names, key=order.__getitem__)) for names in cliques]
        whole = sum(cells_of(sizes, names) for names in ordered)
        self.buffers = {name: np.zeros(whole) for name in ("theta", "belief", "gradient", "omega", "step")}
        self.cliques: list[Clique] = []
        start = 0
        for names in ordered:
            clique = Clique(names, tuple(sizes[name] for name in names), self.buffers, start)
            self.cliques.append(clique)
            start = clique.slice.stop
        self.links: list[Link | None] = [None] * len(parents)
        for i, parent in enumerate(parents):
            if parent >= 0:
                self.cliques[parent].children.append(i)
                self.links[i] = Link(self.cliques[i], self.cliques[parent], sizes)
        self._place(measured)
        for i, clique in enumerate(self.cliques):
            self._plan(clique, [names for names, found in measured.items() if found[2] == i])

    def _place(self, measured: dict[Names, tuple[Floats, Floats, int]]) -> None:
        """One vector for all that is measured: marginals, means, weights and gradient."""
        count = sum(cells_of(self.sizes, names) for names in measured)
        self.answers, self.residual, self.gradient = (np.zeros(count) for _ in range(3))
        self.means, self.weights = np.zeros(count), np.zeros(count)
        self.where: dict[Names, slice] = {}
        start = 0
        for names, (weights, means, _) in measured.items():
            place = slice(start, start + cells_of(self.sizes, names))
            self.where[names], start = place, place.stop
            self.weights[place], self.means[place] = weights.ravel(), means.ravel()

    def _table(self, vector: Floats, names: Names) -> Floats:
        return vector[self.where[names]].reshape([self.sizes[name] for name in names])

    def below(self, clique: Clique) -> list[Link]:
        """The separators to the children of a clique."""
        return [link for link in (self.links[child] for child in clique.children) if link is not None]

    def messages(self, clique: Clique) -> list[tuple[Names, Floats]]:
        """The messages of the children of a clique."""
        return [(link.names, link.message) for link in self.below(clique)]

    def tables(self, clique: Clique, vector: Floats) -> list[tuple[Names, Floats]]:
        """What a clique has in a vector over all that is measured."""
        return [(names, self._table(vector, names)) for names in clique.measured]

    def _plan(self, clique: Clique, measured: list[Names]) -> None:
        """What is added to a clique, and what is summed out of it: each table from the smallest one that holds it."""
        clique.measured = measured
        clique.gather = Adder(clique.names, clique.belief, self.messages(clique), self.sizes, clique.theta)
        clique.slope = Adder(clique.names, clique.gradient, self.tables(clique, self.gradient), self.sizes)
        wanted = {names: self._table(self.answers, names) for names in measured}
        for link in self.below(clique):
            link.above = wanted.setdefault(link.names, np.zeros(link.sums.shape))
        for names in between(clique.names, wanted, self.sizes):
            wanted.setdefault(names, np.zeros([self.sizes[name] for name in names]))
        known: dict[Names, Floats] = {clique.names: clique.belief}
        for names in sorted(wanted, key=lambda held: (cells_of(self.sizes, held), len(held)), reverse=True):
            source = min((held for held in known if set(names) <= set(held)), key=lambda h: cells_of(self.sizes, h))
            clique.sums.append(summed(known[source], source, names, wanted[names]))
            known[names] = wanted[names]

    def _upward(self, clique: Clique, link: Link | None) -> None:
        """Exponentials of a clique, and its message."""
        belief = clique.belief
        if clique.shift is None:
            clique.gather.run()
            clique.shift = float(belief.max())
        if not clique.careful:
            # what the belief was at most a step ago is near enough, unless sums say that it is not
            for _ in range(2):
                clique.gather.run(clique.shift)
                np.exp(belief, out=belief)
                if link is None:
                    self.whole = float(belief.sum())
                    low = high = self.whole
                else:
                    link.up.run()
                    low, high = float(link.sums.min()), float(link.sums.max())
                if low >= LOWEST_SUM and LOWEST_TOP <= high <= HIGHEST_SUM:
                    if link is not None:
                        np.log(link.sums, out=link.message)
                        link.message += clique.shift
                    return
                clique.gather.run()
                clique.shift = float(belief.max())
            clique.careful = True
        # one highest value for each cell of the separator
        clique.gather.run()
        axes = None if link is None else link.up.axes
        tops = belief.max(axis=axes, keepdims=True)
        belief -= tops
        np.exp(belief, out=belief)
        if link is None:
            self.whole = float(belief.sum())
            return
        link.up.run()
        np.log(link.sums, out=link.message)
        link.message += tops.reshape(link.sums.shape)

    def propagate(self) -> float:
        """Marginals from the potentials `theta`: all measured ones in `answers`, whole ones in `belief`; the loss."""
        self.evaluations += 1
        with np.errstate(over="ignore"):
            for clique, link in zip(reversed(self.cliques), reversed(self.links), strict=True):
                self._upward(clique, link)
        for clique, link in zip(self.cliques, self.links, strict=True):
            belief = clique.belief
            if link is None:
                belief *= self.total / self.whole
            else:
                np.divide(link.above, link.sums, out=link.ratio)
                belief *= link.spread
            for step in clique.sums:
                step.run()
        np.subtract(self.answers, self.means, out=self.residual)
        np.multiply(self.residual, self.weights, out=self.gradient)
        return 0.5 * float(self.residual @ self.gradient)

    def whole_gradient(self) -> None:
        """The gradient over whole cliques, of the one over what is measured."""
        for clique in self.cliques:
            clique.slope.run()


def descend(plan: Plan, iterations: int, constant: float) -> float:
    """Mirror descent with a line search; `plan` holds the last potentials and marginals afterwards, the loss is given.

    A step that lowers the loss by at least half of what its gradient promises is taken; otherwise it is halved, at most
    `TRIALS` times. The next step begins at twice the last size.
    """
    theta, omega, step, whole = (plan.buffers[name] for name in ("theta", "omega", "step", "gradient"))
    loss = plan.propagate()
    if loss + constant == 0.0:
        return 0.0
    alpha = 1.0 / plan.total**2
    before, slope = np.empty_like(plan.answers), np.empty_like(plan.gradient)
    for _ in range(iterations):
        np.copyto(omega, theta)
        np.copyto(before, plan.answers)
        np.copyto(slope, plan.gradient)
        plan.whole_gradient()
        current = loss
        alpha *= 2.0
        for _ in range(TRIALS):
            np.multiply(whole, alpha, out=step)
            np.subtract(omega, step, out=theta)
            loss = plan.propagate()
            if current - loss >= 0.5 * alpha * float(slope @ (before - plan.answers)):
                break
            alpha *= 0.5
    return loss + constant
