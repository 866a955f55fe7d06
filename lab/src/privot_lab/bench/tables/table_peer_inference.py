"""The inference of `dpmm` 0.1.9 from plans made once per estimate: the same steps and numbers, in a part of the time.

`dpmm` fits a graphical model by mirror descent. Its time goes to thousands of small objects, not to arithmetic.
`install` puts three things in their place in this process; in the peers' interpreter this file imports nothing of
privot.

Mirror descent (`table_peer_plan.py`, and `table_peer_kernel.py` in C) has the same steps, step sizes, tests and order
as `FactoredInference.mirror_descent`. Measurements of the same columns are one: their weighted mean, and a constant.
Only rounding differs.

A marginal of two columns that share no clique (`Pairs`) is a product of conditionals along the tree of cliques, in
place of an elimination of all other columns. The size of a model with one more clique (`model_cells`) needs the cliques
of the triangulated graph, but no tree and no order of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_letters
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or __package__:
    from privot_lab.bench.tables.table_peer_kernel import descend
    from privot_lab.bench.tables.table_peer_plan import Floats, Names, Plan, cells_of, ranks
else:
    # the peers' interpreter has no privot
    from table_peer_kernel import descend
    from table_peer_plan import Floats, Names, Plan, cells_of, ranks


def diagonal(matrix: Any) -> Floats | None:
    """The diagonal of a diagonal matrix of measurements, and nothing for another one.

    >>> diagonal(np.diag([1.0, 0.5]))
    array([1. , 0.5])
    """
    if type(matrix).__name__ == "Identity":
        return np.ones(matrix.shape[0])
    if matrix.shape[0] != matrix.shape[1]:
        return None
    held = np.asarray(matrix.diagonal(), dtype=float)
    entries = int(matrix.count_nonzero()) if hasattr(matrix, "count_nonzero") else int(np.count_nonzero(matrix))
    return held if entries == int(np.count_nonzero(held)) and np.all(held != 0.0) else None


def merged(found: list[tuple[Floats, Floats, float]]) -> tuple[Floats, Floats, float]:
    """Measurements of one marginal as one: weights, means, and what the loss has beyond ½ Σ weight (x − mean)².

    Each is a diagonal q, answers y and a scale s, with the loss ½ Σ ((q x − y) / s)².

    >>> weights, means, rest = merged([(np.ones(1), np.array([1.0]), 1.0), (np.ones(1), np.array([3.0]), 1.0)])
    >>> weights, means, rest
    (array([2.]), array([2.]), 1.0)
    """
    weights = np.zeros_like(found[0][1])
    pull = np.zeros_like(weights)
    for q, y, scale in found:
        weights += (q / scale) ** 2
        pull += q * y / scale**2
    means = pull / weights
    rest = sum(0.5 * float(np.sum(((q * means - y) / scale) ** 2)) for q, y, scale in found)
    return weights, means, rest


def rooted(cliques: Sequence[Any], neighbors: Any) -> tuple[list[Any], list[int]]:
    """Cliques of a tree from the first one on, each after its parent, and the places of the parents."""
    order, parents, place = [cliques[0]], [-1], {cliques[0]: 0}
    for clique in order:
        for other in sorted(neighbors[clique]):
            if other not in place:
                place[other] = len(order)
                order.append(other)
                parents.append(place[clique])
    return order, parents


def plan_of(engine: Any) -> tuple[Plan, float] | None:
    """The plan of an engine that is set up, and the constant of its loss; nothing where matrices are not diagonal."""
    model = engine.model
    sizes = {name: int(model.domain[name]) for name in model.domain}
    order, parents = rooted(model.cliques, model.neighbors)
    if len(order) != len(model.cliques):
        return None
    rank = ranks(sizes)
    found: dict[Names, list[tuple[Floats, Floats, float]]] = {}
    owner: dict[Names, int] = {}
    for i, clique in enumerate(order):
        for matrix, answers, scale, names in engine.groups[clique]:
            q = diagonal(matrix)
            if q is None:
                return None
            shape = [sizes[name] for name in names]
            axes = sorted(range(len(names)), key=lambda k: rank[names[k]])
            turned = [np.transpose(np.asarray(v, float).reshape(shape), axes).ravel() for v in (q, answers)]
            key = tuple(names[k] for k in axes)
            found.setdefault(key, []).append((turned[0], turned[1], float(scale)))
            owner[key] = i
    parts = {names: merged(held) for names, held in found.items()}
    measured = {names: (weights, means, owner[names]) for names, (weights, means, _) in parts.items()}
    plan = Plan(sizes, order, parents, measured, float(model.total))
    for clique, names in zip(plan.cliques, order, strict=True):
        values = model.potentials[names].values
        np.copyto(clique.theta, np.transpose(values, [names.index(name) for name in clique.names]))
    return plan, sum(rest for _, _, rest in parts.values())


def fast_descent(plain: Any, vector: Any, factor: Any) -> Any:
    """`FactoredInference.mirror_descent` by a plan, and as it was where there is none."""

    def mirror_descent(
        engine: Any, measurements: Any, total: Any = None, stepsize: Any = None, callback: Any = None
    ) -> Any:
        if engine.metric != "L2" or stepsize is not None or callback is not None or engine.structural_zeros:
            return plain(engine, measurements, total, stepsize, callback)
        kept = engine.__dict__.get("model")
        engine._setup(measurements, total)
        made = plan_of(engine)
        if made is None:
            if kept is not None:
                engine.model = kept
            return plain(engine, measurements, total)
        plan, constant = made
        loss = descend(plan, engine.iters, constant)
        engine.evaluations = plan.evaluations
        model = engine.model
        held = {tuple(sorted(clique.names)): clique for clique in plan.cliques}
        for name in ("potentials", "marginals"):
            values = {}
            for names in model.cliques:
                clique = held[tuple(sorted(names))]
                array = clique.theta if name == "potentials" else clique.belief
                turned = np.transpose(array, [clique.names.index(column) for column in names])
                values[names] = factor(model.domain.project(names), np.array(turned, order="C"))
            setattr(model, name, vector(values))
        return loss

    return mirror_descent


class Pairs:
    """Marginals of pairs of columns that share no clique, from the marginals of the cliques of a tree.

    From a clique that holds the first column to one that does not, the joint marginal with the separator is known; each
    further clique multiplies it by its own marginal given the separator and sums what is not wanted.
    """

    def __init__(self, model: Any) -> None:
        self.marginals, self.neighbors, self.domain = model.marginals, model.neighbors, model.domain
        self.letter = dict(zip(model.domain, ascii_letters, strict=False))
        self.conditional: dict[tuple[Names, Names, Names], Floats] = {}
        self.rows: dict[str, dict[str, Floats]] = {}

    def _letters(self, names: Iterable[str]) -> str:
        return "".join(self.letter[name] for name in names)

    def _given(self, clique: Names, separator: Names, wanted: Names) -> Floats:
        """P(separator ∪ wanted) / P(separator) of a clique, zero where the separator has no mass."""
        key = clique, separator, wanted
        if key not in self.conditional:
            both = separator + tuple(name for name in wanted if name not in separator)
            joint = self.marginals[clique].project(both).values
            mass = joint.sum(axis=tuple(range(len(separator), len(both))), keepdims=True)
            self.conditional[key] = np.divide(joint, mass, out=np.zeros_like(joint), where=mass > 0.0)
        return self.conditional[key]

    def row(self, first: str) -> dict[str, Floats]:
        """The marginals of one column with every column that shares no clique with it."""
        if first in self.rows:
            return self.rows[first]
        out: dict[str, Floats] = {}
        known = {name for clique in self.marginals if first in clique for name in clique}
        edges = [(clique, other) for clique in self.marginals if first in clique
                 for other in self.neighbors[clique] if first not in other]  # fmt: skip
        todo = []
        for clique, other in edges:
            separator = tuple(name for name in other if name in clique)
            todo.append((clique, other, separator, self.marginals[clique].project((first, *separator)).values))
        while todo:
            before, clique, separator, joint = todo.pop()
            here = self._letters((first, *separator))
            for name in clique:
                if name not in known and name not in out:
                    given = self._letters((*separator, name))
                    step = f"{here},{given}->{self._letters((first, name))}"
                    out[name] = np.einsum(step, joint, self._given(clique, separator, (name,)), optimize=True)
            for other in self.neighbors[clique]:
                if other == before:
                    continue
                wanted = tuple(name for name in other if name in clique)
                given = self._letters(separator + tuple(name for name in wanted if name not in separator))
                step = f"{here},{given}->{self._letters((first, *wanted))}"
                further = np.einsum(step, joint, self._given(clique, separator, wanted), optimize=True)
                todo.append((clique, other, wanted, further))
        self.rows[first] = out
        return out

    def pair(self, first: str, second: str) -> Floats | None:
        return self.row(first).get(second)


def fast_project(plain: Any, factor: Any) -> Any:
    """`GraphicalModel.project`, where two columns that share no clique go along the tree."""

    def project(model: Any, columns: Any) -> Any:
        names = tuple(columns)
        marginals = getattr(model, "marginals", None)
        if len(names) != 2 or marginals is None or any(set(names) <= set(clique) for clique in model.cliques):
            return plain(model, columns)
        held = getattr(model, "_pairs", None)
        if held is None or held.marginals is not marginals:
            held = model._pairs = Pairs(model)
        found = held.pair(*names)
        return plain(model, columns) if found is None else factor(model.domain.project(names), found)

    return project


def model_cells(sizes: dict[str, int], cliques: Iterable[Names]) -> int:
    """The cells of all maximal cliques, when columns are eliminated in the order of the smallest next table.

    >>> model_cells({"a": 2, "b": 3, "c": 5}, [("a", "b"), ("b", "c")])
    21
    """
    near: dict[str, set[str]] = {name: set() for name in sizes}
    for clique in cliques:
        for name in clique:
            near[name].update(clique)
    # a column in no clique costs the least of all
    cost = {name: cells_of(sizes, near[name]) for name in sizes}
    left, made = list(sizes), []
    while left:
        name = min(left, key=cost.__getitem__)
        left.remove(name)
        around = near.pop(name) - {name}
        made.append(around | {name})
        for other in around:
            near[other] = (near[other] | around) - {name}
            cost[other] = cells_of(sizes, near[other])
    return sum(cells_of(sizes, table) for table in made if not any(table < other for other in made))


def fast_filter() -> Any:
    """AIM's `filter_candidates`: those within a clique of the model, and those that leave it within its limit."""
    known: dict[Any, int] = {}

    def filter_candidates(candidates: Any, model: Any, limit: Any) -> Any:
        sizes = {name: int(model.domain[name]) for name in model.domain}
        inside = [set(clique) for clique in model.cliques]
        now, out = tuple(model.cliques), {}
        for names, weight in candidates.items():
            if limit is not None and not any(set(names) <= clique for clique in inside):
                key = tuple(sizes.values()), now, names
                if key not in known:
                    known[key] = model_cells(sizes, [*model.cliques, names])
                if known[key] * 8 / 2**20 > limit:
                    continue
            out[names] = weight
        return out

    return filter_candidates


def install() -> None:
    """Put the three in the place of `dpmm`'s own."""
    from dpmm.models import aim
    from dpmm.models.base.mbi import CliqueVector, Factor, FactoredInference, GraphicalModel

    FactoredInference.mirror_descent = fast_descent(FactoredInference.mirror_descent, CliqueVector, Factor)
    GraphicalModel.project = fast_project(GraphicalModel.project, Factor)
    aim.filter_candidates = fast_filter()
