"""Matrices of many sketches agree with comparisons of pairs, and transport between all pairs with single problems."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from privot import Vault
from privot.cli import run
from privot.errors import DataError
from privot.federation import Sketch, compare_sketches, sketch
from privot.federation.sketches.sketch_comparison import tell_apart
from privot.federation.sketches.sketch_matrix import distance_matrix, map_of, order_of
from privot.federation.wire.signing import make_key
from privot.mechanisms import SketchDesign
from privot.transport._exact import exact_matrix
from privot.transport._exact_pairs import transport_between_all

D = 6
PUBLIC = np.random.default_rng(9).normal(size=(200, D)) * 2
DESIGNS = {"plain": SketchDesign.plain(D, 8.0), "around": SketchDesign.around(PUBLIC, prototypes=7)}


def sketched(k: int, design: SketchDesign, n: int = 150, adjacency: str = "replace-one") -> Sketch:
    rows = np.random.default_rng(k).normal(size=(n, D)) * 2 + 0.7 * k
    vault = Vault(rows, clip=1.0, adjacency=adjacency, budget=(5.0, 1e-5))
    return sketch(vault, epsilon=5.0, delta=1e-5, design=design)


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_a_matrix_agrees_with_pairs(name: str, adjacency: str) -> None:
    made = [sketched(k, DESIGNS[name], 100 + 60 * k, adjacency) for k in range(5)]
    found = distance_matrix(made, workers=2)
    for i in range(5):
        assert found.w2[i, i] == found.sliced[i, i] == 0.0
        for j in range(i):
            alone = compare_sketches(made[i], made[j], draws=0)
            assert found.w2[i, j] == found.w2[j, i] == pytest.approx(alone.w2.value, abs=1e-9)
            assert found.sliced[i, j] == pytest.approx(alone.sliced.value, abs=1e-9)


def test_one_release_is_not_compared_with_itself(capsys, tmp_path: Path) -> None:
    first, second = (sketched(k, DESIGNS["plain"]) for k in range(2))
    first.save(tmp_path / "a.sketch")
    # signed by somebody else it is the same release
    first.save(tmp_path / "c.sketch", make_key(tmp_path / "c.key"))
    second.save(tmp_path / "b.sketch")
    a, b, c = (str(tmp_path / f"{name}.sketch") for name in "abc")
    assert run(["compare", a, b]) == 0
    for command in (["compare", a, c], ["federate", "matrix", a, b, c], ["federate", "matrix", a, a]):
        capsys.readouterr()
        assert run(command) == 3
        assert "same release" in capsys.readouterr().err
    with pytest.raises(DataError, match="same release"):
        tell_apart(first, Sketch.load(c))


def test_transport_between_all_is_exact() -> None:
    g = np.random.default_rng(3)
    points = g.normal(size=(9, 2))
    cost = ((points[:, None] - points[None]) ** 2).sum(-1)
    rows = g.dirichlet(np.ones(9) * 0.4, size=6)
    rows[0, 4:] = 0.0
    found = transport_between_all(cost, rows)
    for i in range(6):
        for j in range(6):
            a, b = rows[i] / rows[i].sum(), rows[j] / rows[j].sum()
            assert found[i, j] == pytest.approx(exact_matrix(cost, a, b).value, abs=1e-9)
    with pytest.raises(DataError):
        transport_between_all(cost, rows[:, :8])
    with pytest.raises(DataError):
        transport_between_all(cost, -rows)


def test_order_and_map_keep_neighbours_together() -> None:
    line = np.array([0.0, 10.0, 1.0, 11.0, 0.5])
    distances = np.abs(line[:, None] - line)
    order, tree = order_of(distances)
    assert {frozenset(order[:3]), frozenset(order[3:])} == {frozenset({0, 2, 4}), frozenset({1, 3})} or {
        frozenset(order[:2]),
        frozenset(order[2:]),
    } == {frozenset({0, 2, 4}), frozenset({1, 3})}
    assert tree.shape == (4, 4)
    points = map_of(distances)
    np.testing.assert_allclose(np.linalg.norm(points[:, None] - points[None], axis=-1), distances, atol=1e-6)


def test_one_sketch_or_two_designs_are_refused() -> None:
    one = sketched(0, DESIGNS["plain"])
    with pytest.raises(DataError, match="at least two"):
        distance_matrix([one])
    with pytest.raises(DataError, match="one design"):
        distance_matrix([one, sketched(1, DESIGNS["around"])])


@pytest.mark.slow
def test_the_command_draws_and_states_the_privacy(tmp_path: Path, capsys) -> None:
    key = make_key(tmp_path / "k")
    for k in range(4):
        sketched(k, DESIGNS["plain"]).save(tmp_path / f"p{k}.sketch", key)
    out = tmp_path / "map.png"
    trust = ["--trust", str(tmp_path / "k.pub")]
    assert run(["federate", "matrix", str(tmp_path), *trust, "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["names"] == ["p0", "p1", "p2", "p3"]
    assert said["guarantees"][0]["standing"] == "proven"
    assert out.read_bytes()[:4] == b"\x89PNG"
    assert run(["federate", "matrix", str(tmp_path), "--distance", "sliced"]) == 0
    text = capsys.readouterr().out
    assert "replace-one, proven" in text
    assert run(["federate", "matrix", str(tmp_path / "p0.sketch")]) == 2
    (tmp_path / "empty").mkdir()
    capsys.readouterr()
    assert run(["federate", "matrix", str(tmp_path / "p0.sketch"), str(tmp_path / "empty")]) == 3
    assert "holds no sketch files" in capsys.readouterr().err
    (tmp_path / "other.pub").write_text("11" * 32)
    assert run(["federate", "matrix", str(tmp_path), "--trust", str(tmp_path / "other.pub")]) == 3
