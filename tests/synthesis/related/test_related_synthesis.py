"""Related tables from end to end in Python: links, numbers of children, one charge, refusals, files and resuming."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killed_jobs import killed_at

from privot import Ledger, Schema, Synthesizer, Vault
from privot.errors import BudgetError, DataError, LostReleaseError, UsageError
from privot.synthesis.method_configs import Embedding
from privot.synthesis.tabular.related.related_model import child_rows
from privot.tables import Column, RelatedCodec, Table, read_table
from privot.tables.constraints.stated import Key, Order

DELTA = 1e-6
SICK = Column("sick", "boolean", categories=("no", "yes"))
PATIENTS = Schema((Column("age", "integer", 0, 99), SICK))
VISITS = Schema(
    (Column("cost", "continuous", 0, 600, decimals=1), Column("ward", "categorical", categories=("a", "b")))
)
CODEC = RelatedCodec({"patients": PATIENTS, "visits": VISITS}, key="patient_id", per_parent=5)
SMALL = RelatedCodec({"patients": Schema((SICK,)), "visits": Schema((SICK,))}, key="patient_id", per_parent=2)


def write(folder: Path, parents: int = 3000, seed: int = 0) -> dict[str, Path]:
    """Sick patients have three visits on average and others one; costs follow age, wards who is sick."""
    dice = np.random.default_rng(seed)
    age, sick = dice.integers(0, 100, parents), dice.random(parents) < 0.4
    files = {name: folder / f"{name}.csv" for name in CODEC.names}
    with files["patients"].open("w", newline="") as out:
        lines = csv.writer(out)
        lines.writerow(["patient_id", "age", "sick"])
        lines.writerows((f"SECRET-{i}", age[i], "yes" if sick[i] else "no") for i in range(parents))
    with files["visits"].open("w", newline="") as out:
        lines = csv.writer(out)
        lines.writerow(["patient_id", "cost", "ward"])
        for i in range(parents):
            for _ in range(dice.poisson(3.0 if sick[i] else 1.0)):
                cost = float(np.clip(50.0 + 4.0 * age[i] + 40.0 * dice.standard_normal(), 0.0, 600.0))
                lines.writerow(
                    [f"SECRET-{i}", f"{cost:.1f}", "a" if dice.random() < (0.9 if sick[i] else 0.2) else "b"]
                )
    return files


def figures(tables: dict[str, Table]) -> dict[str, float]:
    """What depends on both tables: correlation of a child's with its parent's column, and numbers of children."""
    patients, visits = tables["patients"], tables["visits"]
    places = {key: place for place, key in enumerate(patients["patient_id"])}
    owner = np.array([places[key] for key in visits["patient_id"]])
    sick = np.array([value in (True, "yes") for value in patients["sick"]])
    numbers = np.minimum(np.bincount(owner, minlength=len(places)), 5)
    first = np.array([str(ward) == "a" for ward in visits["ward"]])
    return {
        "age and cost": np.corrcoef(visits["cost"].astype(float), patients["age"].astype(float)[owner])[0, 1],
        "visits of the sick": numbers[sick].mean(),
        "visits of others": numbers[~sick].mean(),
        "ward a of the sick": first[sick[owner]].mean(),
        "ward a of others": first[~sick[owner]].mean(),
        "none": (numbers == 0).mean(),
        "five": (numbers == 5).mean(),
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write(tmp_path_factory.mktemp("clinic"))


@pytest.fixture(scope="module")
def fitted(files: dict[str, Path]) -> Synthesizer:
    vault = Vault.open(files, CODEC, adjacency="add-remove", budget=(5.0, DELTA))
    made = Synthesizer(5.0, DELTA, seed=1, kind=CODEC).fit(vault)
    with pytest.raises(BudgetError):
        Synthesizer(0.5, DELTA, seed=1, kind=CODEC).fit(vault)
    return made


@pytest.mark.slow
def test_one_charge_of_what_was_asked_for_the_parent(fitted: Synthesizer):
    assert 4.9 <= fitted.guarantee_.epsilon() <= 5.0
    assert str(fitted.guarantee_.unit) == "one patient_id, at most 6 rows"
    assert any("its row of patients and at most 5 of visits" in said for said in fitted.guarantee_.assumptions)


def test_every_child_has_a_parent_and_no_parent_too_many(fitted: Synthesizer):
    made = fitted.sample(2000, seed=4)
    keys = list(made["patients"]["patient_id"])
    assert keys == list(range(1, 2001))
    assert set(made["visits"]["patient_id"]) <= set(keys)
    assert np.bincount(made["visits"]["patient_id"].astype(int)).max() <= 5
    assert list(made["patients"]) == ["patient_id", "age", "sick"]
    assert list(made["visits"]) == ["patient_id", "cost", "ward"]
    again = fitted.sample(2000, seed=4)
    for name in made:
        for column in made[name]:
            assert list(made[name][column]) == list(again[name][column])


def test_numbers_of_children_and_links_to_parents_are_kept(files: dict[str, Path], fitted: Synthesizer):
    real = figures({name: read_table(path) for name, path in files.items()})
    made = figures(fitted.sample(6000, seed=5))
    for name, told in real.items():
        # cells and noise take a little of a correlation of 0.95
        allowed = 0.2 if name.startswith("visits") else 0.12 if name == "age and cost" else 0.06
        assert made[name] == pytest.approx(told, abs=allowed), name
    assert real["age and cost"] > 0.9
    assert real["visits of the sick"] > 2.0 * real["visits of others"]


def test_links_are_lost_where_children_are_drawn_beside_other_parents(fitted: Synthesizer):
    # what the test above guards: with the parents' columns shuffled nothing is left of the link
    model = fitted.model_
    parents, visits = model.draw(6000, 5)
    dice = np.random.default_rng(1)
    given = parents.rows[visits.parents]
    x, _ = child_rows(model.children[0], dice.permutation(given), dice)
    assert abs(np.corrcoef(x[:, CODEC.context], given[:, 0])[0, 1]) < 0.1


def test_conditions_are_about_parents_and_children_follow(fitted: Synthesizer):
    made = fitted.sample(300, seed=1, where=["age>=90", "number of visits=4"])
    assert (made["patients"]["age"].astype(int) >= 90).all()
    assert (np.bincount(made["visits"]["patient_id"].astype(int), minlength=301)[1:] == 4).all()
    childless = fitted.sample(50, seed=1, where="number of visits=0")
    assert (childless["patients"].rows, childless["visits"].rows) == (50, 0)
    frames = fitted.sample(5, seed=1, frame="arrow")
    assert frames["visits"].column_names == ["patient_id", "cost", "ward"]
    with pytest.raises(UsageError, match="Expected a column of the schema"):
        fitted.sample(5, where="cost>1")


def test_what_is_saved_draws_the_same_and_damage_is_found(fitted: Synthesizer, tmp_path: Path):
    fitted.publish(tmp_path, samples=200, seed=3)
    for name in ("patients.csv", "visits.csv", "report.html", "guarantee.json"):
        assert (tmp_path / name).exists()
        assert "SECRET" not in (tmp_path / name).read_text(encoding="utf-8")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "one patient_id, at most 6 rows" in page
    assert "visits.csv --schema SCHEMA.json --schema visits.json" in page
    assert "children of one parent have no order" in page
    again = Synthesizer.load(tmp_path).sample(50, seed=9)
    assert list(again["visits"]["cost"]) == list(fitted.sample(50, seed=9)["visits"]["cost"])
    config = json.loads((tmp_path / "config.json").read_text())
    config["learned"]["tables"][1]["factors"].reverse()
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match="damaged"):
        Synthesizer.load(tmp_path)


def test_schemas_make_keys_and_keep_constraints(tmp_path: Path):
    patients = Schema((Column("age", "integer", 0, 99),), constraints=(Key("patient_id", "random", "P"),))
    days = tuple(Column(name, "integer", 0, 30) for name in ("start", "end"))
    visits = Schema(days, constraints=(Order(("start", "end")), Key("visit_id")))
    codec = RelatedCodec({"patients": patients, "visits": visits}, key="patient_id", per_parent=2)
    files = {name: tmp_path / f"{name}.csv" for name in codec.names}
    files["patients"].write_text("patient_id,age\n" + "".join(f"{i},{i % 100}\n" for i in range(200)))
    files["visits"].write_text("patient_id,start,end\n" + "".join(f"{i},{i % 9},{9 + i % 9}\n" for i in range(200)))
    vault = Vault.open(files, codec, adjacency="add-remove", budget=(9.0, DELTA))
    made = Synthesizer(9.0, DELTA, seed=1, kind=codec).fit(vault).sample(300, seed=1)
    assert len(set(made["patients"]["patient_id"])) == 300
    assert all(key.startswith("P") for key in made["patients"]["patient_id"])
    assert set(made["visits"]["patient_id"]) <= set(made["patients"]["patient_id"])
    assert list(made["visits"]["visit_id"]) == list(range(1, made["visits"].rows + 1))
    assert (made["visits"]["start"].astype(int) <= made["visits"]["end"].astype(int)).all()


@pytest.mark.slow
def test_several_tables_of_children_have_bounds_of_their_own(tmp_path: Path):
    schemas = {name: Schema((SICK,)) for name in ("patients", "visits", "tests")}
    codec = RelatedCodec(schemas, key="patient_id", per_parent={"visits": 2, "tests": 4})
    assert str(codec.unit) == "one patient_id, at most 7 rows"
    files = {name: tmp_path / f"{name}.csv" for name in codec.names}
    dice = np.random.default_rng(2)
    sick = dice.random(600) < 0.5
    said = ["yes" if ill else "no" for ill in sick]
    for name, times in (("patients", 1), ("visits", 2), ("tests", 3)):
        # the sick alone have tests, and all of theirs are positive
        rows = [f"{i},{said[i]}" for i in range(600) for _ in range(times) if name != "tests" or sick[i]]
        files[name].write_text("\n".join(["patient_id,sick", *rows]) + "\n")
    vault = Vault.open(files, codec, adjacency="add-remove", budget=(20.0, DELTA))
    made = Synthesizer(20.0, DELTA, seed=1, kind=codec).fit(vault).sample(500, seed=1)
    ill = dict(zip(made["patients"]["patient_id"], made["patients"]["sick"], strict=True))
    for name, most in (("visits", 2), ("tests", 4)):
        assert np.bincount(made[name]["patient_id"].astype(int)).max() <= most
        alike = [ill[key] == value for key, value in zip(made[name]["patient_id"], made[name]["sick"], strict=True)]
        assert np.mean(alike) > 0.85, name
    assert np.mean([ill[key] for key in made["tests"]["patient_id"]]) > 0.85


def job(files: dict[str, Path], ledger: Ledger, folder: Path, epsilon: float = 1.0, **more: Any) -> Synthesizer:
    vault = Vault.open(files, SMALL, adjacency="add-remove", ledger=ledger, budget=(1.0, DELTA))
    return Synthesizer(epsilon, DELTA, seed=1, kind=SMALL).fit(vault, folder=folder, **more)


def test_a_job_is_paid_once_and_a_lost_release_is_said(tmp_path: Path):
    files = {name: tmp_path / f"{name}.csv" for name in SMALL.names}
    files["patients"].write_text("patient_id,sick\n" + "a,yes\nb,no\n")
    files["visits"].write_text("patient_id,sick\n" + "a,yes\na,yes\n")
    folder = tmp_path / "job"
    with Ledger.create(tmp_path / "clinic.ledger") as ledger:
        with pytest.raises(BudgetError):
            job(files, ledger, tmp_path / "much", epsilon=1.5)
        (data,) = ledger.datasets()
        assert not ledger.entries(data.fingerprint)

        with killed_at("privot.release.Release.save"):
            job(files, ledger, folder, epsilon=0.5)
        assert len(ledger.entries(data.fingerprint)) == 1
        assert not (folder / "release.npz").exists()
        # what makes the very same release is gone too
        (folder / "release.salt").unlink()
        with pytest.raises(LostReleaseError):
            job(files, ledger, folder, epsilon=0.5)
        (folder / "visits.csv").write_text("made from an earlier release\n")
        job(files, ledger, folder, epsilon=0.5, pay_again=True)
        assert not (folder / "visits.csv").exists()
        # from here on the release is on disk: nothing more is paid
        job(files, ledger, folder, epsilon=0.5)
        assert len(ledger.entries(data.fingerprint)) == 2
        told = json.loads((folder / "job.json").read_text())
        told["settings"]["design"]["tables"][1]["sigma"][0] *= 0.5
        (folder / "job.json").write_text(json.dumps(told))
        with pytest.raises(DataError, match="not the one its job paid for"):
            job(files, ledger, folder, epsilon=0.5)


def test_other_vaults_and_codecs_are_refused(files: dict[str, Path]):
    vault = Vault.open(files, CODEC, adjacency="add-remove", budget=(1.0, DELTA))
    with pytest.raises(UsageError, match="holds related tables"):
        Synthesizer(1.0, DELTA).design(vault.facts)
    other = RelatedCodec({"patients": PATIENTS, "visits": VISITS}, key="patient_id", per_parent=4)
    with pytest.raises(UsageError, match="leave kind out"):
        Synthesizer(1.0, DELTA, kind=other).fit(vault)
    with pytest.raises(UsageError, match="a vault of the same codec"):
        Synthesizer(1.0, DELTA, kind=other).design(vault.facts)
    with pytest.raises(UsageError, match="leave out all other options"):
        Synthesizer(1.0, DELTA, method=Embedding(options={"labelled": 0.1})).fit(vault)
