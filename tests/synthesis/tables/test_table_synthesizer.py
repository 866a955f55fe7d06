"""The one `Synthesizer` on tables: fit, sample, save, load; what it refuses, and that refusing costs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from privot import Vault
from privot.accounting import account
from privot.errors import BudgetError, DataError, UsageError
from privot.jobs.job import Job
from privot.jobs.released_files import read_json, write_json
from privot.jobs.run import Run
from privot.synthesis import Synthesizer
from privot.synthesis.output.output_folder import write_folder
from privot.synthesis.tabular.table_design import TableDesign
from privot.tables import Column, Schema, Table, TableCodec, read_table
from synthesis_asked import flat

CODEC = TableCodec(
    Schema(
        (
            Column("age", "integer", 0, 99),
            Column("city", "categorical", categories=("Ulm", "Bonn", "Köln"), missing=True),
            Column("ill", "boolean", categories=("no", "yes")),
        ),
        label="ill",
    )
)


def rows(count: int = 1500) -> tuple[np.ndarray, np.ndarray | None]:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, count)
    city = [None if v > 0.8 else ("Ulm", "Bonn")[int(v > 0.3)] for v in rng.random(count)]
    return CODEC.encode(
        Table({"age": age, "city": city, "ill": np.where(age + 20 * rng.normal(size=count) > 60, "yes", "no")}),
        compact=True,
    )


def vault(budget: tuple[float, float] = (2.0, 1e-6), **changes: Any) -> Vault:
    x, y = rows()
    terms: dict[str, Any] = {"clip": CODEC.bound(compact=True), "classes": 2, "adjacency": "add-remove"}
    return Vault(x, y, budget=budget, **{**terms, **changes})


@pytest.fixture(scope="module")
def fitted() -> Synthesizer:
    return Synthesizer(2.0, 1e-6, seed=3, device="cpu", kind=CODEC).fit(vault())


def test_what_was_there_is_found_again(fitted: Synthesizer) -> None:
    table, labels = fitted.sample(8000, seed=1)
    assert isinstance(table, Table)
    assert list(table) == ["age", "city", "ill"]
    x, y = rows()
    assert y is not None
    assert labels is not None
    # noise and fit move them by one or two hundredths
    assert abs(labels.mean() - y.mean()) < 0.1
    ours = CODEC.encode(table, compact=True)[0]
    assert abs((ours[:, 1] == 3).mean() - (x[:, 1] == 3).mean()) < 0.1
    assert np.corrcoef(ours[:, 0], labels)[0, 1] > 0.4
    assert 0.99 * 2.0 < fitted.guarantee_.epsilon() <= 2.0
    np.testing.assert_array_equal(labels, fitted.sample(8000, seed=1)[1])
    assert not np.array_equal(fitted.sample(500)[0]["age"], fitted.sample(500)[0]["age"])


@pytest.mark.slow
def test_a_folder_is_all_that_sampling_needs(fitted: Synthesizer, tmp_path: Path) -> None:
    write_folder(fitted, tmp_path, 50, seed=1, kind=".csv")
    again = Synthesizer.load(tmp_path)
    assert again.guarantee_.epsilon() == fitted.guarantee_.epsilon()
    a, b = (s.sample(200, seed=5)[0] for s in (fitted, again))
    assert all(a[name].tolist() == b[name].tolist() for name in a)
    assert read_table(tmp_path / "synthetic.csv").rows == 50
    again.save(tmp_path / "copy")
    assert Synthesizer.load(tmp_path / "copy").sample(200, seed=5)[1].tolist() == b["ill"].astype(int).tolist()


def test_it_keeps_the_manners_of_an_estimator(fitted: Synthesizer) -> None:
    other = clone(fitted)
    assert other.get_params()["kind"] is not None
    with pytest.raises(UsageError):
        other.sample(5)
    with pytest.raises(UsageError):
        fitted.sample(3, labels=[0, 1, 0])
    with pytest.raises(UsageError):
        fitted.sample(0)
    params = json.loads(json.dumps(fitted.to_params()))
    assert Synthesizer.from_params(params).to_params() == params


@pytest.mark.parametrize(
    "changes",
    [{"method": "sinkhorn"}, {"options": {"labelled": 0.1}}, {"features": object()}, {"rules": object()}],
    ids=lambda c: next(iter(c)),
)
def test_what_a_schema_already_says_cannot_be_said_again(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Synthesizer(2.0, 1e-6, **flat(codec=CODEC, **changes)).design(vault().facts)


def test_a_vault_that_holds_something_else_is_refused_before_it_pays() -> None:
    x, y = rows(20)
    wide = Vault(CODEC.widen(x), y, clip=CODEC.bound(), classes=2, adjacency="add-remove", budget=(2.0, 1e-6))
    for held in (wide, vault(clip=1.0), vault(classes=3)):
        with pytest.raises(UsageError):
            Synthesizer(2.0, 1e-6, kind=CODEC).fit(held)


def test_a_design_is_written_down_and_pays_for_what_it_says() -> None:
    held = vault()
    design = Synthesizer(2.0, 1e-6, seed=3, kind=CODEC).design(held.facts)
    assert isinstance(design, TableDesign)
    fields = json.loads(json.dumps(design.to_dict()))
    again = TableDesign.from_dict(fields, CODEC)
    assert again == design
    cost = account(again.mechanism.event(held.facts), 1e-6).epsilon()
    assert 0.99 * 2.0 < cost <= 2.0
    for broken in ({}, {**fields, "sigma": [1.0]}, {**fields, "sigma": "x"}, {**fields, "facts": {"dim": 3}}):
        with pytest.raises(DataError):
            TableDesign.from_dict(broken, CODEC)


def test_a_design_with_less_noise_than_was_asked_for_is_refused_and_not_paid(tmp_path: Path) -> None:
    synthesizer = Synthesizer(2.0, 1e-6, seed=3, device="cpu", kind=CODEC)
    held = vault((100.0, 1e-6))
    design = synthesizer.design(held.facts).to_dict()
    less = {"sigma": [s / 2 for s in design["sigma"]]}
    less |= {name: design[name] / 2 for name in ("score_sigma", "label_sigma")}
    for name, value in less.items():
        job = Job.start(tmp_path / name, {"design": {**design, name: value}})
        with pytest.raises(DataError, match="nothing was paid"):
            synthesizer.run(Run(job, lambda: held, lambda mark: False))
        assert not (tmp_path / name / "release.npz").exists()


@pytest.mark.slow
def test_a_job_goes_on_from_its_release_and_from_no_other(tmp_path: Path) -> None:
    held = vault()
    first = Synthesizer(2.0, 1e-6, seed=3, device="cpu", kind=CODEC).fit(held, folder=tmp_path / "job")
    job = Job.open(tmp_path / "job")
    again = Synthesizer(2.0, 1e-6, device="cpu", kind=CODEC)
    again.run(Run(job, lambda: pytest.fail("a vault was opened"), lambda mark: True))
    assert again.sample(100, seed=1)[0]["age"].tolist() == first.sample(100, seed=1)[0]["age"].tolist()
    with pytest.raises(BudgetError):
        Synthesizer(2.0, 1e-6, device="cpu", kind=CODEC).fit(held, folder=tmp_path / "second")
    # another release with the same cost, but of other marginals
    other = Synthesizer(2.0, 1e-6, device="cpu", kind=CODEC).fit(vault(), folder=tmp_path / "other")
    assert other.guarantee_.epsilon() == first.guarantee_.epsilon()
    settings = read_json(tmp_path / "job" / "job.json")
    settings["settings"]["design"]["by_class"] = not settings["settings"]["design"]["by_class"]
    write_json(tmp_path / "job" / "job.json", settings)
    with pytest.raises(DataError, match="not the one its job paid for"):
        Synthesizer(2.0, 1e-6, device="cpu", kind=CODEC).run(
            Run(Job.open(tmp_path / "job"), lambda: pytest.fail("a vault was opened"), lambda mark: True)
        )


@pytest.mark.slow
def test_what_an_earlier_fit_learned_is_not_drawn_under_a_later_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    synthesizer = Synthesizer(2.0, 1e-6, seed=3, device="cpu", kind=CODEC).fit(vault())

    def fails(self: Any, release: Any, progress: Any = None) -> Any:
        raise DataError("no")

    monkeypatch.setattr(TableDesign, "fit", fails)
    with pytest.raises(DataError):
        synthesizer.fit(vault())
    with pytest.raises(UsageError):
        synthesizer.sample(3)


def test_progress_counts_the_columns_and_the_label() -> None:
    told: list[tuple[int, int]] = []
    Synthesizer(2.0, 1e-6, seed=3, device="cpu", kind=CODEC).fit(vault(), progress=lambda a, b, _: told.append((a, b)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_schema_that_cannot_be_fitted_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    held = vault()
    synthesizer = Synthesizer(2.0, 1e-6, seed=3, device="cpu", kind=CODEC)

    def fails(*_: Any, **__: Any) -> Any:
        raise DataError("no")

    with monkeypatch.context() as patch:
        patch.setattr("privot.synthesis.tabular.table_design.fit_table", fails)
        with pytest.raises(DataError):
            synthesizer.fit(held)
    # the whole budget is still there
    assert synthesizer.fit(held).guarantee_.epsilon() > 1.98


def test_what_python_publishes_is_what_the_command_hands_on(fitted: Synthesizer, tmp_path: Path) -> None:
    report = fitted.publish(tmp_path / "new" / "made", samples=300, seed=1)
    folder = tmp_path / "new" / "made"
    assert report == folder / "report.html"
    page = report.read_text()
    assert f"{fitted.guarantee_.epsilon():.6g}" in page
    assert "add-remove, proven" in page
    assert json.loads((folder / "guarantee.json").read_text()) == json.loads(fitted.guarantee_.to_json())
    table = read_table(folder / "synthetic.csv")
    assert list(table) == ["age", "city", "ill"]
    assert len(table["age"]) == 300
    # reading it back needs no vault, and draws the same
    again, _ = Synthesizer.load(folder).sample(300, seed=1)
    assert [str(v) for v in again["age"]] == list(table["age"])


@pytest.mark.slow
@pytest.mark.parametrize(("count", "drowned"), [(60, True), (4000, False)])
def test_the_report_says_what_noise_drowned(count: int, drowned: bool, tmp_path: Path) -> None:
    x, y = rows(count)
    assert y is not None
    vault = Vault(x, y, clip=CODEC.bound(compact=True), classes=2, adjacency="add-remove",
                  budget=(1.0, 1e-6))  # fmt: skip
    made = Synthesizer(1.0, 1e-6, seed=0, device="cpu", kind=CODEC).fit(vault)
    write_folder(made, tmp_path, 50, seed=1, kind=".csv")
    said = json.loads((tmp_path / "figures.json").read_text())["drowned"]
    assert bool(said) == drowned
    page = (tmp_path / "report.html").read_text()
    assert ("noise drowns" in page) == drowned
    if drowned:
        # the number of records is a released one: about right, and not the private one to the last
        near = int(said[0].removeprefix("By the released counts, with ").split()[0])
        assert near == pytest.approx(count, abs=40)
