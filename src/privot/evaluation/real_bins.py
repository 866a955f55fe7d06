"""Counts of one, two and three columns and range queries, in bins chosen from the *real* rows and not from the schema.

Cells of a schema hide what a schema spoils: where most values lie in one cell, a distance over cells is perfect
whatever stands in it. Bins at the quantiles of the real rows have about equally many of them each, so they see it.

Results are as confidential as the real rows.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.evaluation.table_figures import Coded

BINS = 16
"""Bins of a column of numbers, at most; of categories the commonest but one stand alone."""
MAX_TRIPLES, MAX_PAIRS, QUERIES = 200, 2000, 1000
WORST = 10
_TINY = 1e-9

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class RealBins:
    """Bins of every column of `real`, the label last, and queries whose ends are values of real rows.

    A number is put into at most 16 bins between quantiles, a missing one into a bin of its own; categories beyond the
    15 commonest are one bin.
    """

    def __init__(self, real: Coded, seed: int = 1) -> None:
        self.codec = real.codec
        self.numeric = [column.is_number for column in real.codec.features]
        self.edges = [self._edges(real.rows[:, i], number) for i, number in enumerate(self.numeric)]
        self.names = [column.name for column in real.codec.features]
        if real.labels is not None and real.codec.schema.label is not None:
            self.names.append(real.codec.schema.label)
        self.real = self.binned(real)
        self.queries = self._queries(real, np.random.default_rng(seed))
        self.answers = self._answers(real)

    def _edges(self, values: Floats, number: bool) -> Floats:
        """Lower ends of the bins of a number; of categories, the places that stand alone."""
        if number:
            present = values[values >= 0.0]
            cuts = np.quantile(present, np.arange(1, BINS) / BINS, method="higher") if len(present) else np.zeros(1)
            return np.concatenate([[0.0], np.unique(cuts[cuts > 0.0])])
        counts = np.bincount(values.astype(np.int64))
        return np.sort(np.argsort(-counts, kind="stable")[: BINS - 1]).astype(np.float64)

    def binned(self, coded: Coded) -> Ints:
        """The bin of every value, of shape (rows, columns)."""
        x = coded.rows
        out = np.empty((len(x), len(self.names)), dtype=np.int64)
        for i, edges in enumerate(self.edges):
            if self.numeric[i]:
                # a value that is an edge starts a bin; a missing one, −1, is before the first
                out[:, i] = np.searchsorted(edges - _TINY, x[:, i], side="right")
            else:
                place = np.searchsorted(edges, x[:, i]).clip(max=len(edges) - 1)
                out[:, i] = np.where(edges[place] == x[:, i], place, len(edges))
        if coded.labels is not None:
            out[:, -1] = coded.labels
        return out

    def distances(self, made: Coded, size: int, seed: int = 2) -> list[tuple[tuple[str, ...], float, float]]:
        """(columns, total variation, what two samples of one law would have) of sets of `size` columns.

        All of them, or some chosen at random where there are many.
        """
        drawn = self.binned(made)
        sets = list(combinations(range(len(self.names)), size))
        most = MAX_PAIRS if size == 2 else MAX_TRIPLES
        if size > 1 and len(sets) > most:
            sets = [sets[i] for i in np.random.default_rng(seed).permutation(len(sets))[:most]]
        out = []
        for places in sets:
            names = tuple(self.names[i] for i in places)
            out.append((names, *variation(drawn[:, list(places)], self.real[:, list(places)])))
        return out

    def _queries(self, real: Coded, rng: np.random.Generator) -> list[list[tuple[int, Floats]]]:
        out = []
        for _ in range(QUERIES):
            query = []
            for i in rng.choice(len(self.names), min(3, len(self.names)), replace=False):
                values = self._column(real, int(i))
                if i < len(self.numeric) and self.numeric[i]:
                    query.append((int(i), np.sort(rng.choice(values, 2))))
                else:
                    found = np.unique(values)
                    kept = found[rng.random(len(found)) < 0.5]
                    query.append((int(i), kept if len(kept) else found[:1]))
            out.append(query)
        return out

    def _column(self, coded: Coded, i: int) -> Floats:
        if i < coded.rows.shape[1]:
            return coded.rows[:, i]
        assert coded.labels is not None
        return coded.labels.astype(np.float64)

    def _answers(self, coded: Coded) -> Floats:
        out = np.empty(len(self.queries))
        for place, query in enumerate(self.queries):
            inside = np.ones(len(coded.rows), dtype=bool)
            for i, values in query:
                column = self._column(coded, i)
                if i < len(self.numeric) and self.numeric[i]:
                    inside &= (column >= values[0] - _TINY) & (column <= values[1] + _TINY)
                else:
                    inside &= np.isin(column, values)
            out[place] = inside.mean()
        return out

    def query_errors(self, made: Coded) -> Floats:
        """|share of synthetic rows − share of real rows| in a range or a set of each of three columns, per query."""
        return np.abs(self._answers(made) - self.answers)


def variation(a: Ints, b: Ints) -> tuple[float, float]:
    """Total variation ½ Σ|p − q| of two tables of bins, and its expectation for two samples of one law.

    With shares p and q from n and m rows of which a share s is expected, E|p − q| is about √(2/π·s(1 − s)(1/n + 1/m)).
    """
    sizes = [1 + int(max(t[:, i].max() for t in (a, b))) for i in range(a.shape[1])]
    length = int(np.prod(sizes))
    shares = []
    for table in (a, b):
        code = np.ravel_multi_index(tuple(table.T), sizes)
        shares.append(np.bincount(code, minlength=length) / len(table))
    pooled = (len(a) * shares[0] + len(b) * shares[1]) / (len(a) + len(b))
    chance = np.sqrt(2.0 / np.pi * pooled * (1.0 - pooled) * (1.0 / len(a) + 1.0 / len(b)))
    return 0.5 * float(np.abs(shares[0] - shares[1]).sum()), 0.5 * float(chance.sum())


def count_distances(made: Coded, bins: RealBins) -> dict[str, Any]:
    """Means over columns, pairs and triples, the worst sets of each, and errors of range queries, as JSON types.

    `chance` is what two samples of these sizes from one table would have.
    """
    out: dict[str, Any] = {}
    for name, size in (("columns", 1), ("pairs", 2), ("triples", 3)):
        found = bins.distances(made, size) if len(bins.names) >= size else []
        if found:
            worst = sorted(found, key=lambda entry: entry[2] - entry[1])[:WORST]
            out[name] = {
                "mean": float(np.mean([distance for _, distance, _ in found])),
                "chance": float(np.mean([chance for _, _, chance in found])),
                "worst": [[list(names), round(distance, 5), round(chance, 5)] for names, distance, chance in worst],
            }
    errors = bins.query_errors(made)
    out["queries"] = {"count": len(errors), "mean": float(errors.mean()), "high": float(np.quantile(errors, 0.95))}
    return out
