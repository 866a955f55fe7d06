"""What one record becomes never depends on the records beside it, to the last bit: sensitivities rest on that."""

from __future__ import annotations

import numpy as np
import pytest

from privot.synthesis.tabular.column_laws.conditional import one_hot, probabilities
from privot.tables import Column, Schema, Table, TableCodec

ROWS = 1201


@pytest.mark.parametrize("classes", [2, 3, 9, 17])
def test_a_law_says_the_same_of_a_row_wherever_it_stands(classes: int) -> None:
    rng = np.random.default_rng(classes)
    sizes = [7, 5, 16, 3]
    rows = rng.integers(0, sizes, (ROWS, len(sizes)))
    theta, bias = 1.5 * rng.normal(size=(sum(sizes), classes)), rng.normal(size=classes)

    def law(some: np.ndarray) -> np.ndarray:
        return probabilities(one_hot(some, sizes), theta, bias)

    whole = law(rows)
    for start in range(1, 10):
        np.testing.assert_array_equal(law(rows[start:]), whole[start:])
    for place in range(0, ROWS, 17):
        np.testing.assert_array_equal(law(rows[place : place + 1])[0], whole[place])


@pytest.mark.parametrize("scale", ["linear", "log", "quantile"])
def test_a_record_is_encoded_the_same_wherever_it_stands(scale: str) -> None:
    rng = np.random.default_rng(0)
    cuts = (0.7, 31.0, 447.3, 9e3) if scale == "quantile" else ()
    column = Column("debt", "continuous", -3.3, 1e5, scale=scale, missing=True, quantiles=cuts)  # type: ignore[arg-type]
    schema = Schema((column,))
    codec = TableCodec(schema)
    debts = [None if v < 0 else float(v) for v in rng.uniform(-1e4, 1.1e5, ROWS)]
    whole = codec.encode(Table({"debt": debts}), compact=True)[0]
    for start in (1, 2, 3, 5, 7):
        np.testing.assert_array_equal(codec.encode(Table({"debt": debts[start:]}), compact=True)[0], whole[start:])
    for place in range(0, ROWS, 17):
        np.testing.assert_array_equal(codec.encode(Table({"debt": debts[place : place + 1]}), True)[0][0], whole[place])
