"""Labels count: sketches keep classes apart at no higher cost, and OTDD from them is near the truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privot import Vault
from privot.cli import run
from privot.errors import DataError, UsageError
from privot.federation import Sketch, compare_sketches, label_distance, sketch
from privot.federation.comparing import tell_apart
from privot.guarantee import Adjacency
from privot.mechanisms import PrivateSketch, SketchDesign
from privot.transport.label_aware import otdd

D, CLASSES = 4, 3
CENTRES = np.array([[6.0, 0, 0, 0], [0, 6.0, 0, 0], [0, 0, 6.0, 0]])
DESIGN = SketchDesign.plain(D, 12.0).labelled(CLASSES)


def labelled(seed: int, n: int = 900, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    y = np.arange(n) % CLASSES
    return CENTRES[y] + g.normal(size=(n, D)) + shift, y


def sketched(x: np.ndarray, y: np.ndarray, epsilon: float = 10.0, design: SketchDesign = DESIGN) -> Sketch:
    vault = Vault(x, y, classes=CLASSES, clip=1.0, adjacency="replace-one", budget=(epsilon, 1e-5))
    return sketch(vault, epsilon=epsilon, delta=1e-5, design=design)


@settings(max_examples=100)
@given(
    rows=arrays(np.float64, (2, D), elements=st.floats(-1e3, 1e3)),
    labels=st.tuples(st.integers(0, CLASSES - 1), st.integers(0, CLASSES - 1)),
)
def test_neighbours_differ_by_at_most_the_sensitivity(rows: np.ndarray, labels: tuple[int, int]) -> None:
    blocks = DESIGN.coordinates(rows, np.array(labels))
    one, other = np.concatenate([blocks[n] * DESIGN.weights[n] for n, w in DESIGN.widths.items() if w], axis=1)
    assert np.linalg.norm(one) <= DESIGN.sensitivity(Adjacency.ADD_REMOVE) * (1 + 1e-12)
    assert np.linalg.norm(one - other) <= DESIGN.sensitivity(Adjacency.REPLACE_ONE) * (1 + 1e-12)
    assert DESIGN.sensitivity(Adjacency.REPLACE_ONE) == SketchDesign.plain(D, 12.0).sensitivity(Adjacency.REPLACE_ONE)


def test_classes_are_kept_apart_and_sum_to_the_whole() -> None:
    x, y = labelled(1, 90)
    apart, whole = DESIGN.coordinates(x, y), SketchDesign.plain(D, 12.0).coordinates(x)
    for name in ("features", "shells"):
        by_class = apart[name].reshape(len(x), CLASSES, -1)
        np.testing.assert_array_equal(by_class.sum(1), whole[name])
        assert not by_class[y != 1, 1].any()


def test_otdd_is_near_the_truth_and_sees_what_points_do_not() -> None:
    x, y = labelled(1)
    reference = sketched(x, y)
    far = {}
    for name, (a, b) in {
        "same": labelled(2),
        "moved": labelled(3, shift=3.0),
        "merged": (labelled(4)[0], np.zeros(900, dtype=np.int64)),
        "mixed": (labelled(5)[0], np.random.default_rng(0).permutation(labelled(5)[1])),
    }.items():
        far[name] = label_distance(reference, sketched(a, b))
        truth = otdd(x[:300], y[:300], a[:300], b[:300]).value
        # between samples of one distribution all is what matching leaves, a share that is assumed here
        if name != "same":
            assert far[name] == pytest.approx(truth, rel=0.25), name
    assert far["same"] < far["moved"]
    assert far["same"] < far["merged"]
    assert far["same"] < far["mixed"]
    plain = compare_sketches(reference, sketched(*labelled(2)), draws=0).w2.value
    mixed = compare_sketches(reference, sketched(labelled(5)[0], np.random.default_rng(0).permutation(y)), draws=0)
    # records alone say that nothing happened
    assert mixed.w2.value == pytest.approx(plain, rel=0.1)


def test_names_of_classes_do_not_matter() -> None:
    x, y = labelled(1)
    reference = sketched(x, y, 100.0)
    same, renamed = (label_distance(reference, sketched(labelled(2)[0], z, 100.0)) for z in (y, (y + 1) % CLASSES))
    assert renamed == pytest.approx(same, rel=0.05)


def test_false_alarms_do_not_rise_with_classes() -> None:
    pairs, alarms = 60, 0

    for k in range(pairs):
        alarms += (
            tell_apart(sketched(*labelled(2 * k, 300), 1.0), sketched(*labelled(2 * k + 1, 300), 1.0), 300) <= 0.05
        )
    # 5 % stated; the binomial's upper 1e-4 quantile
    assert alarms <= 11


def test_what_has_no_labels_is_refused(tmp_path: Path) -> None:
    x, y = labelled(1, 60)
    plain = SketchDesign.plain(D, 12.0)
    vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5))
    with pytest.raises(UsageError, match="labels"):
        vault.release(PrivateSketch(DESIGN, 9.0), purpose="test")
    with pytest.raises(UsageError, match="classes"):
        sketched(x, y, design=plain.labelled(5))
    with pytest.raises(UsageError, match="classes"):
        plain.labelled(-1)
    with pytest.raises(DataError, match="without labels"):
        label_distance(sketched(x, y, design=plain), sketched(x, y, design=plain))
    with pytest.raises(DataError, match="one design"):
        label_distance(sketched(x, y), sketched(x, y, design=plain))


def test_the_command_line_counts_labels(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for k in range(2):
        x, y = labelled(k, 120)
        np.savez(f"{k}.npz", x=x, y=y)
    terms = ["--epsilon", "5", "--delta", "1e-5", "--adjacency", "replace-one", "--radius", "12", "--classes", "3"]
    for k in range(2):
        assert run(["sketch", f"{k}.npz", *terms, "--out", f"{k}.sketch"]) == 0
    capsys.readouterr()
    assert run(["compare", "0.sketch", "1.sketch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["otdd"] > 0
    x, y = labelled(0, 120)
    a, b = labelled(1, 120)
    truth = otdd(x, y, a, b).value
    for method in (["exact"], ["triangle", "--allow-unproven"]):
        assert run(["compare", "0.npz", "1.npz", "--labels", "--json", "--method", *method]) == 0
        assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(truth, rel=1e-6)
    assert run(["compare", "0.npz", "1.npz", "--labels", "--method", "sliced"]) == 2
