"""Mirror descent by a plan (`table_peer_plan.py`) in C, compiled by `gcc` when needed; NumPy does it where none is.

A plan becomes a list of operations on tables with strides: adding a smaller table to a larger one, summing onto a
smaller one, multiplying by one. In the peers' interpreter this file imports nothing of privot.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or __package__:
    from privot_lab.bench.tables import table_peer_plan
    from privot_lab.bench.tables.table_peer_plan import (
        HIGHEST_SUM,
        LOWEST_SUM,
        LOWEST_TOP,
        TRIALS,
        Adder,
        Clique,
        Floats,
        Link,
        Plan,
        Sum,
    )  # fmt: skip
else:
    import table_peer_plan
    from table_peer_plan import (
        HIGHEST_SUM,
        LOWEST_SUM,
        LOWEST_TOP,
        TRIALS,
        Adder,
        Clique,
        Floats,
        Link,
        Plan,
        Sum,
    )  # fmt: skip

SOURCE = Path(__file__).with_suffix(".c")
MOST_AXES, MOST_TABLES = 16, 32
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math",
         "-ffinite-math-only", "-mprefer-vector-width=512",
         "-shared", "-fPIC")  # fmt: skip
"""Not -ffast-math, which would change how the whole process treats small numbers."""
ADD, SUM, MULTIPLY, HIGHEST, SUBTRACT = range(5)
KINDS = {"ADD": ADD, "SUM": SUM, "MULTIPLY": MULTIPLY, "HIGHEST": HIGHEST, "SUBTRACT": SUBTRACT}


class Op(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_long) for name in ("kind", "axes", "cells")),
                *((name, ctypes.c_void_p) for name in ("out", "a", "b")),
                *((name, ctypes.c_long * MOST_AXES) for name in ("n", "so", "sa", "sb"))]  # fmt: skip


class Fill(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_long) for name in ("axes", "tops", "along")),
                *((name, ctypes.c_void_p) for name in ("out", "base")), ("top", ctypes.c_void_p * MOST_TABLES),
                ("n", ctypes.c_long * MOST_AXES), ("s", ctypes.c_long * MOST_AXES * MOST_TABLES)]  # fmt: skip


class Drain(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_long) for name in ("axes", "outs", "along")),
                *((name, ctypes.c_void_p) for name in ("source", "factor")), ("out", ctypes.c_void_p * MOST_TABLES),
                ("n", ctypes.c_long * MOST_AXES), ("cells", ctypes.c_long * MOST_TABLES),
                ("s", ctypes.c_long * MOST_AXES * MOST_TABLES), ("sf", ctypes.c_long * MOST_AXES)]  # fmt: skip


class CliqueFields(ctypes.Structure):
    _fields_ = [
        *((k, ctypes.c_long) for k in ("cells", "separator", "careful", "known", "adds", "sums", "linked")),
        ("shift", ctypes.c_double),
        *((k, ctypes.c_void_p) for k in ("belief", "message", "ratio", "below", "above", "tops")),
        *((k, ctypes.c_void_p) for k in ("add", "up", "top", "lower", "multiply", "sum", "gather", "whole")),
    ]


class PlanFields(ctypes.Structure):
    _fields_ = [
        *((k, ctypes.c_long) for k in ("cliques", "count", "evaluations")),
        *((k, ctypes.c_double) for k in ("total", "lowest", "lowest_top", "highest")),
        *((k, ctypes.c_void_p) for k in ("values", "omega", "answers", "before", "means", "weights", "slope", "last")),
        ("held", ctypes.c_void_p),
    ]


@cache
def library() -> Any:
    """The compiled functions; nothing where no compiler is, or where PRIVOT_PEER_NUMPY says so."""
    compiler = shutil.which("gcc")
    if compiler is None or os.environ.get("PRIVOT_PEER_NUMPY"):
        return None
    numbers = {"AXES": MOST_AXES, "TOPS": MOST_TABLES, **KINDS}
    with tempfile.TemporaryDirectory() as folder:
        made = str(Path(folder) / "kernel.so")
        words = [*FLAGS, *(f"-D{name}={value}" for name, value in numbers.items()), str(SOURCE), "-o", made, "-lm"]
        if subprocess.run([compiler, *words], check=False).returncode:  # noqa: S603
            return None
        found = ctypes.CDLL(made)
    found.descend.restype = ctypes.c_double
    found.descend.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_double]
    return found


def axes_of(shape: tuple[int, ...], tables: Sequence[Floats]) -> list[list[int]]:
    """Lengths and strides of tables that broadcast to a shape; adjacent axes are one where all strides allow it.

    >>> axes_of((2, 3, 4), [np.zeros((2, 3, 4)), np.zeros((2, 1, 1))])
    [[2, 12, 1], [12, 1, 0]]
    """
    strides = [[s // 8 for s in np.broadcast_to(table, shape).strides] for table in tables]
    axes: list[list[int]] = []
    for i, n in enumerate(shape):
        here = [n, *(held[i] for held in strides)]
        if n == 1:
            continue
        if axes and all(before == n * s for before, s in zip(axes[-1][1:], here[1:], strict=True)):
            axes[-1] = [axes[-1][0] * n, *here[1:]]
        else:
            axes.append(here)
    return axes or [[1] * (1 + len(tables))]


def operation(kind: int, out: Floats, a: Floats | None = None, b: Floats | None = None) -> Op:
    """One operation on tables that broadcast against each other."""
    tables = [out if table is None else table for table in (out, a, b)]
    axes = axes_of(np.broadcast_shapes(*(table.shape for table in tables)), tables)
    made = Op(kind=kind, axes=len(axes), cells=out.size)
    made.out, made.a, made.b = (table.ctypes.data for table in tables)
    for k, (n, *held) in enumerate(axes):
        made.n[k] = n
        made.so[k], made.sa[k], made.sb[k] = held
    return made


def filling(out: Floats, base: Floats, tops: Sequence[Floats]) -> Fill:
    """`base` and the sum of tables, those that go along the last axis first."""
    axes = axes_of(out.shape, [out, *tops])
    order = sorted(range(len(tops)), key=lambda k: axes[-1][2 + k] == 0)
    made = Fill(axes=len(axes), tops=len(tops), along=sum(stride != 0 for stride in axes[-1][2:]))
    made.out, made.base = out.ctypes.data, base.ctypes.data
    for j, (n, _, *strides) in enumerate(axes):
        made.n[j] = n
        for place, k in enumerate(order):
            made.s[place][j] = strides[k]
    for place, k in enumerate(order):
        made.top[place] = tops[k].ctypes.data
    return made


def draining(source: Floats, factor: Floats, outs: Sequence[Floats]) -> Drain:
    """The sums of `source` times `factor` onto tables, those that go along the last axis first."""
    axes = axes_of(source.shape, [source, factor, *outs])
    order = sorted(range(len(outs)), key=lambda k: axes[-1][3 + k] == 0)
    made = Drain(axes=len(axes), outs=len(outs), along=sum(stride != 0 for stride in axes[-1][3:]))
    made.source, made.factor = source.ctypes.data, factor.ctypes.data
    for j, (n, _, step, *strides) in enumerate(axes):
        made.n[j], made.sf[j] = n, step
        for place, k in enumerate(order):
            made.s[place][j] = strides[k]
    for place, k in enumerate(order):
        made.out[place], made.cells[place] = outs[k].ctypes.data, outs[k].size
    return made


class Program:
    """A plan as C reads it; it keeps every array that C points to.

    Potentials of a clique are those it began with and small tables, one for each marginal that is measured; only these
    change from step to step.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.kept = plan, list[Any]()
        self.values = np.zeros(plan.answers.size)
        self.adders = [
            Adder(clique.names, clique.belief, [*plan.messages(clique), *plan.tables(clique, self.values)], plan.sizes)
            for clique in plan.cliques
        ]

    def fits(self) -> bool:
        """Whether there is room for its axes and tables."""
        axes = max(len(clique.names) for clique in self.plan.cliques)
        tables = max(max(len(adder.tops) for adder in self.adders), max(len(c.sums) for c in self.plan.cliques))
        return axes <= MOST_AXES and tables <= MOST_TABLES

    def _kept(self, held: Any) -> Any:
        """Where it lies; it stays as long as this does."""
        self.kept.append(held)
        return held.ctypes.data if isinstance(held, np.ndarray) else ctypes.addressof(held)

    def _ops(self, *made: Op) -> Any:
        return self._kept((Op * max(len(made), 1))(*made))

    def _onto(self, step: Sum, out: Floats | None = None) -> Floats:
        """What a sum goes to, with an axis of length one for each that is summed over."""
        shape = [1 if i in step.axes else n for i, n in enumerate(step.source.shape)]
        return (step.out if out is None else out).reshape(shape)

    def _sum(self, kind: int, step: Sum, out: Floats | None = None) -> Op:
        return operation(kind, self._onto(step, out), step.source)

    def _clique(self, field: Any, clique: Clique, link: Link | None, adder: Adder) -> None:
        field.cells, field.linked = clique.belief.size, int(link is not None)
        field.belief = clique.belief.ctypes.data
        add = [operation(ADD, out, a, b) for a, b, out in adder.steps]
        field.adds, field.add = len(add), self._ops(*add)
        field.gather = self._kept(filling(clique.belief, clique.theta, adder.tops))
        self.kept.append(adder)
        one = np.zeros([1] * clique.belief.ndim)
        ratio, below, spread = (one, one.copy(), one) if link is None else (link.ratio, link.sums, link.spread)
        field.separator = below.size
        if link is not None:
            tops = np.zeros(below.shape)
            field.message, field.above = link.message.ctypes.data, link.above.ctypes.data
            field.tops = self._kept(tops)
            field.up = self._ops(self._sum(SUM, link.up))
            field.top = self._ops(self._sum(HIGHEST, link.up, out=tops))
            field.lower = self._ops(operation(SUBTRACT, clique.belief, None, tops.reshape(spread.shape)))
        field.ratio, field.below = self._kept(ratio), self._kept(below)
        field.multiply = self._ops(operation(MULTIPLY, clique.belief, None, spread))
        whole = [step for step in clique.sums if step.source is clique.belief]
        field.whole = self._kept(draining(clique.belief, spread, [self._onto(step) for step in whole]))
        sums = [self._sum(SUM, step) for step in clique.sums if step.source is not clique.belief]
        field.sums, field.sum = len(sums), self._ops(*sums)

    def run(self, found: Any, iterations: int, constant: float) -> float:
        """Mirror descent; the plan has the last potentials and marginals afterwards."""
        plan = self.plan
        cliques = (CliqueFields * len(plan.cliques))()
        for field, clique, link, adder in zip(cliques, plan.cliques, plan.links, self.adders, strict=True):
            self._clique(field, clique, link, adder)
        fields = PlanFields(cliques=len(cliques), count=plan.answers.size, total=plan.total, held=self._kept(cliques))
        fields.lowest, fields.lowest_top, fields.highest = LOWEST_SUM, LOWEST_TOP, HIGHEST_SUM
        omega, before, last = (np.zeros(plan.answers.size) for _ in range(3))
        for name, table in (("values", self.values), ("omega", omega), ("answers", plan.answers), ("before", before),
                            ("means", plan.means), ("weights", plan.weights), ("slope", plan.gradient),
                            ("last", last)):  # fmt: skip
            setattr(fields, name, self._kept(table))
        loss = float(found.descend(ctypes.byref(fields), iterations, TRIALS, constant))
        plan.evaluations += fields.evaluations
        for clique in plan.cliques:
            Adder(clique.names, clique.theta, plan.tables(clique, self.values), plan.sizes, clique.theta).run()
        return loss


def descend(plan: Plan, iterations: int, constant: float) -> float:
    """As `table_peer_plan.descend`."""
    found, program = library(), Program(plan)
    if found is None or not program.fits():
        return table_peer_plan.descend(plan, iterations, constant)
    return program.run(found, iterations, constant)
