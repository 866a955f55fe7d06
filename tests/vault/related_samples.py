"""Parents with planted children: 0, 1, 5 or 500 of the parent "planted", who is in both tables or in neither."""

from __future__ import annotations

from typing import Any

import numpy as np

from privot.kinds.related_records import RelatedTables
from privot.tables import Column, RelatedCodec, Schema

PLANTED = (0, 1, 5, 500)
PER_PARENT = 5
PARENTS = 40
KEY = "patient_id"
BACKWARDS = -1


def codec(labels: bool = False, per_parent: int = PER_PARENT) -> RelatedCodec:
    """Patients of two columns, visits of two; with `labels`, both have a column to predict besides."""
    ill = (Column("ill", "boolean", categories=("no", "yes")),) if labels else ()
    patients = Schema((Column("age", "integer", 0, 9), Column("sex", "categorical", categories=("f", "m")), *ill))
    ward = Column("ward", "categorical", categories=("a", "b", "c"))
    visits = Schema((Column("days", "integer", 0, 4), ward, *ill), "ill" if labels else None)
    if labels:
        patients = Schema(patients.columns, "ill")
    return RelatedCodec({"patients": patients, "visits": visits}, key=KEY, per_parent=per_parent)


def tables(
    planted: int | None, seed: int = 3, labels: bool = False, order: int | None = None, many: bool = False
) -> dict[str, Any]:
    """Encoded tables: 40 parents and 120 children, and the planted parent with so many children, all alike.

    None leaves that parent out. `order` shuffles both tables, or turns them round (`BACKWARDS`). With `many` each
    parent has more children than take part.
    """
    dice = np.random.default_rng(seed)
    keys = [f"p{number}" for number in range(PARENTS)]
    owners = [key for key in keys for _ in range(12)] if many else list(dice.choice(keys, 120))
    parents = np.column_stack([dice.integers(0, 10, PARENTS) / 9.0, dice.integers(0, 2, PARENTS)])
    children = np.column_stack([dice.integers(0, 5, len(owners)) / 4.0, dice.integers(0, 3, len(owners))])
    if many:
        # of two kinds, those of the first kind first
        children[:] = np.column_stack([np.arange(len(owners)) % 12 // 6, np.zeros(len(owners))])
    if planted is not None:
        keys, parents = [*keys, "planted"], np.concatenate([parents, [[1.0, 1.0]]])
        owners = [*owners, *["planted"] * planted]
        children = np.concatenate([children, np.tile([1.0, 2.0], (planted, 1))])
    made = {}
    for place, (name, rows, of) in enumerate((("patients", parents, keys), ("visits", children, owners))):
        rows = rows.astype(np.float64)
        y = (rows.sum(axis=1) > 1.0).astype(np.int64) if labels else None
        at = np.arange(len(of)) if not order else np.random.default_rng([abs(order), place]).permutation(len(of))
        at = np.arange(len(of))[::-1] if order == BACKWARDS else at
        made[name] = rows[at], None if y is None else y[at], [of[i] for i in at]
    return made


def related(planted: int | None, **how: Any) -> RelatedTables:
    """The same, as a vault takes them."""
    return RelatedTables(codec(how.get("labels", False)), tables(planted, **how))
