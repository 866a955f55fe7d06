"""The error that is foretold before paying is the error of the counts that are released."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from privot import Vault
from privot.cli import run
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.synthesis import Synthesizer
from privot.synthesis.tabular.expected_error import expected_errors, made_up, noise_variation, rehearsed
from privot.synthesis.tabular.table_design import TableDesign
from privot.tables import Column, Schema, TableCodec

CODEC = TableCodec(Schema(tuple(Column(name, "integer", 0, 63) for name in "abc")))
ROWS = 20_000


def design(epsilon: float = 1.0) -> TableDesign:
    facts = Facts(3, None, CODEC.bound(compact=True), "add-remove", None)  # type: ignore[arg-type]
    made: TableDesign = Synthesizer(epsilon, 1e-6, seed=1, kind=CODEC).design(facts)
    return made


@pytest.mark.statistical
def test_released_counts_have_the_foretold_error() -> None:
    """Means over 64 cells of 3 columns, and over hundreds of cells of pairs: 15 % is three standard errors or more."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 64, (ROWS, 3)) / 63
    made = design()
    foretold = expected_errors(made, ROWS)
    mechanism = made.mechanism
    assert not isinstance(mechanism, ScoredMarginals)
    vault = Vault(x, clip=CODEC.bound(compact=True), adjacency="add-remove", budget=(1.0, 1e-6))
    release = vault.release(mechanism, purpose="test")
    value = release.value
    cells = np.rint(x * 63).astype(int)
    exact = np.concatenate([np.bincount(cells[:, i], minlength=64) for i in range(3)])
    fine = 0.5 * np.abs(value["fine"] - exact).sum() / ROWS / 3
    assert fine == pytest.approx(noise_variation(64, foretold.noise["cell of a column"], ROWS), rel=0.15)
    groups = np.split(value["groups"], 3)
    sizes = [int(g.max()) + 1 for g in groups]
    # evenly spread records have about the foretold number of groups
    assert sizes == pytest.approx([c.groups for c in foretold.columns], rel=0.25)
    start, errors = 0, []
    for i, j in combinations(range(3), 2):
        code = groups[i][cells[:, i]] * sizes[j] + groups[j][cells[:, j]]
        true = np.bincount(code, minlength=sizes[i] * sizes[j])
        noisy = value["pairs"][start : start + len(true)]
        start += len(true)
        errors.append(0.5 * np.abs(noisy - true).sum() / ROWS)
        assert errors[-1] == pytest.approx(noise_variation(len(true), foretold.noise["cell of a pair"], ROWS), rel=0.15)
    assert np.mean(errors) == pytest.approx(foretold.to_dict()["pairs"]["mean_error"], rel=0.6)


@pytest.mark.statistical
def test_what_is_foretold_is_what_comes_out_of_other_records_of_that_kind() -> None:
    """Total variation of 6,000 rows, by an own count of cells: two draws of one kind of table differ by less."""
    columns = [Column("a", "integer", 0, 63), Column("b", "continuous", 0, 1, missing=True)]
    columns += [Column("k", "categorical", categories=tuple("cdefgh")), Column("y", "boolean")]
    codec = TableCodec(Schema(tuple(columns), "y"))
    facts = Facts(3, None, codec.bound(compact=True), "add-remove", 2)  # type: ignore[arg-type]
    asked = Synthesizer(1.0, 1e-6, seed=1, kind=codec)
    told = rehearsed(asked.design(facts), 6_000)  # type: ignore[arg-type]
    rows, labels = made_up(codec, 6_000, np.random.default_rng(99))
    assert ((rows >= -1.0) & (rows <= 5.0)).all()
    vault = Vault(rows, labels, clip=facts.clip, classes=2, adjacency="add-remove", budget=(1.0, 1e-6))
    made, drawn = asked.fit(vault).model_.sample_rows(6_000, 7)  # type: ignore[union-attr]
    cells = [64.0, 64.0, 1.0]
    for place, name in enumerate("abk"):
        top = 63.0 if name == "a" else cells[place]
        ours, real = (
            np.where(x[:, place] < 0, 99, np.rint(63.0 * x[:, place]) if name == "a" else np.floor(top * x[:, place]))
            for x in (made, rows)
        )
        values = np.unique(np.concatenate([ours, real]))
        own = 0.5 * sum(abs((ours == v).mean() - (real == v).mean()) for v in values)
        assert 0.5 * own - 0.01 <= told.columns[name] <= 2.0 * own + 0.01, name
    own = abs(float(drawn.mean()) - float(labels.mean()))  # type: ignore[union-attr]
    assert told.columns["y"] == pytest.approx(own, abs=0.02)
    assert told.pairs > max(told.columns.values()) / 2


def test_a_rehearsal_has_less_error_with_more_records_and_a_larger_budget() -> None:
    few, many = rehearsed(design(), 600), rehearsed(design(50.0), 20_000)
    assert few.pairs > 3.0 * many.pairs
    assert all(few.columns[name] > 2.0 * many.columns[name] for name in "abc")


def test_two_hundred_records_are_drowned_and_more_or_a_larger_budget_are_not() -> None:
    few = expected_errors(design(), 200)
    assert few.drowned == ["a", "b", "c"]
    assert "noise drowns columns a, b, c" in few.warnings()[0]
    assert expected_errors(design(), ROWS).warnings() == []
    assert expected_errors(design(50.0), 200).drowned == []
    errors = [expected_errors(design(), n).columns[0].error for n in (5_000, 50_000, 500_000)]
    assert errors == sorted(errors, reverse=True)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    CODEC.schema.save("schema.json")
    rng = np.random.default_rng(0)
    lines = [",".join(map(str, row)) for row in rng.integers(0, 64, (200, 3))]
    Path("t.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_a_dry_run_of_a_table_tells_before_paying(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["synth", "t.csv", "--schema", "schema.json", "--epsilon", "1", "--delta", "1e-6", "--out", "out"]
    words += ["--dry-run"]
    assert run([*words, "--adjacency", "replace-one", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["records"] == 200
    assert "noise drowns" in found["errors"][0]["warnings"][0]
    # rehearsed: far more than half of 200 rows of 64 values are on the wrong side where noise is ±30 records
    assert all(0.05 < column["comes_out"] <= 1.0 for column in found["errors"][0]["columns"])
    assert 0.1 < found["errors"][0]["pairs"]["comes_out"] < 1.0
    # under add-remove the number of records is private, and of the file only the header is read
    Path("t.csv").write_text("a,b,c\nno table\n")
    assert run([*words, "--adjacency", "add-remove", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [e["records"] for e in found["errors"]] == [1_000, 10_000, 100_000]
    assert run([*words, "--adjacency", "add-remove", "--set", "records=200"]) == 0
    shown = capsys.readouterr()
    assert "drowned" in shown.out
    assert "noise drowns columns a, b, c" in shown.err
    assert sorted(p.name for p in table.iterdir()) == ["schema.json", "t.csv"]


def test_a_dry_run_of_other_data_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--epsilon", "1", "--delta", "1e-6", "--adjacency", "replace-one", "--out", str(tmp_path / "o")]
    assert run(["synth", "digits", *words, "--dry-run"]) == 2
    assert "tables with a schema" in capsys.readouterr().err
