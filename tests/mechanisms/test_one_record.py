"""One record: under add-remove its neighbours are two records and none, so a vault may not refuse it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from mechanism_samples import Raw

from privot import Adjacency, Vault
from privot.audit.implementation.timing_cases import DIM, mechanisms
from privot.errors import DataError
from privot.mechanisms.accuracy_counts import CorrectCounts
from privot.mechanisms.gradients.linear_head import TunedHead
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import SystemNoise

ADDED = {name: given for name, given in mechanisms().items() if given[1] is Adjacency.ADD_REMOVE}


def vault(records: int, dim: int, adjacency: str = "add-remove") -> Vault:
    x = np.full((records, dim), 0.5)
    labels = np.zeros(records, dtype=np.int64)
    return Vault(x, labels, clip=9.0, classes=2, adjacency=adjacency, budget=(1e9, 1e-5), noise=SystemNoise())


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("name", ADDED)
def test_mechanisms_that_count_under_add_remove_release_one_record_as_they_release_two(name: str, records: int) -> None:
    mechanism, _, query = ADDED[name]
    held = vault(records, DIM)
    for_one = held.stream(mechanism, purpose="test")
    release = next(iter(for_one)) if query is None else for_one.answer(query)
    values = release.value.values() if isinstance(release.value, Mapping) else [release.value]
    assert all(np.isfinite(np.asarray(value)).all() for value in values)


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize(
    "mechanism",
    [
        TunedHead(Raw(3), np.zeros((3, 2)), 2.0, 4, 0.1),
        CorrectCounts((Raw(3), Raw(3)), 2.0),
        Marginals((Axis(0, 2, (0.3,), ordered=True), Axis(LABEL, 2)), ((0,), (0, 1)), 1.0),
    ],
    ids=["tuned head", "hits", "marginals"],
)
def test_releases_of_all_records_take_one_record_as_they_take_two(mechanism: Any, records: int) -> None:
    value = vault(records, 3).release(mechanism, purpose="test").value
    values = value.values() if isinstance(value, Mapping) else [value]
    assert all(np.isfinite(np.asarray(v)).all() for v in values)


def test_one_record_is_refused_where_its_number_is_public() -> None:
    with pytest.raises(DataError, match="under replace-one"):
        vault(1, 3, "replace-one")
    assert vault(2, 3, "replace-one").facts.records == 2


def test_no_records_at_all_are_refused_under_both_adjacencies() -> None:
    """That tells an empty data set from one record: stated among the limits, since no reader hands one over."""
    for adjacency in ("add-remove", "replace-one"):
        with pytest.raises(DataError, match="no records"):
            vault(0, 3, adjacency)
