"""Never worse in silence: synth warns before it pays, adapt compares with the source alone and reports harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.accounting.laws import gaussian
from privot.adaptation import DomainAdapter, Embedding
from privot.adaptation.adaptation_methods.source_alone import Source
from privot.adaptation.source_comparison import compare_with_source
from privot.cli import run
from privot.data.loading import Dataset
from privot.kinds import Vectors
from privot.synthesis.neural.defaults.rows_needed import RowsNeeded, rows_needed
from privot.synthesis.tabular.table_design import TableDesign
from privot.tables import Column, Schema, TableCodec
from privot.vault import Vault

TEN = Schema(tuple(Column(f"c{k}", "integer", 0, 9) for k in range(10)))


def table(path: Path, rows: int) -> None:
    dice = np.random.default_rng(0)
    lines = [",".join(map(str, row)) for row in dice.integers(0, 10, (rows, 10))]
    path.write_text(",".join(TEN.names) + "\n" + "\n".join(lines) + "\n")


def design(epsilon: float, adjacency: str, rows: int = 200) -> Any:
    codec = TableCodec(TEN)
    facts = Vault(np.zeros((rows, 10)), clip=codec.bound(compact=True), adjacency=adjacency, budget=(9.0, 0.1)).facts
    return TableDesign.choose(codec, facts, epsilon, 1e-6, 0)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_rows_needed_follow_from_the_noise_on_four_cells(adjacency: str) -> None:
    made = design(1.0, adjacency)
    need = rows_needed(made, 1.0, 1e-6)
    assert need is not None
    sigma = made.counts.sigma[1]
    # ½·Σ|noise|/n over a two-by-two table, drawn, is a tenth at the stated number of records
    noise = np.random.default_rng(1).normal(0.0, sigma, (200_000, 4))
    assert (0.5 * np.abs(noise).sum(axis=1) / need.records).mean() == pytest.approx(0.1, rel=0.02)
    assert need.records > 200


def test_the_epsilon_that_would_do_is_the_one_whose_design_needs_so_many_rows() -> None:
    need = rows_needed(design(1.0, "replace-one"), 1.0, 1e-6)
    assert need is not None
    enough = need.epsilon_for(200)
    there = rows_needed(design(enough, "replace-one"), enough, 1e-6)
    assert there is not None
    assert there.records == pytest.approx(200, rel=0.05)
    assert RowsNeeded(100, 1.0, "x", 1.0, 1e-6).epsilon_for(100) == pytest.approx(
        gaussian.epsilon(gaussian.largest_shift(1.0, 1e-6), 1e-6)
    )


@pytest.mark.slow
def test_synth_warns_of_too_few_rows_before_it_pays(capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    table(Path("small.csv"), 200)
    TEN.save("schema.json")
    terms = ["--delta", "1e-6", "--schema", "schema.json", "--samples", "20", "--seed", "1", "--device", "cpu"]
    # a ledger with nothing to spend: what is said is said before it refuses
    start = ["ledger", "init", "small.csv.ledger", "--data", "small.csv", "--schema", "schema.json"]
    assert run([*start, "--epsilon", "0.01", "--delta", "1e-6", "--adjacency", "replace-one"]) == 0
    capsys.readouterr()
    words = ["synth", "small.csv", "--epsilon", "1", "--adjacency", "replace-one", *terms, "--out", "a", "--json"]
    assert run(words) == 4
    said = capsys.readouterr().err
    assert "200 records are too few for ε = 1" in said
    assert "about ε = " in said
    # enough ε: not a word
    assert run(["synth", "small.csv", "--epsilon", "50", *words[4:-2], "b", "--json"]) == 4
    assert "Warning" not in capsys.readouterr().err


@pytest.mark.slow
def test_the_warning_of_synth_is_in_its_answer_too(capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    table(Path("small.csv"), 200)
    TEN.save("schema.json")
    terms = "--epsilon 1 --delta 1e-6 --schema schema.json --samples 20 --seed 1 --device cpu".split()
    assert run(["synth", "small.csv", *terms, "--adjacency", "replace-one", "--out", "out", "--json"]) == 0
    printed = capsys.readouterr()
    (sentence,) = json.loads(printed.out)["warnings"]
    assert sentence.startswith("200 records are too few for ε = 1")
    assert f"Warning: {sentence}\n" in printed.err


@pytest.mark.slow
def test_under_add_remove_nothing_is_said_about_the_private_number(
    capsys: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """But how many are needed is, before paying, also where nobody looks at a terminal."""
    monkeypatch.chdir(tmp_path)
    TEN.save("schema.json")
    terms = ["--epsilon", "1", "--delta", "1e-6", "--schema", "schema.json", "--samples", "20", "--seed", "1"]
    said = []
    for rows in (200, 3000):
        table(Path("t.csv"), rows)
        for name in ("t.csv.ledger", "t.csv.ledger.key", "t.csv.ledger.anchor"):
            Path(name).unlink(missing_ok=True)
        words = ["synth", "t.csv", *terms, "--adjacency", "add-remove", "--device", "cpu", "--out", f"out{rows}"]
        assert run(words) == 0
        said.append([line for line in capsys.readouterr().err.splitlines() if "hides" in line])
    # the same sentence for few and for many: it follows from the budget and the schema
    assert said[0] == said[1]
    assert len(said[0]) == 1
    assert "is private under add-remove" in said[0][0]
    # stated, the number is compared
    for name in ("t.csv.ledger", "t.csv.ledger.key", "t.csv.ledger.anchor"):
        Path(name).unlink(missing_ok=True)
    assert run([*words[:-1], "stated", "--set", "records=200"]) == 0
    assert "200 records are too few" in capsys.readouterr().err


class Fixed:
    """A classifier with these answers."""

    def __init__(self, answers: np.ndarray) -> None:
        self.answers = answers

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.answers


class FixedAdapter(Fixed):
    design_ = type("Design", (), {"facts": None, "kind": Vectors(), "settings": Embedding()})()

    def __init__(self, answers: np.ndarray, alone: np.ndarray) -> None:
        super().__init__(answers)
        self.alone = alone

    def baseline(self, facts: Any, source: Any) -> Fixed:
        return Fixed(self.alone)


@pytest.mark.parametrize(
    ("adapted", "alone", "harmed"),
    [(57, 91, True), (91, 57, False), (90, 91, False), (80, 80, False), (0, 100, True)],
)
def test_harm_is_called_harm_and_chance_is_not(adapted: int, alone: int, harmed: bool) -> None:
    y = np.zeros(100, dtype=np.int64)
    answers = [np.where(np.arange(100) < right, 0, 1) for right in (adapted, alone)]
    found = compare_with_source(FixedAdapter(*answers), None, Dataset(np.zeros((100, 1)), y))  # type: ignore[arg-type]
    assert found is not None
    assert (found.adapted, found.source_only, found.harmed) == (adapted / 100, alone / 100, harmed)
    assert compare_with_source(FixedAdapter(*answers), None, None) is None  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    dice = np.random.default_rng(0)
    y = np.arange(240) % 2
    for name, shift in (("source", 0.0), ("target", 0.1)):
        x = np.clip(0.25 + 0.4 * y[:, None] + shift + 0.05 * dice.standard_normal((240, 2)), 0, 1)
        np.savez(tmp_path / f"{name}.npz", x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
    return str(tmp_path / "source.npz"), str(tmp_path / "target.npz")


@pytest.mark.slow
def test_adapt_prints_the_source_alone_and_ends_with_6_where_it_did_harm(
    capsys: Any, files: tuple[str, str], tmp_path: Path, monkeypatch: Any
) -> None:
    quick = "--epsilon 5 --delta 1e-5 --seed 1 --device cpu --range 0,1 --set fit=3 --set finish=60".split()
    words = ["adapt", *files, *quick, "--out", str(tmp_path / "out")]
    assert run(words) == 0
    assert "not compared" in capsys.readouterr().out
    assert run([*words, "--resume", "--test", files[1], "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["source_only_accuracy"] > 0.8
    assert answer["harmed"] is False
    real = DomainAdapter.predict

    def upside_down(self: DomainAdapter, x: Any) -> Any:
        right = real(self, x)
        return right if isinstance(self.method, Source) else 1 - right

    monkeypatch.setattr(DomainAdapter, "predict", upside_down)
    assert run([*words, "--resume", "--test", files[1]]) == 6
    printed = capsys.readouterr()
    assert "source alone" in printed.out
    assert "Adaptation did harm" in printed.err
    assert run([*words, "--resume", "--test", files[1], "--json"]) == 6
    assert json.loads(capsys.readouterr().out)["harmed"] is True
