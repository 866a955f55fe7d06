"""`privot bench tables`: ours and peers on a public table, where a peer is another interpreter."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from privot.cli import run
from privot.tables import Column, Schema
from privot_lab.bench.tables.table_bench import open_comparison

SCHEMA = Schema(
    (
        Column("a", "integer", 0, 99, missing=True),
        Column("b", "categorical", categories=("x", "y", "z")),
        Column("label", "boolean"),
    ),
    label="label",
)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("schema.json")
    rng = np.random.default_rng(0)
    a = rng.integers(0, 100, 1500)
    lines = [f"{v if v > 2 else ''},{rng.choice(['x', 'y', 'z'])},{str(bool(v > 50)).lower()}" for v in a]
    Path("t.csv").write_text("a,b,label\n" + "\n".join(lines) + "\n")
    return tmp_path


def fake_peer(folder: Path, code: str) -> str:
    """An interpreter that does what a peer's environment would: it is called with the script and its arguments."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\nimport sys\nimport numpy as np\nargs = sys.argv[2:]\n{code}\n")
    os.chmod(path, 0o755)
    return str(path)


WORDS = ["bench", "tables", "t.csv", "--schema", "schema.json", "--epsilon", "1"]


@pytest.mark.slow
def test_ours_and_a_peer_are_measured_alike(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A peer that hands back the very cells it got is perfect up to what merging them loses."""
    python = fake_peer(
        table,
        "with np.load(args[0]) as f: np.savez(args[1], cells=f['cells'], seconds=1.5)\n"
        "assert args[args.index('--method') + 1] == 'mst'",
    )
    given = [
        *WORDS,
        "--public",
        "--peers",
        python,
        "--methods",
        "privot,mst",
        "--peer-cells",
        "0",
        "--json",
        "--out",
        "o",
    ]
    assert run(given) == 0
    found = json.loads(capsys.readouterr().out)
    ours, peer = found["rows"]
    assert (ours["method"], peer["method"], peer["seconds"]) == ("privot", "mst", 1.5)
    assert set(ours["measures"]) == {"boosting", "logistic", "one-way", "pairs", "triples", "queries"}
    assert peer["measures"]["triples"] < 0.01
    assert peer["measures"]["boosting"] > 0.99
    assert 0.01 < ours["measures"]["pairs"] < 0.3
    assert json.loads(Path("o/tables.json").read_text()) == found
    assert found["records"] == {"train": 1125, "test": 375}


def test_cells_and_back_give_the_table_again(table: Path) -> None:
    comparison = open_comparison("t.csv", "schema.json", None)
    cells, sizes = comparison.cells(32)
    assert sizes.tolist() == [33, 3, 2]
    again = comparison.codec.encode(comparison.table_of(cells, 32), compact=True)
    np.testing.assert_array_equal(again[0][:, 1], comparison.x[:, 1])
    # whole numbers come back within their merged cell of three or four
    assert np.abs(again[0][:, 0] - comparison.x[:, 0]).max() < 4 / 99 + 1e-9
    np.testing.assert_array_equal(again[0][:, 0] < 0, comparison.x[:, 0] < 0)


def test_a_peer_that_is_not_there_or_fails_is_noted(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for code, note in (("sys.exit(3)", "dpmm cannot be imported"), ("sys.exit(9)", "failed (exit code 9)")):
        given = [*WORDS, "--public", "--peers", fake_peer(table, code), "--methods", "aim", "--json"]
        assert run(given) == 0
        assert json.loads(capsys.readouterr().out)["rows"][0]["note"] == note
    assert run([*WORDS, "--public", "--peers", "no/such/python", "--methods", "mst"]) == 2
    assert "name a Python interpreter" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "add --public"),
        (["--public", "--methods", "gan"], "one of privot, mst, aim"),
        (["--public", "--epsilon", "much"], "--epsilon must be"),
        (["--public", "--repeat", "0"], "at least 1"),
    ],
)
def test_wrong_usage_is_one_sentence(
    table: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert run([*WORDS, *more]) == 2
    assert said in capsys.readouterr().err
