"""`privot points` and `privot value`: whole runs, their output and their exit codes."""

from __future__ import annotations

import csv
import json
import stat

import numpy as np
import pytest

from privot.cli import run

pytestmark = pytest.mark.slow

MIDDLES = np.array([[0.9, 0.1, 0.5], [0.1, 0.9, 0.5], [0.5, 0.5, 0.1]])


def write(name: str, n: int, seed: int, wrong: int = 0, **changes: object) -> None:
    g = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = np.clip(MIDDLES[y] + 0.08 * g.normal(size=(n, 3)), 0, 1)
    y[:wrong] = (y[:wrong] + 1) % 3
    np.savez(name, **{"x": x, "y": y, **changes})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("hub.npz", 900, 0)
    write("north.npz", 300, 1)
    write("south.npz", 300, 2, wrong=90)
    return tmp_path


def sketch(name: str, *more: str, epsilon: float = 4.0) -> None:
    terms = ["--epsilon", str(epsilon), "--delta", "1e-5", "--adjacency", "replace-one"]
    more = more or ("--range", "0,1", "--classes", "3")
    assert run(["sketch", f"{name}.npz", *terms, *more, "--key", f"{name}.key", "--out", f"{name}.sketch"]) == 0


def test_points_scores_records_against_a_sketch_and_against_records(capsys, folder) -> None:
    sketch("hub")
    capsys.readouterr()
    order = ["points", "south.npz", "--validation", "hub.sketch", "--range", "0,1"]
    assert run([*order, "--trust", "hub.key.pub", "--out", "scores.csv", "--plot", "scores.png", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["guarantee"]["epsilon"] <= 4.0
    assert said["trusted"] is True
    assert "do not publish" in said["scores"]
    assert [w["score"] for w in said["worst"]] == sorted((w["score"] for w in said["worst"]), reverse=True)
    with open("scores.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == list(range(300))
    assert sorted(int(row["rank"]) for row in rows) == list(range(1, 301))
    assert sum(int(row["row"]) < 90 for row in rows if int(row["rank"]) <= 90) > 80
    first = next(row for row in rows if row["rank"] == "1")
    assert said["worst"][0] == {"row": int(first["row"]), "label": int(first["label"]), "score": float(first["score"])}
    assert stat.S_IMODE((folder / "scores.csv").stat().st_mode) == 0o600
    assert (folder / "scores.png").stat().st_size > 1000
    assert stat.S_IMODE((folder / "scores.png").stat().st_mode) == 0o600
    # what is there is not overwritten
    before = (folder / "scores.csv").read_bytes()
    assert run([*order, "--out", "scores.csv"]) == 2
    assert (folder / "scores.csv").read_bytes() == before
    assert run([*order, "--top", "3"]) == 0
    told = capsys.readouterr().out
    assert "do not publish" in told
    assert "validation side" in told
    assert "--trust names the keys" in told
    assert run([*order, "--method", "labels", "--top", "90", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["method"], said["guarantee"]["epsilon"] <= 4.0) == ("labels", True)
    assert sum(w["row"] < 90 for w in said["worst"]) > 85
    assert said["meanings"] == [0, 1, 2]
    assert run([*order, "--method", "labels", "--top", "3"]) == 0
    assert "a high score is a label probably wrong" in capsys.readouterr().out
    assert run(["points", "south.npz", "--validation", "hub.npz", "--most", "300"]) == 0
    assert "none: this is an exact answer" in capsys.readouterr().out
    assert run(["points", "south.npz", "--validation", "hub.npz", "--most", "300", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["guarantee"] is None
    assert said["validation"] == {"kind": "records", "records": 900, "used": 300}
    # the design is made again with the seed that the sketch states
    write("public.npz", 40, 9)
    sketch("north", "--prototypes", "public.npz", "--seed", "5", "--classes", "3")
    assert run(["points", "south.npz", "--validation", "north.sketch", "--prototypes", "public.npz"]) == 0


def test_a_sample_of_the_validation_records_has_all_classes() -> None:
    from privot.cli.running.own_scores import sample_by_class
    from privot.valuation.labelled_records import Labelled

    y = np.repeat([0, 1, 2], [800, 199, 1])
    x = np.arange(2000.0).reshape(1000, 2)
    kept = sample_by_class(Labelled.of(x, y, "V"), 100, 0)
    assert np.bincount(kept.y).tolist() == [80, 20, 1]
    np.testing.assert_array_equal(kept.y, y[(kept.x[:, 0] / 2).astype(int)])


def test_value_computes_values_from_sketches_and_from_records(capsys, folder) -> None:
    for name, epsilon in (("hub", 4.0), ("north", 3.0), ("south", 5.0)):
        sketch(name, epsilon=epsilon)
    capsys.readouterr()
    order = ["value", "north.sketch", "south.sketch", "--validation", "hub.sketch", "--draws", "100"]
    assert run([*order, "--out", "values.png", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    north, south = said["parties"]
    assert north["value"] > south["value"]
    assert north["value"] + south["value"] == pytest.approx(said["worth"])
    assert north["interval"][0] <= north["value"] <= north["interval"][1]
    stated = [*said["guarantees"]["parties"], said["guarantees"]["validation"]]
    assert [round(g["epsilon"], 2) for g in stated] == [3.0, 5.0, 4.0]
    assert {(g["standing"], g["adjacency"]) for g in stated} == {("proven", "replace-one")}
    assert (folder / "values.png").exists()
    assert run(order) == 0
    told = capsys.readouterr().out
    stated = {
        line[:16].strip(): line.split("ε = ")[1][:3] for line in told.split("\n") if line.startswith("privacy of")
    }
    assert {name: round(float(epsilon)) for name, epsilon in stated.items()} == {
        "privacy of north": 3,
        "privacy of south": 5,
        "privacy of V": 4,
    }
    assert "order left open" in told
    assert run(["value", "north.npz", "south.npz", "--validation", "hub.npz"]) == 0
    assert "none: this is an exact answer" in capsys.readouterr().out


def test_bad_data_ends_with_3_and_wrong_usage_with_2(capsys, folder) -> None:
    sketch("hub")
    write("bare.npz", 30, 3)
    with np.load("bare.npz") as file:
        np.save("unlabelled.npy", file["x"])
        write("empty.npz", 30, 3, x=file["x"][:0], y=file["y"][:0])
        write("one.npz", 30, 3, x=file["x"][:1], y=file["y"][:1])
        write("nan.npz", 30, 3, x=np.where(file["x"] > 0.5, np.nan, file["x"]))
        write("narrow.npz", 30, 3, x=file["x"][:, :2])
        write("odd.npz", 30, 3, y=file["y"] + 7)
    (folder / "broken.npz").write_bytes((folder / "north.npz").read_bytes()[:500])
    (folder / "broken.sketch").write_bytes((folder / "hub.sketch").read_bytes()[:-300])
    sketch("bare", "--range", "0,1")
    sketch("north", "--range", "-1,1", "--classes", "3")
    by_sketch = ["--validation", "hub.sketch", "--range", "0,1"]
    bad = [
        *(["points", f"{name}.npz", *by_sketch] for name in ("one", "nan", "narrow", "odd")),
        *(["value", f"{name}.npz", "--validation", "hub.npz"] for name in ("empty", "narrow", "odd", "broken", "none")),
        ["points", "unlabelled.npy", *by_sketch],
        ["points", "south.npz", "--validation", "broken.sketch", "--range", "0,1"],
        ["points", "south.npz", "--validation", "bare.sketch", "--range", "0,1"],
        ["points", "south.npz", "--validation", "hub.sketch", "--range", "0,2"],
        ["points", "south.npz", "--validation", "south.npz"],
        ["points", "south.npz", *by_sketch, "--trust", "bare.key.pub"],
        ["value", "bare.sketch", "--validation", "hub.sketch"],
        ["value", "north.sketch", "--validation", "hub.sketch"],
        ["value", "south.npz", "--validation", "hub.sketch"],
    ]
    (folder / "copy.sketch").write_bytes((folder / "hub.sketch").read_bytes())
    bad.append(["value", "copy.sketch", "--validation", "hub.sketch"])
    wrong = [
        ["points", "south.npz", "--validation", "hub.sketch"],
        ["points", "south.npz", "--validation", "hub.npz", "--method", "labels"],
        ["points", "south.npz", *by_sketch, "--out", "scores.txt"],
        ["points", "south.npz", *by_sketch, "--plot", "scores.jpg"],
        ["value", "--validation", "hub.npz"],
        ["value", "south.npz", "--validation", "south.npz"],
        ["value", "south.npz", "./south.npz", "--validation", "hub.npz"],
        ["value", "south.npz", "--validation", "hub.npz", "--draws", "7"],
    ]
    capsys.readouterr()
    for code, orders in ((3, bad), (2, wrong)):
        for order in orders:
            assert run(order) == code, order
            printed = capsys.readouterr()
            assert printed.out == "", order
            assert printed.err.count("\n") == 1, order
    assert not list(folder.glob("scores*"))
    run(["value", "south.npz", "--validation", "hub.sketch"])
    assert "'south.npz' is no sketch or a damaged one, and others are" in capsys.readouterr().err
    run(["value", "nowhere.sketch", "--validation", "hub.sketch"])
    assert "There is no file 'nowhere.sketch'" in capsys.readouterr().err


def test_a_failed_write_leaves_no_scores_and_names_the_file(capsys, folder) -> None:
    order = ["points", "south.npz", "--validation", "hub.npz", "--most", "100"]
    # scores are never overwritten: written before a chart that fails, they would be in the way of the next attempt
    assert run([*order, "--out", "scores.csv", "--plot", "nowhere/scores.png"]) == 3
    assert not (folder / "scores.csv").exists()
    capsys.readouterr()
    # nobody can write there, whoever runs the test
    assert run([*order, "--out", "/proc/scores.csv"]) == 3
    assert "cannot be written to /proc/scores.csv (" in capsys.readouterr().err


def test_classes_of_folders_are_matched_by_their_stated_names(capsys, folder) -> None:
    from PIL import Image

    g = np.random.default_rng(0)
    for place, kinds in (
        ("V", {"bird": 30, "cat": 120, "dog": 220}),
        ("A", {"cat": 120, "dog": 220}),
        ("B", {"cow": 9}),
    ):
        for kind, grey in kinds.items():
            (folder / place / kind).mkdir(parents=True)
            for k in range(6):
                pixels = g.integers(grey - 9, grey + 9, (2, 2)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / place / kind / f"{k}.png")
    names = ["--classes", "bird,cat,dog"]
    for command in ("points", "value"):
        assert run([command, "A", "--validation", "V"]) == 2
        assert "--classes NAME" in capsys.readouterr().err
    assert run(["points", "A", "--validation", "V", *names, "--json"]) == 0
    assert {w["label"] for w in json.loads(capsys.readouterr().out)["worst"]} == {1, 2}
    assert run(["value", "A", "--validation", "V", *names, "--json"]) == 0
    # a third of V is missing, and is moved there from cats; with cats for birds it would be below 0
    assert json.loads(capsys.readouterr().out)["worth"] > 0.2
    assert run(["value", "B", "--validation", "V", *names]) == 3


def test_the_printed_share_is_not_presented_as_a_test_of_a_difference() -> None:
    from privot.cli.commands.points import _seen

    assert "hides how your classes differ" in _seen([0.0, 0.0])
    # shares above 0 are what chance leaves of nothing in two of five cases
    assert _seen([0.0, 0.5]) == "your class means are moved 25 % of the way to its noisy ones (mean over classes)"


def test_labels_that_mean_another_class_are_named_and_hidden_ones_counted() -> None:
    from privot.cli.commands.points import _meant

    assert _meant([0, 1], [1.0, 0.99]) == "every label keeps its name; it tells what 2 of 2 labels mean"
    assert _meant([1, 0, 2], [1.0, 1.0, 0.2]) == (
        "0 means its 1, 1 means its 0; it tells what 2 of 3 labels mean, and noise hides the others"
    )


def test_a_very_large_value_fits_on_one_line(capsys, folder) -> None:
    with np.load("north.npz") as file:
        write("far.npz", 300, 1, x=file["x"] * 1e60)
    assert run(["value", "far.npz", "south.npz", "--validation", "hub.npz"]) == 0
    assert max(map(len, capsys.readouterr().out.split("\n"))) < 130


@pytest.mark.parametrize("command", ["points", "value"])
def test_help_explains_that_no_server_can_find_bad_records(capsys, command: str) -> None:
    assert run([command, "--help"]) == 0
    assert "server" in capsys.readouterr().out
