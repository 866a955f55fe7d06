"""Wide tables and long lists of categories: processor seconds, and the mutual information that is kept.

    python benchmarks/tables/table_scale.py wide [--columns 100]
    python benchmarks/tables/table_scale.py categories [--categories 300]

`wide`: 30,000 rows, columns of 64 whole numbers and of 8 categories in turn, each a function of one of five factors and
noise, and a label. `categories`: a column of so many categories (shares falling as rank^−0.7), four fifths of which
decide a column of ten; an age and a label. δ = 1e-6, add-remove, one draw.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from privot import Synthesizer, Vault
from privot.tables import Column, Schema, TableCodec

ROWS, GROUPS = 30_000, 10
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def words(name: str, count: int) -> Column:
    return Column(name, "categorical", categories=tuple(f"{name}{i}" for i in range(count)))


def wide(columns: int) -> tuple[TableCodec, Floats, Ints]:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(ROWS, 5))
    kinds, values = [], []
    for i in range(columns):
        rank = (np.argsort(np.argsort(factors[:, i % 5] + rng.normal(size=ROWS))) + 0.5) / ROWS
        kinds.append(Column(f"n{i}", "integer", 0, 63) if i % 2 else words(f"c{i}", 8))
        values.append(np.rint(rank * 63) / 63 if i % 2 else np.floor(rank * 8))
    label = (factors[:, 0] + rng.normal(size=ROWS) > 0).astype(np.int64)
    return TableCodec(Schema((*kinds, Column("y", "boolean")), label="y")), np.column_stack(values), label


def categories(count: int) -> tuple[TableCodec, Floats, Ints]:
    rng = np.random.default_rng(0)
    falling = 1.0 / np.arange(1, count + 1) ** 0.7
    code = rng.choice(count, ROWS, p=falling / falling.sum())
    group = np.where(rng.random(ROWS) < 0.8, code % GROUPS, rng.integers(0, GROUPS, ROWS))
    age = np.clip(30 + 4 * group + rng.normal(0, 10, ROWS), 0, 99).astype(np.int64)
    label = (rng.random(ROWS) < 0.3 + 0.04 * group).astype(np.int64)
    schema = Schema(
        (words("code", count), words("group", GROUPS), Column("age", "integer", 0, 99), Column("y", "boolean")), "y"
    )
    return TableCodec(schema), np.column_stack([code, group, age / 99]).astype(np.float64), label


def information(x: Floats, count: int) -> float:
    """Mutual information of the first two columns, in nats (plug-in)."""
    cells = x[:, 0].astype(np.int64) * GROUPS + x[:, 1].astype(np.int64)
    shares = np.bincount(cells, minlength=count * GROUPS).reshape(count, GROUPS) / len(x)
    expected = shares.sum(1, keepdims=True) * shares.sum(0, keepdims=True)
    there = shares > 0.0
    return float((shares[there] * np.log(shares[there] / expected[there])).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["wide", "categories"])
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--categories", type=int, default=300)
    parser.add_argument("--epsilon", type=float, default=1.0)
    chosen = parser.parse_args()
    codec, x, y = wide(chosen.columns) if chosen.what == "wide" else categories(chosen.categories)
    vault = Vault(
        x, y, clip=codec.bound(compact=True), classes=2, adjacency="add-remove", budget=(chosen.epsilon, 1e-6)
    )
    start = time.process_time()
    fitted = Synthesizer(chosen.epsilon, 1e-6, codec=codec, seed=1, device="cpu").fit(vault)
    between = time.process_time()
    rows, _ = fitted.model_.sample_rows(len(x), 1)
    print(f"fit {between - start:.1f} s, {len(x)} rows {time.process_time() - between:.1f} s of processor time")
    if chosen.what == "categories":
        mixed = x.copy()
        mixed[:, 0] = np.random.default_rng(1).permutation(x[:, 0])
        real, made, chance = (information(t, chosen.categories) for t in (x, rows, mixed))
        print(f"mutual information: real {real:.3f}, synthetic {made:.3f}, of independent columns {chance:.3f}")


if __name__ == "__main__":
    main()
