"""Decimals as categories: how many zeros one ends in goes by the other records of its column, and may not count."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from privot.tables import Column, Schema, TableCodec, encode_file

pa = pytest.importorskip("pyarrow")


def test_a_decimal_category_is_the_same_beside_any_other_decimal(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    codec = TableCodec(Schema((Column("a", "categorical", categories=("1", "1.5"), unknown="other"),), label=None))

    def first_row(*others: Decimal) -> np.ndarray:
        path = tmp_path / "a.parquet"
        parquet.write_table(pa.table({"a": [Decimal("1.5"), Decimal("1"), *others]}), path)
        return encode_file(path, codec, compact=True)[0][:2]

    alone = first_row()
    for other in (Decimal("1.25"), Decimal("100"), Decimal("0.0001")):
        np.testing.assert_array_equal(first_row(other), alone)
