"""Adaptation to a target in which one unit has several records: noise, charges and pages are for the unit; methods that
show or draw single records refuse it before anything is paid.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from privot import Count, Schema, Vault
from privot.accounting import account
from privot.accounting.events import Composed, PerUnit, event_from_dict, leaves
from privot.adaptation import DomainAdapter, Embedding, StandIn
from privot.adaptation.adaptation_methods import read_design
from privot.adaptation.adaptation_request import AdaptationRequest
from privot.adaptation.stand_in.table_rows import unlabelled_file, unlabelled_file_with_units
from privot.audit.simulation.noiseless import NoNoise
from privot.cli import run
from privot.common.privacy_unit import Unit
from privot.errors import DataError, UsageError
from privot.guarantee import Guarantee
from privot.jobs.blocks import check_block
from privot.kinds import Files, Vectors
from privot.ledger import Ledger
from privot.noise import SystemNoise
from privot.partitions.engines.local_engine import LocalEngine
from privot.tables import Column, TableCodec
from weaker_noise import WeakerNoise

TERMS = (5.0, 1e-5)
SHORT = {
    "embedding": Embedding(batch=16, fit=20, finish=20, augment=False, frequencies=40),
    "stand-in": StandIn(
        batch=16, warmup=20, finish=20, check=20, members=1, samples=50, generator=20, fit=20, augment=False,
    ),
}  # fmt: skip


def rows(records: int, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(records) % 2
    x = 0.25 + 0.4 * y[:, None] + shift + 0.05 * np.random.default_rng(seed).standard_normal((records, 2))
    return np.clip(x, 0.0, 1.0), y


SOURCE, TARGET = rows(40), rows(90, 0.1)[0]


def target(per_unit: int | None = 3, x: np.ndarray = TARGET, units: Any = None, **more: Any) -> Vault:
    held: dict[str, Any] = {"clip": 1.0, "adjacency": "add-remove", "budget": TERMS} | more
    if per_unit is not None:
        held |= {"units": np.arange(len(x)) % 20 if units is None else units, "unit": Unit("child", per_unit)}
    return Vault(x, **held)


def adapter(method: Any, **more: Any) -> DomainAdapter:
    told = {
        "method": SHORT.get(method, method) if isinstance(method, str) else method,
        "device": "cpu",
        "seed": 1,
        **more,
    }
    return DomainAdapter(*TERMS, **told)


def gaussian(guarantee: Guarantee) -> Any:
    """The one Gaussian release that a guarantee counts."""
    ((event, times),) = leaves(Composed(tuple(event_from_dict(dict(e)) for e in guarantee.events)))
    assert times == 1
    return event


@pytest.mark.parametrize("method", SHORT)
def test_noise_and_guarantee_are_those_of_the_unit(method: str) -> None:
    one, five = (adapter(method).design(target(k).facts, SOURCE) for k in (1, 5))
    assert five.sigma == pytest.approx(5 * one.sigma, rel=5e-4)
    done = adapter(method).fit(target(5), SOURCE)
    assert done.guarantee_ is not None
    assert done.guarantee_.unit == Unit("child", 5)
    assert 4.99 < done.guarantee_.epsilon() <= 5.0
    event = gaussian(done.guarantee_)
    assert (event.sigma, event.sensitivity) == (done.design_.sigma, pytest.approx(5.0))
    assert done.predict(SOURCE[0]).shape == (40,)
    # a design goes to disk and back with its unit
    assert read_design(json.loads(json.dumps(done.design_.to_dict()))).facts == target(5).facts


def test_several_releases_are_counted_for_the_unit_too() -> None:
    # more than one release is possible for the embedding, where somebody sets it
    settings = replace(SHORT["embedding"], blocks=2)
    design = adapter(settings).design(target(3).facts, SOURCE)
    done = adapter(settings).fit(target(3), SOURCE)
    assert done.guarantee_ is not None
    assert design.sigma == pytest.approx(
        np.sqrt(2) * adapter("embedding").design(target(3).facts, SOURCE).sigma, rel=1e-3
    )
    assert (done.guarantee_.unit, done.charged_) == (Unit("child", 3), 2)
    assert 4.99 < done.guarantee_.epsilon() <= 5.0


@pytest.mark.parametrize("method", SHORT)
def test_less_noise_than_the_unit_needs_is_refused_before_anything_is_paid(method: str, tmp_path: Path) -> None:
    made = adapter(method)
    design = made.design(target(3).facts, SOURCE)
    assert design.sigma is not None
    made.rehearse(design, SOURCE)
    for share in (2 / 3, 1 / 3):
        with pytest.raises(DataError, match="nothing was paid"):
            made.rehearse(replace(design, sigma=share * design.sigma), SOURCE)
    # the σ of single records, in a design that leaves out the unit: the vault's facts are others
    alone = replace(design, facts=replace(design.facts, unit=None), sigma=design.sigma / 3)
    with pytest.raises(DataError, match="their unit differs"):
        alone.check_facts(target(3).facts)
    with pytest.raises(DataError, match="their unit differs"):
        design.check_facts(target(4).facts)
    design.check_facts(target(3).facts)


@pytest.mark.parametrize("factor", [1.0, 2 / 3])
def test_what_is_released_has_the_noise_of_the_unit(factor: float) -> None:
    """Mean of 480 squared normals, six releases of 80: 1 ± 0.065, and for ⅔ σ 0.44 ± 0.03."""
    design = adapter("embedding").design(target(3).facts, SOURCE)
    made = design.mean_embedding("cpu")
    exact: Any = target(3, budget=(1e300, 0.5), noise=NoNoise(SystemNoise())).release(
        made, purpose="test", allow_unproven=True
    )
    squares = []
    for _ in range(6):
        noisy: Any = target(3, noise=WeakerNoise(factor)).release(made, purpose="test", allow_unproven=True)
        assert noisy.value["sums"].size == 80
        squares.append(((noisy.value["sums"] - exact.value["sums"]) / noisy.public["sums_sigma"]) ** 2)
    ratio = float(np.mean(squares))
    # the very σ that one child of three records needs for ε = 5
    assert noisy.public["sigma"] == pytest.approx(
        3 * adapter("embedding").design(target(1).facts, SOURCE).sigma, rel=5e-4
    )
    assert (abs(ratio - 1.0) < 0.3) == (factor == 1.0)


@pytest.mark.parametrize("planted", [1, 5, 500])
@pytest.mark.parametrize("method", SHORT)
def test_a_child_moves_what_is_released_by_at_most_what_is_charged(method: str, planted: int) -> None:
    """Targets with and without one child of equal records, in other orders; other children have more than take part."""
    per_unit = 5
    x = np.vstack([TARGET, np.repeat([[0.2, 0.9]], planted, axis=0)])
    units = np.array([*(f"child {k % 9}" for k in range(90)), *["planted"] * planted])
    design = adapter(method).design(target(per_unit).facts, SOURCE)
    made = design.mean_embedding("cpu")
    dice = np.random.default_rng(planted)

    def joint(places: np.ndarray) -> tuple[np.ndarray, float]:
        held = target(per_unit, x[places], units[places], budget=(1e300, 0.5), noise=NoNoise(SystemNoise()))
        release = held.release(made, purpose="test", allow_unproven=True)
        value: Any = release.value
        a, b = (release.public["sigma"] / release.public[name] for name in ("sums_sigma", "counts_sigma"))
        return np.append(a * value["sums"], b * value["counts"]), float(gaussian(release.guarantee).sensitivity)

    (whole, charged), (rest, _) = joint(dice.permutation(90 + planted)), joint(dice.permutation(90))
    moved = float(np.linalg.norm(whole - rest))
    assert moved <= charged == pytest.approx(per_unit)
    assert moved == pytest.approx(min(planted, per_unit), rel=1e-2)


def test_methods_that_show_or_draw_records_refuse_a_unit_unpaid(tmp_path: Path) -> None:
    held = target(3)
    for method in ("sliced",):
        with pytest.raises(UsageError, match="one child, at most 3 rows"):
            adapter(method, allow_unproven=True).fit(held, SOURCE)
        with pytest.raises(UsageError, match="one child, at most 3 rows"):
            adapter(method, allow_unproven=True).fit(held, SOURCE, folder=tmp_path / method)
        assert not (tmp_path / method).exists()
    with pytest.raises(UsageError, match="A request protects single records"):
        AdaptationRequest.of(adapter("embedding").design(held.facts, SOURCE))
    # single records are adapted to under replace-one, where their number is public
    with pytest.raises(UsageError, match="replace-one"):
        adapter("embedding").fit(target(None), SOURCE)
    # what asks for nothing costs nothing
    assert adapter("source").fit(held, SOURCE).guarantee_ is None
    held.release(Count(epsilon=4.9, delta=1e-5), purpose="all of the budget is there")


def test_partitions_have_units_too(tmp_path: Path) -> None:
    for number in range(3):
        part = slice(30 * number, 30 * number + 30)
        np.savez(tmp_path / f"{number}.npz", x=TARGET[part], child=np.arange(90)[part] % 20)
    held = Vault.open(
        Files(str(tmp_path / "*.npz"), engine=LocalEngine(1)), Vectors(classes=0, clip=1.0, width=2),
        unit=Unit("child", 3), adjacency="add-remove", budget=TERMS,
    )  # fmt: skip
    done = adapter("embedding").fit(held, SOURCE)
    assert done.guarantee_ is not None
    assert done.guarantee_.unit == Unit("child", 3)


def test_a_job_goes_on_with_its_unit_and_with_no_other(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a.ledger") as book:
        first = adapter("embedding").fit(target(3, ledger=book), SOURCE, folder=tmp_path / "job")
        again = adapter("embedding").fit(target(3, ledger=book, budget=None), SOURCE, folder=tmp_path / "job")
        assert len(book.entries(book.datasets()[0].fingerprint)) == 1
        assert first.guarantee_ is not None
        assert again.guarantee_ is not None
        assert again.guarantee_.events == first.guarantee_.events
        loaded = DomainAdapter.load(_saved(again, tmp_path / "model")).guarantee_
        assert loaded is not None
        assert loaded.unit == Unit("child", 3)
        for name in ("block-1.npz", "checkpoint.safetensors"):
            (tmp_path / "job" / name).unlink()
        other = target(2, ledger=book, budget=None)
        with pytest.raises(DataError, match="their unit differs"):
            adapter("embedding").fit(other, SOURCE, folder=tmp_path / "job", pay_again=True)
        with pytest.raises(UsageError, match="protects one child"):
            target(None, ledger=book)


def _saved(done: DomainAdapter, folder: Path) -> Path:
    done.save(folder)
    return folder


def test_a_block_that_was_paid_for_another_unit_is_not_taken_for_this_one() -> None:
    event = (
        adapter("embedding")
        .design(target(3).facts, SOURCE)
        .cost(
            adapter("embedding")._learner(adapter("embedding").design(target(3).facts, SOURCE), SOURCE).mechanism(), 1
        )
    )
    assert isinstance(event, PerUnit)
    check_block(account(event, 1e-5), event)
    for other in (replace(event, unit="clinic"), replace(event, rows=2), event.event):
        with pytest.raises(DataError, match="another event"):
            check_block(account(other, 1e-5), event)


def test_a_table_is_read_with_its_unit_and_without_its_label(tmp_path: Path) -> None:
    schema = Schema((Column("age", "integer", 0, 9), Column("pays", "boolean", categories=("no", "yes"))), "pays")
    codec, file = TableCodec(schema.dropping("child")), tmp_path / "a.csv"
    file.write_text("child,age,pays\nb,3,yes\na,9,odd\nb,0,\n")
    found, units = unlabelled_file_with_units(file, codec, "child")
    np.testing.assert_array_equal(found, unlabelled_file(file, codec))
    assert units == ["b", "a", "b"]
    file.write_text("child,age\nb,3\n,9\n")
    with pytest.raises(DataError, match="missing value"):
        unlabelled_file_with_units(file, codec, "child")


QUICK = "--epsilon 5 --delta 1e-5 --seed 1 --device cpu --json".split()
FITTED = "--range 0,1 --set fit=3 --set finish=10".split()


@pytest.mark.slow
def test_the_command_protects_the_unit_of_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "s.npz", x=SOURCE[0], y=SOURCE[1])
    np.savez(tmp_path / "t.npz", x=TARGET, child=[f"SECRET-{k % 20}" for k in range(90)])
    made = ["adapt", str(tmp_path / "s.npz"), str(tmp_path / "t.npz"), *QUICK, *FITTED]
    out, unit = ["--out", str(tmp_path / "made")], ["--unit", "child", "--per-unit", "3"]
    for wrong in (
        ["--per-unit", "3"],
        [*unit, "--adjacency", "replace-one"],
        [*unit, "--method", "sliced"],
        [*unit, "--set", f"unit_file={tmp_path / 's.npz'}"],
        ["--adjacency", "add-remove"],
    ):
        assert run([*made, *out, *wrong]) == 2
    shards = [*made[:2], str(tmp_path / "*.npz"), *made[3:], *out, *unit]
    assert run(shards) == 2
    assert run(["adapt", made[1], "--ask", str(tmp_path / "r"), "--set", "records=90", *made[3:], *out, *unit]) == 2
    assert not (tmp_path / "t.npz.ledger").exists()
    capsys.readouterr()
    assert run([*made, *out, *unit]) == 0
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert answer["guarantee"]["unit"] == answer["spent_in_ledger"]["unit"] == {"column": "child", "rows": 3}
    assert answer["guarantee"]["adjacency"] == "add-remove"
    page = (tmp_path / "made" / "report.html").read_text(encoding="utf-8")
    assert "one child, at most 3 rows" in page
    assert "--adjacency add-remove --method embedding --unit child --per-unit 3" in page
    assert "one record" not in page
    assert "number of target records" not in page
    for file in (tmp_path / "made").rglob("*"):
        assert file.is_dir() or b"SECRET-" not in file.read_bytes()
    assert run(["adapt", "--resume", "--out", str(tmp_path / "made")]) == 0
    assert run([*made, *out, "--resume", "--unit", "child", "--per-unit", "2"]) == 2
    assert run(["ledger", "show", str(tmp_path / "t.npz.ledger"), "--json"]) == 0
    capsys.readouterr()
    # single records of the same target have no other budget
    assert run([*made, "--out", str(tmp_path / "again")]) == 2
    assert "give --unit child" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_protects_the_units_of_a_folder_and_of_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["file_name,child"]
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (30, 8, 8), dtype=np.uint8)):
        for domain in ("source", "target"):
            place = tmp_path / domain / "ab"[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(place / f"{number}.png")
        lines.append(f"{'ab'[number % 2]}/{number}.png,{number % 7}")
    (tmp_path / "units.csv").write_text("\n".join(lines))
    folders = [
        "adapt",
        str(tmp_path / "source"),
        str(tmp_path / "target"),
        *QUICK,
        "--classes",
        "a,b",
        "--shape",
        "8,8",
    ]
    short = "--range 0,255 --set warmup=2 --set finish=2 --set check=2 --set generator=2 --set samples=20".split()
    unit = ["--unit", "child", "--set", f"unit_file={tmp_path / 'units.csv'}"]
    assert run([*folders, *short, "--out", str(tmp_path / "a"), *unit[:2]]) == 2
    capsys.readouterr()
    assert run([*folders, *short, "--set", "fit=2", "--out", str(tmp_path / "a"), *unit]) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["unit"] == {"column": "child", "rows": 1}
    # the stand-in that is left behind has the same guarantee
    held = Guarantee.from_json((tmp_path / "a" / "stand-in" / "guarantee.json").read_text())
    assert held.unit == Unit("child", 1)
    schema = {"label": "pays", "columns": [
        {"name": "age", "type": "integer", "low": 0, "high": 9},
        {"name": "pays", "type": "boolean", "categories": ["no", "yes"]},
    ]}  # fmt: skip
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    (tmp_path / "s.csv").write_text("age,pays\n" + "3,no\n8,yes\n" * 40)
    (tmp_path / "t.csv").write_text("child,age\n" + "".join(f"SECRET-{k % 9},{k % 10}\n" for k in range(90)))
    tables = ["adapt", str(tmp_path / "s.csv"), str(tmp_path / "t.csv"), "--schema", str(tmp_path / "schema.json")]
    assert run([*tables, *QUICK, "--out", str(tmp_path / "b"), "--unit", "child", "--per-unit", "4"]) == 0
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert answer["guarantee"]["unit"] == {"column": "child", "rows": 4}
    assert 4.9 < answer["guarantee"]["epsilon"] <= 5.0
    for file in (tmp_path / "b").rglob("*"):
        assert file.is_dir() or b"SECRET-" not in file.read_bytes()
