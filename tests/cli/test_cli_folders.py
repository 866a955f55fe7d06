"""Folders of images: every command that reads one needs stated class names and shape, or reads and pays nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from privot.cli import run
from privot.data.loading import load
from privot.errors import DataError
from privot.federation.parties.desk import Desk
from privot.federation.parties.enrolment import make_party

pytestmark = pytest.mark.slow

NAMES = ["--classes", "a_rare,b,c"]
SHAPE = ["--shape", "8,8"]
TERMS = "--epsilon 5 --delta 1e-5 --adjacency add-remove".split()
QUICK = "--range 0,255 --set steps=10 --samples 60 --seed 1 --device cpu".split()


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    g = np.random.default_rng(1)
    for name, count in (("a_rare", 1), ("b", 30), ("c", 30)):
        (tmp_path / "zoo" / name).mkdir(parents=True)
        for k in range(count):
            Image.fromarray(g.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / f"zoo/{name}/{k}.png")
    return tmp_path


def sentence(capsys: Any) -> str:
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    return str(said)


@pytest.mark.parametrize(
    ("stated", "code", "says"),
    [
        (SHAPE, 2, "--classes NAME"),
        (NAMES, 2, "--shape HEIGHT"),
        ([*SHAPE, "--classes", "3"], 3, "names 0 to N"),
        ([*SHAPE, "--classes", "b,c"], 3, "none of the 2 stated classes"),
        ([*SHAPE, "--classes", "a_rare,b,,c"], 2, "no name empty"),
        ([*SHAPE, "--classes", "a_rare,b,b,c"], 2, "same name"),
        ([*SHAPE, "--classes", "-3"], 2, "number of classes"),
        (["--shape", "8,8,3", *NAMES], 3, "stated are 8 × 8 RGB"),
    ],
)
def test_synth_refuses_a_folder_of_images_without_class_names_and_shape(
    capsys: Any, zoo: Path, stated: list[str], code: int, says: str
) -> None:
    assert run(["synth", "zoo", *TERMS, *QUICK, *stated, "--out", "out"]) == code
    assert says in sentence(capsys)
    assert [p.name for p in zoo.iterdir()] == ["zoo"]


@pytest.mark.usefixtures("short_trainings")
def test_synth_keeps_class_names_and_the_number_of_an_empty_class(capsys: Any, zoo: Path) -> None:
    shutil.copytree("zoo", "less")
    shutil.rmtree("less/a_rare")
    facts = []
    for name in ("zoo", "less"):
        words = ["synth", name, *TERMS, *QUICK, *SHAPE, "--out", f"{name}-out"]
        assert run([*words, *NAMES, "--json"]) == 0
        # too few records to be told from the noise: whether the folder is there or not
        assert set(json.loads(capsys.readouterr().out)["left_out"]) <= {"a_rare", "b", "c"}
        job, config = (json.loads(Path(f"{name}-out/{f}.json").read_text()) for f in ("job", "config"))
        assert config["params"]["class_names"] == ["a_rare", "b", "c"]
        with np.load(f"{name}-out/synthetic.npz") as made:
            assert made["class_names"].tolist() == ["a_rare", "b", "c"]
        facts.append((job["settings"]["params"], job["settings"]["design"]["facts"], job["settings"]["asked"]))
        # a job goes on with the names it was started with, in their order
        assert run([*words, "--classes", "b,a_rare,c", "--resume"]) == 2
        assert "another class_names" in sentence(capsys)
        assert run([*words, *NAMES, "--resume"]) == 0
        capsys.readouterr()
    assert facts[0] == facts[1]
    # a test set of the same classes is read by their names
    assert run(["evaluate", "zoo-out", "--test", "zoo", "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == {"synthetic": 60, "test": 61}


def test_commands_that_read_no_labels_need_only_the_shape(capsys: Any, zoo: Path) -> None:
    init = ["ledger", "init", "zoo.ledger", "--data", "zoo", *TERMS]
    sketch = ["sketch", "zoo", *TERMS, "--range", "0,255", "--out", "zoo.sketch"]
    for words in (init, sketch):
        assert run(words) == 2
        assert "--shape HEIGHT" in sentence(capsys)
        assert not Path("zoo.ledger").exists()
    assert run([*init, *SHAPE]) == 0
    assert run([*sketch, *SHAPE]) == 0
    # the same records, so the same budget: it is spent now, whichever way the classes are called
    capsys.readouterr()
    assert run(["synth", "zoo", *TERMS, *QUICK, *SHAPE, *NAMES, "--out", "out"]) == 4
    # without privacy nothing has to be stated that is not used
    assert run(["compare", "zoo", "zoo", "--method", "sliced", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(0.0, abs=1e-9)


def test_sketches_number_the_classes_of_a_folder_by_their_stated_names(capsys: Any, zoo: Path) -> None:
    sketch = ["sketch", "zoo", *TERMS, "--range", "0,255", *SHAPE, "--out", "zoo.sketch"]
    assert run([*sketch, "--classes", "b,c"]) == 3
    assert "none of the 2 stated classes" in sentence(capsys)
    assert run([*sketch, *NAMES, "--json"]) == 0


def test_adapt_and_answer_need_the_shape_of_a_folder_of_images(capsys: Any, zoo: Path) -> None:
    g = np.random.default_rng(0)
    np.savez("source.npz", x=g.integers(0, 256, (60, 64)), y=np.arange(60) % 3)
    terms = ["--epsilon", "5", "--delta", "1e-5"]
    adapt = [*terms, "--seed", "1", "--device", "cpu", "--range", "0,255", "--set", "network=features"]
    adapt += ["--set", "fit=3", "--set", "finish=10", "--out", "out"]
    assert run(["adapt", "source.npz", "zoo", *adapt]) == 2
    assert "--shape HEIGHT" in sentence(capsys)
    assert run(["adapt", "source.npz", "--ask", "request.json", "--set", "records=61", *adapt, *SHAPE]) == 0
    capsys.readouterr()
    answer = ["answer", "request.json", "zoo", *terms, "--out", "zoo.release"]
    assert run(answer) == 2
    assert "--shape HEIGHT" in sentence(capsys)
    assert run([*answer, *SHAPE]) == 0
    # the public side is read by names too, and the job remembers what was stated
    assert run(["adapt", "zoo", "zoo", *adapt, *SHAPE]) == 2
    assert "--classes NAME" in capsys.readouterr().err


def test_a_party_reads_its_folder_by_the_class_names_and_shape_of_its_policy(zoo: Path) -> None:
    make_party(zoo / "desk", "north")
    shutil.move("zoo", "desk/zoo")
    start = 'version = 1\nname = "north"\n[data]\nfile = "zoo"\nledger = "zoo.ledger"\nadjacency = "replace-one"\n'
    start += "epsilon = 1.0\ndelta = 1e-5\n"
    for stated, says in (
        ('classes = ["a_rare", "b", "c"]', "shape"),
        ('classes = ["b", "c"]\nshape = [8, 8]', "none of the 2 stated classes"),
        ("classes = 3\nshape = [8, 8]", "none of the 3 stated classes"),
        ("classes = true\nshape = [8, 8]", "number, or as a list of names"),
        ("classes = 3\nshape = [8, 0]", "at least 1"),
    ):
        (zoo / "desk/policy.toml").write_text(start + stated + "\n")
        with pytest.raises(DataError, match=says):
            Desk(zoo / "desk")
    for stated, count in (("shape = [8, 8]", None), ('classes = ["c", "b", "a_rare", "d"]\nshape = [8, 8]', 4)):
        (zoo / "desk/policy.toml").write_text(start + stated + "\n")
        desk = Desk(zoo / "desk")
        assert desk.policy.vault is not None
        assert desk.policy.vault.classes == count
        desk.close()


@pytest.mark.usefixtures("short_trainings")
def test_samples_are_written_as_png_files_by_class_name_and_evaluated(capsys: Any, zoo: Path) -> None:
    assert run(["synth", "zoo", *TERMS, *QUICK, *NAMES, *SHAPE, "--out", "out"]) == 0
    for out in ("pictures", "same.npz"):
        assert run(["sample", "out", "-n", "60", "--seed", "3", "--out", out]) == 0
    capsys.readouterr()
    assert sorted(p.name for p in Path("pictures").iterdir()) == ["a_rare", "b", "c"]
    assert [p.name for p in zoo.iterdir() if p.name.startswith(".")] == []
    images = load("pictures", classes=["a_rare", "b", "c"], shape=(8, 8))
    with np.load("same.npz") as drawn:
        # the same images in the same classes, to the nearest of 256 steps
        order = [int(p.stem) for name in ("a_rare", "b", "c") for p in sorted(Path("pictures", name).iterdir())]
        np.testing.assert_array_equal(images.y, drawn["y"][order])
        np.testing.assert_array_equal(images.x, np.rint(drawn["x"].reshape(60, 64)[order].astype(np.float64)))
    assert run(["evaluate", "pictures", "--test", "zoo", *NAMES, *SHAPE, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["confusion"]["names"] == ["a_rare", "b", "c"]
    assert found["records"] == {"synthetic": 60, "test": 61}
    # and a folder of synth brings its own names
    assert run(["evaluate", "out", "--test", "zoo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["confusion"]["names"] == ["a_rare", "b", "c"]
    assert "a_rare" in Path("out/report-private.html").read_text()
    # nothing is overwritten, and what is missing is said
    assert run(["sample", "out", "-n", "5", "--out", "pictures"]) == 2
    assert "exists already" in sentence(capsys)
    assert run(["sample", "out", "-n", "5", "--out", "none/pictures"]) == 2
    assert "There is no folder none" in sentence(capsys)
    assert run(["evaluate", "pictures", "--test", "zoo", *SHAPE]) == 2
    assert "--classes NAME" in sentence(capsys)
    Path("empty").mkdir()
    assert run(["evaluate", "empty", "--test", "zoo", *NAMES]) == 3
    assert "config.json" in sentence(capsys)


def test_records_that_are_no_images_become_no_folder_of_images(capsys: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((50, 3)))
    words = ["synth", str(tmp_path / "rows.npy"), *TERMS, *QUICK[2:], "--range", "0,1", "--out", str(tmp_path / "out")]
    assert run(words) == 0
    capsys.readouterr()
    assert run(["sample", str(tmp_path / "out"), "-n", "5", "--out", str(tmp_path / "pictures")]) == 2
    assert "known shape" in sentence(capsys)
