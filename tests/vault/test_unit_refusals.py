"""What a unit has no theorem for is refused, as is a sketch that claims too little; statements name the unit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot import Count, Vault
from privot.accounting import Gaussian, account
from privot.accounting.events import PerUnit
from privot.adaptation.adaptation_answer import check_asked
from privot.adaptation.adaptation_request import AdaptationRequest
from privot.audit.findings import Claim, Finding
from privot.audit.mechanism_audit import attack_for
from privot.audit.targets.release_file import audit_guarantee
from privot.common.privacy_unit import Unit
from privot.errors import DataError, UsageError
from privot.federation import Sketch, compare_sketches, sketch
from privot.guarantee import Adjacency
from privot.mechanisms.mechanism import Facts
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.marginals import Marginals
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.source_opening import open_source
from privot.report.audit_parts import audit_card, audit_section

X = np.random.default_rng(0).normal(size=(200, 3))
WHO: dict[str, Any] = {"units": np.arange(200) % 40, "unit": Unit("who", 3)}
TOLD: dict[str, Any] = {"clip": 4.0, "adjacency": "add-remove", "budget": (9.0, 1e-6)}
WORDS = "one who, at most 3 rows"


def test_partitions_that_were_opened_without_a_unit_have_none(tmp_path: Path):
    # unbounded rows would be charged as if three of each unit took part
    np.save(tmp_path / "a.npy", X[:100])
    np.save(tmp_path / "b.npy", X[100:])
    source = open_source(str(tmp_path / "*.npy"), classes=0, shape=(3,), engine=LocalEngine(1))
    Vault(source, **TOLD)
    with pytest.raises(UsageError, match="open them with a unit"):
        Vault(source, **TOLD, **WHO)
    with pytest.raises(UsageError, match="opened for one record, and not for one who"):
        Vault(source, **TOLD, unit=Unit("who", 3))
    with pytest.raises(UsageError, match=r"an array of each \.npz file"):
        open_source(str(tmp_path / "*.npy"), classes=0, shape=(3,), unit="who")


@pytest.fixture(scope="module")
def made() -> Sketch:
    return sketch(Vault(X, **TOLD, **WHO), epsilon=1.0, delta=1e-6)


def test_a_sketch_that_claims_the_cost_of_one_record_for_a_unit_is_refused(made: Sketch):
    (event,) = made.guarantee.events
    sigma, whole = made.public["sigma"], event["event"]["sensitivity"]
    for rows, sensitivity, fits in ((3, whole, True), (1, whole / 3, True), (3, whole / 3, False), (4, whole, False)):
        counted = account(PerUnit(Gaussian(sigma, sensitivity, Adjacency.ADD_REMOVE), "who", rows), 1e-6)
        if fits:
            replace(made, guarantee=counted)
            continue
        with pytest.raises(DataError, match="claims a lower cost"):
            replace(made, guarantee=counted)


def test_an_audit_of_a_mechanism_refuses_a_unit():
    question = Marginals((Axis(0, 4), Axis(1, 3)), ((0, 1),), 4.0)
    facts = Facts(2, None, 8.0, Adjacency.ADD_REMOVE)
    attack_for(question, facts)
    with pytest.raises(UsageError, match=WORDS):
        attack_for(question, replace(facts, unit=Unit("who", 3)))


def test_an_answer_to_a_request_refuses_a_unit():
    public = {
        "kind": "fourier", "dim": 3, "frequencies": 12, "bandwidths": [0.2, 0.4], "seed": 7, "low": 0.0, "high": 1.0,
        "frame": "orthogonal",
    }  # fmt: skip
    asked = AdaptationRequest(5.0, 1e-5, 200, public)
    check_asked(asked, Vault(X, **{**TOLD, "adjacency": "replace-one"}))
    with pytest.raises(UsageError, match=WORDS):
        check_asked(asked, Vault(X, **TOLD, **WHO))


def test_an_audit_of_a_guarantee_states_the_unit():
    guarantee = Vault(X, **TOLD, **WHO).release(Count(epsilon=1.0, delta=1e-6), purpose="test").guarantee
    (finding,) = audit_guarantee(guarantee, trials=2000)
    assert isinstance(finding, Finding)
    assert finding.claim.relation == f"add-remove of {WORDS}"
    assert WORDS in finding._repr_html_()
    assert "one record" not in finding._repr_html_()
    said = finding.to_dict()
    assert said["claimed"]["unit"] == said["measured"]["unit"] == {"column": "who", "rows": 3}
    fields = json.loads(json.dumps({"findings": [said]}))
    for part in (audit_card(fields), audit_section(fields)):
        assert f"add-remove of {WORDS}" in repr(part)
    assert Claim.of(replace(guarantee, unit=None)).to_dict()["unit"] == "record"


def test_sketches_and_their_comparison_state_the_unit(made: Sketch):
    assert f"add-remove of {WORDS}" in repr(made)
    other = sketch(Vault(X, **TOLD, **WHO), epsilon=1.0, delta=1e-6)
    page = compare_sketches(made, other, draws=0)._repr_html_()
    assert f"{WORDS}; the comparison costs nothing more" in page
    assert "one record" not in page
    alone = sketch(Vault(X, **TOLD), epsilon=1.0, delta=1e-6)
    assert f"{WORDS}; one record; the comparison" in compare_sketches(made, alone, draws=0)._repr_html_()
