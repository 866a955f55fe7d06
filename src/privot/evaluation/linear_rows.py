"""A table's columns as a linear model needs them: numbers standardised, categories one-hot; what scikit-learn advises.

A penalty on the weights is a penalty on the units that columns are counted in. On columns scaled by their *declared*
range, one of a standard deviation of 10⁻⁴ would need a weight of 10⁴ and is given none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privot.evaluation.table_figures import Coded
from privot.tables.columns import Column


def linear_rows(train: Coded, test: Coded) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Both tables without their label, as sparse rows.

    A number is counted from the mean of `train`, in standard deviations of `train`; where it may be missing it is 0
    then, and one more column is 1. A category is one-hot, a missing one being one more.
    """
    ours: list[sparse.csr_matrix] = []
    theirs: list[sparse.csr_matrix] = []
    codec = train.codec
    for place, column in enumerate(codec.features):
        a, b = (codec.column_numbers(column, coded.rows[:, place]) for coded in (train, test))
        if not column.is_number:
            for out, values in ((ours, a), (theirs, b)):
                out.append(_one_hot(column, values))
            continue
        known = a[~np.isnan(a)]
        middle, spread = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)
        for out, values in ((ours, a), (theirs, b)):
            gone = np.isnan(values)
            at = np.where(gone, 0.0, (values - middle) / (spread or 1.0))
            out.append(sparse.csr_matrix(np.column_stack([at, gone] if column.missing else [at])))
    return tuple(sparse.hstack(blocks, format="csr") for blocks in (ours, theirs))


def _one_hot(column: Column, values: NDArray[np.float64]) -> sparse.csr_matrix:
    place = np.where(np.isnan(values), len(column.words), values).astype(np.int64)
    rows = np.arange(len(place) + 1)
    return sparse.csr_matrix((np.ones(len(place)), place, rows), shape=(len(place), len(column.words) + column.missing))
