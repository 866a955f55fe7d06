"""`privot compare`: right answers on known data, marked as not private."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from privot.cli import run


@pytest.fixture
def pair(tmp_path):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(80, 4))
    np.save(tmp_path / "a.npy", x)
    np.save(tmp_path / "b.npy", x + np.array([3.0, 4.0, 0.0, 0.0]))
    return [str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]


def test_the_exact_distance_of_a_translation_is_its_length(capsys, pair, tmp_path):
    chart = tmp_path / "transport.png"
    assert run(["compare", *pair, "--method", "exact", "--out", str(chart), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["value"] == pytest.approx(5.0, rel=1e-9)
    assert found["null_level"] < found["interval"][0] <= found["value"] <= found["interval"][1]
    assert found["null_level"] < found["value_at_null_records"]
    assert found["null_records"] == 40
    assert found["privacy"].startswith("none")
    assert chart.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_sliced_interval_contains_the_closed_form(capsys, pair, tmp_path):
    chart = tmp_path / "slices.svg"
    assert run(["compare", *pair, "--slices", "400", "--out", str(chart), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # of a translation by v, SW_2 = ‖v‖/√d
    assert found["interval"][0] <= 2.5 <= found["interval"][1]
    assert found["value"] == pytest.approx(2.5, rel=0.02)
    assert "<svg" in chart.read_text()


@pytest.mark.parametrize("method", ["exact", "sinkhorn"])
def test_the_interval_contains_the_value_and_equal_distributions_reach_the_null_level(capsys, tmp_path, method):
    generator = np.random.default_rng(3)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", generator.normal(size=(60, 16)))
    assert run(["compare", *(str(tmp_path / f"{n}.npy") for n in "ab"), "--method", method, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["interval"][0] < found["value"] < found["interval"][1]
    # of one distribution, A and B show what chance shows, at equal size
    assert found["value_at_null_records"] == pytest.approx(found["null_level"], rel=0.05)


def test_sinkhorn_prints_its_cost_and_that_it_is_confidential(capsys, pair):
    assert run(["compare", *pair, "--method", "sinkhorn"]) == 0
    told = capsys.readouterr().out
    assert "regularised transport cost" in told
    assert "confidential" in told


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        (["--method", "magic"], 2),
        (["--slices", "0"], 2),
        (["--p", "0.5"], 2),
        (["--reg", "-1"], 2),
        (["--most", "1"], 2),
        (["--seed", "-1"], 2),
        (["--seed", "-1", "--method", "exact"], 2),
        (["--seed", "-1", "--method", "triangle", "--allow-unproven"], 2),
        (["--out", "x.txt"], 2),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(capsys, pair, extra, code):
    assert run(["compare", *pair, *extra]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1


def test_labels_of_many_columns_are_compared_in_little_memory(capsys, tmp_path):
    generator = np.random.default_rng(0)
    for name in "ab":
        np.savez(tmp_path / f"{name}.npz", x=generator.normal(size=(40, 60)), y=np.arange(40) % 2)
    files = [str(tmp_path / f"{n}.npz") for n in "ab"]
    # what is imported is not counted
    assert run(["compare", *files, "--method", "exact"]) == 0
    capsys.readouterr()
    tracemalloc.start()
    assert run(["compare", *files, "--method", "exact", "--labels", "--json"]) == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # one column per class and side beside the records' own
    assert json.loads(capsys.readouterr().out)["dimension"] == 60 + 2 + 2
    # all pairs of 40 records in 2 · 60 + 60² dimensions would take 48 million bytes
    assert peak < 24e6


@pytest.mark.slow
def test_triangle_with_labels_sends_small_messages_and_gives_the_exact_distance(capsys, tmp_path):
    generator = np.random.default_rng(0)
    for name in "ab":
        np.savez(tmp_path / f"{name}.npz", x=generator.uniform(size=(200, 784)), y=np.arange(200) % 10)
    files = [str(tmp_path / f"{n}.npz") for n in "ab"]
    assert run(["compare", *files, "--method", "triangle", "--labels", "--allow-unproven", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    # two questions of one point and two answers of 200, of 784 + 20 columns
    assert said["bytes"] < 2 * 201 * (784 + 20) * 8 + 10_000
    # OTDD by hand: whole roots of covariances, and an assignment
    (x, lx), (y, ly) = ((f["x"], f["y"]) for f in map(np.load, files))

    def statistics(points, labels):
        out = []
        for c in range(10):
            members = points[labels == c]
            mean = members.mean(0)
            _, size, directions = np.linalg.svd((members - mean) / np.sqrt(len(members)), full_matrices=False)
            out.append(np.append(mean, (directions.T * size) @ directions))
        return np.array(out)

    between = cdist(statistics(x, lx), statistics(y, ly), "sqeuclidean")
    cost = cdist(x, y, "sqeuclidean") + between[lx][:, ly]
    rows, columns = linear_sum_assignment(cost)
    assert said["value"] == pytest.approx(np.sqrt(cost[rows, columns].mean()), rel=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_very_large_values_are_compared_or_refused_without_numpy_warnings(capsys, tmp_path):
    files = [str(tmp_path / f"{name}.npy") for name in "ab"]
    for file, seed in zip(files, (0, 1), strict=True):
        np.save(file, np.random.default_rng(seed).normal(size=(30, 3)) * 1e200)
    assert run(["compare", *files, "--method", "exact", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0.0 < found["interval"][0] < found["value"] < found["interval"][1] < 1e201
    assert run(["compare", *files, "--method", "sinkhorn"]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_data_sets_with_different_columns_are_refused(capsys, pair):
    assert run(["compare", pair[0], "digits"]) == 3
    assert "columns" in capsys.readouterr().err


def test_the_published_variants_of_triangle(capsys, pair):
    def found(*words):
        assert run(["compare", *pair, "--method", "triangle", "--allow-unproven", "--json", *words]) == 0
        return json.loads(capsys.readouterr().out)

    assert found()["value"] == pytest.approx(5.0, rel=1e-9)
    assert (found()["factor"], found()["shared"], found()["federated"]) == ("corrected", True, False)
    assert found("--set", "factor=published")["value"] == pytest.approx(10.0, rel=1e-9)
    # and whoever reads it is told that it is no distance
    assert run(["compare", *pair, "--method", "triangle", "--allow-unproven", "--set", "factor=published"]) == 0
    assert "gives no distance" in capsys.readouterr().out
    secret = found("--set", "secret=yes", "--set", "defence=random")
    assert secret["value"] > 5.0 - 1e-9
    assert secret["value"] != found("--set", "defence=random")["value"]
    by_fedwad = found("--set", "federated=yes", "--set", "rounds=12")
    assert 5.0 - 1e-6 <= by_fedwad["value"] < 5.5
    assert by_fedwad["rounds"] == 12
    for words, said in (
        (["--method", "triangle", "--allow-unproven", "--set", "secret=yes"], "--set defence=random"),
        (["--method", "triangle", "--allow-unproven", "--set", "factor=half"], "Unknown factor"),
        (["--method", "fedwad", "--allow-unproven", "--set", "factor=published"], "works with --method triangle only"),
        (["--method", "exact", "--set", "federated=yes"], "works with --method triangle only"),
    ):
        assert run(["compare", *pair, *words]) == 2
        assert said in capsys.readouterr().err
