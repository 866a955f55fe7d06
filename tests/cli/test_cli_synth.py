"""`privot synth`, `sample`, `evaluate`, `report`: answers, exit codes, one sentence, and nothing paid by a refusal."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.cli import run
from privot.ledger import Ledger

TERMS = "--epsilon 5 --delta 1e-5 --adjacency add-remove".split()
QUICK = "--steps 20 --samples 60 --seed 1 --device cpu".split()


@pytest.fixture
def data(tmp_path: Path) -> str:
    y = np.arange(200) % 2
    x = np.clip(0.25 + 0.5 * y[:, None] + 0.05 * np.random.default_rng(0).standard_normal((200, 2)), 0, 1)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    return str(tmp_path / "data.npz")


def synth(data: str, out: Path, *more: str, public: tuple[str, ...] = ("--classes", "2", "--range", "0,1")) -> int:
    return run(["synth", data, *TERMS, *QUICK, *public, "--out", str(out), *more])


def sentence(capsys: Any) -> str:
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert "Traceback" not in said
    return str(said)


def test_synth_leaves_everything_and_answers_with_a_guarantee(capsys: Any, data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert synth(data, out, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert 4.9 < answer["guarantee"]["epsilon"] <= 5.0
    assert answer["guarantee"]["standing"] == "proven"
    left = {p.name for p in out.iterdir()}
    wanted = {"generator.safetensors", "config.json", "guarantee.json", "synthetic.npz", "curves.png", "report.html"}
    assert wanted <= left
    with np.load(out / "synthetic.npz") as made:
        assert made["x"].shape == (60, 2)
        assert made["y"].shape == (60,)
    page = (out / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert "http" not in page.replace("http-equiv", "")
    # the ledger beside the folder holds the one charge, and nothing secret lies in the folder
    assert run(["ledger", "show", str(tmp_path / "out.ledger"), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["datasets"]
    assert len(shown["entries"]) == 1
    assert not any("key" in name for name in left)
    # sampling and the report need the folder only
    Path(data).unlink()
    assert run(["sample", str(out), "-n", "7", "--out", str(tmp_path / "more.csv"), "--seed", "3"]) == 0
    lines = (tmp_path / "more.csv").read_text().splitlines()
    assert lines[0] == "x0,x1,y"
    assert len(lines) == 8
    assert run(["report", str(out)]) == 0
    # resuming what is finished pays nothing and reads no data
    assert synth(data, out, "--resume") == 0
    assert run(["ledger", "show", str(tmp_path / "out.ledger"), "--json"]) == 0
    text = capsys.readouterr().out
    assert text.count("synthesis by embedding") == 1


def test_images_get_a_grid_and_evaluation_a_table(capsys: Any, tmp_path: Path) -> None:
    from privot.data import load

    digits = load("digits")
    np.savez(tmp_path / "d.npz", x=(digits.x[:300] * 16).astype(np.uint8).reshape(-1, 8, 8), y=digits.y[:300])
    out = tmp_path / "out"
    public = ("--classes", "10", "--range", "0,16", "--shape", "8,8")
    assert synth(str(tmp_path / "d.npz"), out, public=public) == 0
    assert (out / "grid.png").read_bytes().startswith(b"\x89PNG")
    with np.load(out / "synthetic.npz") as made:
        assert made["x"].shape == (60, 8, 8)
        assert made["x"].max() > 1.0
    capsys.readouterr()
    assert run(["evaluate", str(out), "--test", str(tmp_path / "d.npz"), "--device", "cpu", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["scores"]) == {"logreg", "mlp", "cnn"}
    assert all(0.0 <= s <= 1.0 for s in answer["scores"].values())
    assert "not private" in answer["privacy"]
    assert "logreg" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("public", "code", "word"),
    [
        (("--classes", "2"), 2, "--range"),
        (("--range", "0,1"), 2, "--classes"),
        (("--classes", "1", "--range", "0,1"), 3, "labels"),
        (("--classes", "2", "--range", "1,0"), 2, "range"),
        (("--classes", "2", "--range", "zero,one"), 2, "LOW,HIGH"),
        (("--classes", "2", "--range", "0,1", "--shape", "3,3"), 2, "shape"),
        (("--classes", "2", "--range", "0,1", "--shape", "wide"), 2, "HEIGHT"),
        (("--classes", "2", "--range", "0,1", "--method", "magic"), 2, "method"),
        (("--classes", "2", "--range", "0,1", "--device", "abacus"), 2, "device"),
        (("--classes", "2", "--range", "0,1", "--samples", "0"), 2, "samples"),
        (("--classes", "2", "--range", "0,1", "--epsilon", "-1"), 2, "ε"),
    ],
)
def test_refusals_are_one_sentence_and_pay_nothing(
    capsys: Any, data: str, tmp_path: Path, public: tuple[str, ...], code: int, word: str
) -> None:
    assert synth(data, tmp_path / "out", public=public) == code
    assert word in sentence(capsys)
    if (tmp_path / "out.ledger").exists():
        assert run(["ledger", "show", str(tmp_path / "out.ledger"), "--json"]) == 0
        assert not any(d["entries"] for d in json.loads(capsys.readouterr().out)["datasets"])


def test_an_exhausted_budget_refuses(capsys: Any, data: str, tmp_path: Path) -> None:
    ledger = ("--ledger", str(tmp_path / "ledger"))
    assert synth(data, tmp_path / "one", *ledger) == 0
    capsys.readouterr()
    assert synth(data, tmp_path / "two", *ledger) == 4
    assert "budget" in sentence(capsys)
    # a refused job can be resumed once there is budget, and until then refuses again
    assert synth(data, tmp_path / "two", *ledger, "--resume") == 4


def test_one_record_and_missing_files_are_bad_data(capsys: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", x=np.ones((1, 2)))
    assert synth(str(tmp_path / "one.npz"), tmp_path / "out", public=("--range", "0,1")) == 3
    assert "single record" in sentence(capsys)
    np.savez(tmp_path / "nan.npz", x=np.full((5, 2), np.nan))
    assert synth(str(tmp_path / "nan.npz"), tmp_path / "out2", public=("--range", "0,1")) == 3
    sentence(capsys)
    assert synth(str(tmp_path / "none.npz"), tmp_path / "out3", public=("--range", "0,1")) == 3
    sentence(capsys)
    assert run(["sample", str(tmp_path), "--out", "x.npz"]) == 3
    sentence(capsys)
    assert run(["report", str(tmp_path)]) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(capsys: Any, data: str, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    assert synth(data, tmp_path / "shut" / "out", "--ledger", str(tmp_path / "ledger")) == 3
    sentence(capsys)


def test_an_unwritable_folder_pays_nothing(capsys: Any, data: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert synth(data, tmp_path / "file" / "out", "--ledger", str(tmp_path / "ledger")) == 3
    assert "cannot be written" in sentence(capsys)


def test_a_corrupt_checkpoint_or_release_is_bad_data(capsys: Any, data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert synth(data, out) == 0
    capsys.readouterr()
    for name in ("checkpoint.safetensors", "release.npz", "job.json"):
        held = (out / name).read_bytes()
        (out / name).write_bytes(held[:100])
        assert synth(data, out, "--resume") == 3, name
        assert "damaged" in sentence(capsys)
        (out / name).write_bytes(held)
    assert synth(data, out, "--resume") == 0


def test_resuming_with_other_terms_is_refused(capsys: Any, data: str, tmp_path: Path) -> None:
    assert synth(data, tmp_path / "out") == 0
    capsys.readouterr()
    assert synth(data, tmp_path / "out", "--resume", "--epsilon", "1") == 2
    assert "epsilon" in sentence(capsys)
    assert synth(data, tmp_path / "out", "--resume", "--adjacency", "replace-one") == 2
    assert "adjacency" in sentence(capsys)


def test_labels_can_be_left_out(data: str, tmp_path: Path) -> None:
    assert synth(data, tmp_path / "out", public=("--classes", "0", "--range", "0,1")) == 0
    with np.load(tmp_path / "out" / "synthetic.npz") as made:
        assert made.files == ["x"]


@pytest.mark.parametrize("method", ["sinkhorn", "sliced"])
def test_methods_that_pay_as_they_go_leave_the_same_folder(method: str, tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).uniform(size=(60, 4)), np.arange(60) % 2
    data, out = tmp_path / "data.npz", tmp_path / "out"
    np.savez(data, x=x, y=y)
    arguments = ["synth", str(data), *"--epsilon 3 --delta 1e-5 --adjacency replace-one --classes 2".split()]
    arguments += ["--range", "0,1", "--shape", "2,2", "--samples", "20", "--device", "cpu", "--out", str(out)]
    arguments += ["--method", method, "--steps", "4", "--set", "blocks=2", "--set", "batch=10", "--json"]
    assert run(arguments) == 0
    assert {"generator.safetensors", "guarantee.json", "synthetic.npz", "grid.png", "report.html"} <= {
        p.name for p in out.iterdir()
    }
    # resumed when all is done it pays nothing, and other options are another job
    assert run([*arguments, "--resume"]) == 0
    assert run([*arguments, "--set", "batch=11", "--resume"]) == 2
    assert run([*arguments[:-1], "--set", "batch"]) == 2
    with Ledger.open(tmp_path / "out.ledger") as book:
        assert len(book.entries()) == 2
