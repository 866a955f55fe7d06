"""Jobs that were planned, or paid for, before counts by class were a part of their own go on as they were planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot import Vault
from privot.errors import DataError
from privot.jobs.job import Job
from privot.jobs.run import Run
from privot.mechanisms.table_counts.cell_grouping import GroupRule
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.synthesis import Synthesizer
from privot.synthesis.tabular.table_design import TableDesign
from privot.tables import Column, Schema, TableCodec


def codec(classes: int = 2) -> TableCodec:
    label = Column("ill", "categorical", categories=("no", "yes")[:classes])
    age, city = Column("age", "integer", 0, 99), Column("city", "categorical", categories=("Ulm", "Bonn"))
    return TableCodec(Schema((age, city, label), label="ill"))


def vault(of: TableCodec, rows: int = 1500, budget: float = 2.0) -> Vault:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.random(rows), rng.integers(0, 2, rows)])
    y = np.minimum(x[:, 0] + 0.2 * rng.normal(size=rows) > 0.5, of.classes - 1).astype(int)
    clip = of.bound(compact=True)
    return Vault(x, y, clip=clip, classes=of.classes, adjacency="add-remove", budget=(budget, 1e-6))


def earlier(synthesizer: Synthesizer, held: Vault) -> dict[str, Any]:
    """What a design said: two noises of counts, and none for counts by class or trees, and no rule of groups."""
    fields: dict[str, Any] = json.loads(json.dumps(synthesizer.design(held.facts).to_dict()))
    # without the third part less is paid for: the rest may be what it was
    later = ("label_sigma", "rule", "tree_sigma", "tree_rule")
    return {name: value for name, value in fields.items() if name not in later}


def test_a_rule_from_before_has_the_groups_it_was_planned_with() -> None:
    of = codec()
    fields = json.loads(json.dumps(Synthesizer(2.0, 1e-6, device="cpu", kind=of).design(vault(of).facts).to_dict()))
    fields["rule"] |= {"most": 16, "pair_sds": 0.0, "sds": 1.0, "end_sds": 3.5}
    # rules that said nothing of the whole: without it
    del fields["rule"]["whole"]
    counts = np.array([4, -3, 5, -2, 6, -4, 40, 60, 90, 70, 45, 5, -6, 7, -3, 6, -2], dtype=float)
    late = TableDesign.from_dict(fields, of).counts.rule
    assert not late.whole
    assert late.groups(counts, 5.0, True, False).tolist() == [0] * 8 + [1, 2] + [3] * 7
    # rules that said nothing of the ends: as they were grouped then
    del fields["rule"]["end_sds"]
    early = TableDesign.from_dict(fields, of).counts.rule
    assert early.groups(counts, 5.0, True, False).tolist() == [0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 7, 7, 8, 8, 8]


@pytest.mark.slow
@pytest.mark.parametrize("classes", [1, 2])
def test_a_job_from_before_goes_on(classes: int, tmp_path: Path) -> None:
    of = codec(classes)
    synthesizer, held = Synthesizer(2.0, 1e-6, seed=3, device="cpu", kind=of), vault(of)
    fields = earlier(synthesizer, held)
    design = TableDesign.from_dict(fields, of)
    scored = isinstance(design.mechanism, ScoredMarginals)
    counts = design.mechanism.marginals if scored else design.mechanism
    assert scored is (classes == 2)
    assert counts.rule == GroupRule(most=16, pair_sds=0.0, end_sds=None, whole=False)
    # as such jobs wrote them into their release: the label, third of the axes, beside each column
    assert counts.fine().sets == ((0, 2), (1, 2))
    assert counts.fine().shapes == ((100, classes), (2, classes))
    synthesizer.run(Run(Job.start(tmp_path / "job", {"design": fields}), lambda: held, lambda mark: False))
    assert synthesizer.sample(50, seed=1)[0].rows == 50
    assert synthesizer.guarantee_.epsilon() <= 2.0
    # and from its release, which is checked against the design, without the vault
    again = Synthesizer(2.0, 1e-6, device="cpu", kind=of)
    again.run(Run(Job.open(tmp_path / "job"), lambda: pytest.fail("a vault was opened"), lambda mark: True))
    assert again.sample(50, seed=1)[0]["age"].tolist() == synthesizer.sample(50, seed=1)[0]["age"].tolist()


def test_the_rule_is_written_down_and_a_damaged_one_is_refused() -> None:
    of = codec()
    design = Synthesizer(2.0, 1e-6, seed=3, kind=of).design(vault(of).facts)
    fields = json.loads(json.dumps(design.to_dict()))
    assert TableDesign.from_dict(fields, of) == design
    other = TableDesign.from_dict({**fields, "rule": {**fields["rule"], "most": 7}}, of)
    assert isinstance(other.mechanism, ScoredMarginals)
    assert other.mechanism.marginals.rule.most == 7
    broken = ({"most": 16.5}, {"most": "16"}, {"most": 1}, {"least": None}, {"share": 2.0}, {"sds": -1.0}, {"more": 1})
    for change in broken:
        with pytest.raises(DataError, match="does not describe"):
            TableDesign.from_dict({**fields, "rule": {**fields["rule"], **change}}, of)
    with pytest.raises(DataError, match="does not describe"):
        TableDesign.from_dict({**fields, "rule": None}, of)


def numbers(columns: int, classes: int = 2) -> TableCodec:
    label = Column("k", "categorical", categories=tuple("abcdef"[:classes]))
    return TableCodec(Schema((*(Column(f"c{i}", "continuous", 0, 1) for i in range(columns)), label), label="k"))


@pytest.mark.slow
def test_a_job_of_two_hundred_columns_from_before_is_not_refused() -> None:
    of = numbers(200)
    held = Vault(np.zeros((2, 200)), np.zeros(2, dtype=int), clip=of.bound(compact=True), classes=2,
                 adjacency="add-remove", budget=(2.0, 1e-6))  # fmt: skip
    fields = earlier(Synthesizer(2.0, 1e-6, seed=3, kind=of), held)
    assert TableDesign.from_dict(fields, of).mechanism.rule == GroupRule(
        most=16, pair_sds=0.0, end_sds=None, whole=False
    )
