"""A link that the released counts show and the synthetic rows lack is said."""

from __future__ import annotations

import numpy as np
import pytest

from privot import Vault
from privot.evaluation.schema_axes import axes_of
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.synthesis.tabular.column_laws.consistent_marginals import estimate
from privot.synthesis.tabular.lost_links import lost_links, lost_sentences
from privot.synthesis.tabular.table_design import TableDesign
from privot.synthesis.tabular.table_folder import drowned_of
from privot.synthesis.tabular.table_release import table_mechanism
from privot.tables import Column, Schema, TableCodec


def test_a_link_that_the_rows_lack_is_named_and_one_that_they_have_or_nobody_sees_is_not() -> None:
    codec = TableCodec(Schema(tuple(Column(name, "integer", 0, 5) for name in ("a", "b", "c"))))
    rng = np.random.default_rng(0)
    a = rng.integers(0, 6, 8000)
    rows = np.column_stack([a, np.where(rng.random(8000) < 0.6, a, rng.integers(0, 6, 8000)), rng.integers(0, 6, 8000)])
    x = rows / 5.0
    made = table_mechanism(codec, epsilon=1.0, delta=1e-6, adjacency="add-remove")
    vault = Vault(x, clip=codec.bound(compact=True), adjacency="add-remove", budget=(1.0, 1e-6))
    known, axes = estimate(vault.release(made, purpose="test")), axes_of(codec, compact=True)
    assert lost_links(known, axes, x) == []
    shuffled = np.column_stack([x[:, 0], rng.permutation(x[:, 1]), x[:, 2]])
    (lost,) = lost_links(known, axes, shuffled)
    assert lost.columns == (0, 1)
    assert abs(lost.kept) < 0.2
    (said,) = lost_sentences([lost], ["a", "b", "c"])
    assert said.startswith("The released counts say that a and b go together, and the synthetic rows have")
    assert lost_sentences([lost] * 7, ["a", "b", "c"])[-1] == "So it is with 2 more pairs of columns."


def test_the_pages_of_a_job_say_it_also_of_columns_that_a_release_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (Column("m", "continuous", 0, 9, missing=True), Column("a", "boolean"), Column("b", "boolean"))
    codec = TableCodec(Schema(columns))
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 4000)
    x = np.column_stack([np.where(rng.random(4000) < 0.2, -1.0, rng.random(4000)), a, a]).astype(float)
    facts = Facts(3, None, codec.bound(compact=True), Adjacency.ADD_REMOVE, None)
    design = TableDesign.choose(codec, facts, 1.0, 1e-6, 0)
    vault = Vault(x, clip=facts.clip, adjacency="add-remove", budget=(1.0, 1e-6))
    release = vault.release(design.mechanism, purpose="test")
    # the report asks for what the fit had estimated
    with monkeypatch.context() as patch:
        design.fit(release)
        patch.setattr("privot.synthesis.tabular.column_laws.consistent_marginals.estimate_parts", None)
        assert not any("go together" in said for said in drowned_of(design, release, x))
    x[:, 1] = rng.permutation(x[:, 1])
    (said,) = [said for said in drowned_of(design, release, x) if "go together" in said]
    assert "that a and b go together" in said
