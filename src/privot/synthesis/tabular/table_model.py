"""A fitted model of a table: draws any number of rows from a seed; plain arrays and plain JSON types.

It was made from a release, so drawing from it and handing it out is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from privot.errors import DataError, UsageError
from privot.evaluation.schema_axes import axes_of, with_edges
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.synthesis.tabular.column_laws.conditional import Floats, draw, one_hot
from privot.synthesis.tabular.column_laws.gaussian_copula import GaussianCopula, spread
from privot.tables.codec import TableCodec
from privot.tables.constraints.keeping import with_generated
from privot.tables.table import Table

MODEL_VERSION = 1
LEAST_SHARE = 1e-12
"""Added to every cell's share, so that a group without any is drawn evenly."""
_CHUNK = 50_000


@dataclass(frozen=True, eq=False)
class Factor:
    """The law of one `column` (None: the label) given `features`: columns, or pairs of them, drawn before it.

    A feature (i, j) has a cell for each group of column i and each of j; ~i stands for the blocks of i instead.
    """

    column: int | None
    features: tuple[tuple[int, ...], ...]
    theta: Floats
    bias: Floats


@dataclass(frozen=True, eq=False)
class Levels:
    """Two levels at which each column is seen: `groups` of its fine cells, and `blocks` of those groups."""

    groups: list[NDArray[np.int64]]
    blocks: list[NDArray[np.int64]]

    @property
    def sizes(self) -> list[int]:
        """How many groups each column has."""
        return [len(blocks) for blocks in self.blocks]

    def width(self, feature: tuple[int, ...]) -> int:
        """How many cells a feature has."""
        return int(np.prod([len(self.blocks[c]) if c >= 0 else self.blocks[~c].max() + 1 for c in feature]))

    def codes(self, rows: NDArray[np.int64], features: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
        """The cell of every row in every feature, in C order, from the groups of every column."""
        out = np.zeros((len(rows), len(features)), dtype=np.int64)
        for place, feature in enumerate(features):
            for c in feature:
                seen = rows[:, c] if c >= 0 else self.blocks[~c][rows[:, ~c]]
                out[:, place] = out[:, place] * self.width((c,)) + seen
        return out

    def one_hot(self, rows: NDArray[np.int64], features: Sequence[tuple[int, ...]]) -> csr_matrix:
        """The same, one-hot."""
        return one_hot(self.codes(rows, features), [self.width(feature) for feature in features])


def draw_groups(
    factors: Sequence[Factor], rows: int, levels: Levels, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Groups of every column, and labels where there is a factor for them."""
    out = np.zeros((rows, len(levels.blocks)), dtype=np.int64)
    labels = None
    for factor in factors:
        value = draw(levels.one_hot(out, factor.features), factor.theta, factor.bias, rng)
        if factor.column is None:
            labels = value
        else:
            out[:, factor.column] = value
    return out, labels


@dataclass(frozen=True, eq=False)
class TableModel:
    """Factors in the order in which they are drawn; `fine` shares of each column's cells, within groups.

    `edges` are where each column of numbers is cut; None where the schema's fixed cells are meant, as in models of
    before. `copula` says how places within groups go together; None where they are independent, as in models of before.
    """

    codec: TableCodec
    factors: tuple[Factor, ...]
    levels: Levels
    fine: list[Floats]
    edges: tuple[Floats | None, ...] | None = None
    copula: GaussianCopula | None = None

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The cells of every column, for compact rows."""
        fixed = axes_of(self.codec, compact=True)
        return fixed if self.edges is None else with_edges(fixed, self.edges)

    def sample(self, rows: int, seed: int = 0) -> Table:
        """A synthetic table of `rows` rows; the same seed gives the same rows."""
        return self.table_of(*self.sample_rows(rows, seed), seed)

    def table_of(self, rows: Floats, labels: NDArray[np.int64] | None, seed: int) -> Table:
        """Drawn rows as a table, with the columns that the schema makes (keys, constants)."""
        table = self.codec.decode(rows, labels, compact=True)
        return with_generated(table, self.codec.schema, np.random.default_rng([seed, len(rows)]))

    def sample_rows(self, rows: int, seed: int = 0) -> tuple[Floats, NDArray[np.int64] | None]:
        """Compact rows and labels, as `codec.encode(table, compact=True)` would give them."""
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise UsageError(f"The number of rows must be a whole number of at least 1, got {rows!r}.")
        x = np.empty((rows, len(self.fine)))
        labels = None if self.codec.classes is None else np.empty(rows, dtype=np.int64)
        # each chunk has a stream of its own
        for place, start in enumerate(range(0, rows, _CHUNK)):
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place,)))
            stop = min(start + _CHUNK, rows)
            drawn, of_chunk = draw_groups(self.factors, stop - start, self.levels, rng)
            x[start:stop] = self._coordinates(drawn, rng)
            if labels is not None and of_chunk is not None:
                labels[start:stop] = of_chunk
        return x, labels

    def _coordinates(self, drawn: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """A fine cell within each group, then a place within each cell."""
        out = np.empty(drawn.shape)
        within = {} if self.copula is None else self.copula.within(drawn, rng)
        for i, axis in enumerate(self.axes):
            out[:, i] = self.coordinates_of(i, axis, drawn[:, i], rng, within.get(i))
        return out

    def coordinates_of(
        self, i: int, axis: Axis, drawn: NDArray[np.int64], rng: np.random.Generator, within: Floats | None = None
    ) -> Floats:
        """The same for column i alone, whose groups are `drawn`; `within` are the places of the rows in their groups,
        from 0 to 1, or None for any."""
        cells = np.empty(len(drawn), dtype=np.int64)
        groups = self.levels.groups[i]
        for group in range(int(groups.max()) + 1):
            at = np.nonzero(drawn == group)[0]
            choices = np.nonzero(groups == group)[0]
            # stratified: each cell gets its share of the rows, up to one row
            ends = np.cumsum(self.fine[i][choices] + LEAST_SHARE)
            if within is None:
                places = (rng.permutation(len(at)) + rng.random()) / max(len(at), 1) * ends[-1]
            else:
                places = spread(within[at], rng) * ends[-1]
            cells[at] = choices[np.searchsorted(ends, places, side="right").clip(max=len(choices) - 1)]
        return _place(axis, cells, rng)

    # --- files

    def config(self) -> dict[str, Any]:
        """Everything but the arrays and the codec, as plain JSON types."""
        return {
            "model": "table",
            "version": MODEL_VERSION,
            "factors": [{"column": f.column, "features": [list(c) for c in f.features]} for f in self.factors],
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name."""
        out: dict[str, NDArray[Any]] = {}
        for place, factor in enumerate(self.factors):
            out[f"theta.{place}"], out[f"bias.{place}"] = factor.theta, factor.bias
        for place, fine in enumerate(self.fine):
            out[f"groups.{place}"], out[f"blocks.{place}"] = self.levels.groups[place], self.levels.blocks[place]
            out[f"fine.{place}"] = fine
        for place, edges in enumerate(self.edges or ()):
            if edges is not None:
                out[f"edges.{place}"] = edges
        return out if self.copula is None else {**out, **self.copula.arrays()}

    @classmethod
    def build(cls, codec: TableCodec, config: Mapping[str, Any], arrays: Mapping[str, Any]) -> TableModel:
        """The model that `config` and `arrays` describe; refuses parts that do not fit together."""
        try:
            if config["model"] != "table" or config["version"] != MODEL_VERSION:
                raise ValueError
            columns = range(len(codec.features))
            groups, blocks = (
                [np.asarray(arrays[f"{name}.{i}"], dtype=np.int64) for i in columns] for name in ("groups", "blocks")
            )
            fine = [np.asarray(arrays[f"fine.{i}"], dtype=np.float64) for i in columns]
            factors = tuple(
                Factor(
                    raw["column"],
                    tuple(tuple(int(c) for c in feature) for feature in raw["features"]),
                    np.asarray(arrays[f"theta.{i}"], dtype=np.float64),
                    np.asarray(arrays[f"bias.{i}"], dtype=np.float64),
                )
                for i, raw in enumerate(config["factors"])
            )
            edges = [arrays.get(f"edges.{i}") for i in columns]
            own = tuple(None if e is None else np.asarray(e, dtype=np.float64) for e in edges)
            model = cls(codec, factors, Levels(groups, blocks), fine, own)
            model._check()
            model = replace(model, copula=GaussianCopula.from_arrays(arrays, model.axes, model.levels.sizes))
        except DataError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            raise DataError("This is not a table model privot wrote, or it is damaged.") from None
        return model

    def _check(self) -> None:
        """Refuse arrays that do not fit together."""
        levels = self.levels
        for axis in self.axes:
            if axis.edges and not (axis.edges[0] > 0.0 and axis.edges[-1] < 1.0):
                raise ValueError
        parts = zip(self.axes, levels.groups, levels.blocks, self.fine, strict=True)
        for axis, groups, blocks, fine in parts:
            if axis.grouped(groups).size != len(blocks):
                raise ValueError
            Axis(0, len(blocks)).grouped(blocks)
            if fine.shape != (axis.cells,) or not np.isfinite(fine).all() or (fine < 0).any():
                raise ValueError
        drawn: list[int | None] = []
        for factor in self.factors:
            values = self.codec.classes if factor.column is None else levels.sizes[factor.column]
            width = sum(levels.width(feature) for feature in factor.features)
            if factor.theta.shape != (width, values) or factor.bias.shape != (values,):
                raise ValueError
            if not (np.isfinite(factor.theta).all() and np.isfinite(factor.bias).all()):
                raise ValueError
            if any((c if c >= 0 else ~c) not in drawn for feature in factor.features for c in feature):
                raise ValueError
            drawn.append(factor.column)
        expected: list[int | None] = [*range(len(levels.blocks)), *([] if self.codec.classes is None else [None])]
        if len(drawn) != len(expected) or set(drawn) != set(expected):
            raise ValueError


def _place(axis: Axis, cells: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """A coordinate in each cell: the category's place, even between two edges, or −1 where the value is missing."""
    if axis.edges is None:
        return cells.astype(np.float64)
    bounds = np.concatenate([[0.0], axis.edges, [1.0]])
    gone = cells == axis.cells - 1 if axis.missing else np.zeros(len(cells), dtype=bool)
    at = np.where(gone, 0, cells)
    low, high = bounds[at], bounds[at + 1]
    return np.where(gone, -1.0, low + rng.random(len(cells)) * (high - low))
