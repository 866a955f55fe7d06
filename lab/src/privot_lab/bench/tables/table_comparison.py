"""Six measures of synthetic tables on a *public* table: what models learn, counts of 1, 2 and 3 columns, and queries.

Boosting and logistic regression are trained on as many synthetic rows as there are training rows and tested on others
(AUC; higher is better). Counts are compared with the training rows in bins at their quantiles (`RealBins`): mean total
variation of columns, pairs and triples, and the mean error of random queries, a range or a set in each of three columns
(lower is better). Over bins of even public width, made of whole cells, the same counts show noise alone, the others
also what cells lose. Other methods are given the schema's cells, merged to so many neighbours of even public width.
"""

from __future__ import annotations

import time
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.evaluation.real_bins import BINS, MAX_TRIPLES, RealBins, variation
from privot.evaluation.schema_axes import axes_of
from privot.evaluation.table_figures import Coded
from privot.evaluation.table_quality import MODELS, train_and_test
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.synthesis import Synthesizer
from privot.tables import Table, TableCodec
from privot.vault import Vault

SIZES = (("one-way", 1), ("pairs", 2), ("triples", 3))
MEASURES = (*MODELS, *(name for name, _ in SIZES), "queries")
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class TableComparison:
    """Training rows `x` (compact) with labels `y`, a `test` table, and how synthetic tables are compared with them."""

    def __init__(self, codec: TableCodec, x: Floats, y: Ints | None, test: Table) -> None:
        self.codec, self.x, self.y, self.test = codec, x, y, test
        self.bins = RealBins(Coded(x, y, codec))

    def measure(self, table: Table, models: bool = True) -> dict[str, float]:
        """All measures of a synthetic table, by name; those of models where there is a label."""
        out = {}
        if models and self.codec.classes is not None:
            for model in MODELS:
                out[str(model)] = float(train_and_test(table, self.test, self.codec, model).auc or 0.5)
        made = Coded(*self.codec.encode(table, compact=True), self.codec)
        for name, size in SIZES:
            found = self.bins.distances(made, size) if len(self.bins.names) >= size else []
            if found:
                out[name] = float(np.mean([distance for _, distance, _ in found]))
        out["queries"] = float(self.bins.query_errors(made).mean())
        return out

    def measure_even(self, table: Table) -> dict[str, float]:
        """Mean total variation of columns, pairs and triples over bins of even public width, by name."""
        made, real = (
            self._even(coded)
            for coded in (
                Coded(*self.codec.encode(table, compact=True), self.codec),
                Coded(self.x, self.y, self.codec),
            )
        )
        out = {}
        for name, size in SIZES:
            sets = list(combinations(range(real.shape[1]), size))
            if size == 3 and len(sets) > MAX_TRIPLES:
                sets = [sets[i] for i in np.random.default_rng(2).permutation(len(sets))[:MAX_TRIPLES]]
            if sets:
                found = [variation(made[:, list(places)], real[:, list(places)])[0] for places in sets]
                out[f"even {name}"] = float(np.mean(found))
        return out

    def _even(self, coded: Coded) -> Ints:
        out = self.bins.binned(coded)
        for i, axis in enumerate(axes_of(self.codec, compact=True)):
            if axis.edges is not None:
                out[:, i] = merged_cells(axis, BINS)[axis.index(coded.rows, None)]
        return out

    def ours(self, epsilon: float, delta: float, seed: int) -> tuple[Table, float]:
        """One private release under add-remove, and processor seconds."""
        terms: Any = {"clip": self.codec.bound(compact=True), "classes": self.codec.classes}
        vault = Vault(self.x, self.y, adjacency="add-remove", budget=(epsilon, delta), **terms)
        start = time.process_time()
        fitted = Synthesizer(epsilon, delta, seed=seed, device="cpu", kind=self.codec).fit(vault)
        table: Table = fitted.sample(len(self.x), seed=seed, frame="table")[0]
        return table, time.process_time() - start

    def cells(self, most: int) -> tuple[Ints, Ints]:
        """Whole numbers per row, and how many each column has, the label last."""
        columns, sizes = [], []
        for axis in axes_of(self.codec, compact=True):
            merged = merged_cells(axis, most)
            columns.append(merged[axis.index(self.x, None)])
            sizes.append(int(merged.max()) + 1)
        if self.y is not None and self.codec.classes is not None:
            columns.append(self.y)
            sizes.append(self.codec.classes)
        return np.column_stack(columns), np.array(sizes)

    def table_of(self, cells: Ints, most: int, seed: int = 0) -> Table:
        """Rows for synthetic cells: a fine cell of each merged one, evenly, and a place in it, evenly."""
        rng = np.random.default_rng(seed)
        out = np.empty((len(cells), self.x.shape[1]))
        for i, axis in enumerate(axes_of(self.codec, compact=True)):
            merged = merged_cells(axis, most)
            first, count = np.searchsorted(merged, cells[:, i]), np.bincount(merged)[cells[:, i]]
            fine = first + (rng.random(len(cells)) * count).astype(np.int64)
            if axis.edges is None:
                out[:, i] = fine
                continue
            ends = np.concatenate([[0.0], axis.edges, [1.0]])
            gone = (fine == axis.cells - 1) & axis.missing
            at = np.where(gone, 0, fine)
            out[:, i] = np.where(gone, -1.0, ends[at] + rng.random(len(cells)) * (ends[at + 1] - ends[at]))
        labels = cells[:, -1].astype(np.int64) if self.codec.classes is not None else None
        return self.codec.decode(out, labels, compact=True)


def merged_cells(axis: Axis, most: int) -> Ints:
    """The merged cell of every fine cell: neighbours of even width; categories, and a missing value, stay alone."""
    if axis.edges is None or axis.cells - axis.missing <= most:
        return np.arange(axis.cells)
    out = np.arange(axis.cells) * most // (axis.cells - axis.missing)
    if axis.missing:
        out[-1] = out[-2] + 1
    return out
