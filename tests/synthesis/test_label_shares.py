"""Offsets of scores: samples get the shares of the classes that were released."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from privot.errors import UsageError  # noqa: E402
from privot.jobs.tensor_files import read_tensors, write_tensors  # noqa: E402
from privot.synthesis.neural.after_training.label_shares import share_offsets  # noqa: E402
from privot.synthesis.neural.features.scattering import Scattering, ScatteringClassifier  # noqa: E402


def shares_of(scores: torch.Tensor, b: np.ndarray, classes: int) -> np.ndarray:
    return np.bincount((scores + torch.as_tensor(b)).argmax(dim=1).numpy(), minlength=classes) / len(scores)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_shares_are_reached_whatever_the_scale_and_bias_of_the_scores(scale: float) -> None:
    dice = np.random.default_rng(0)
    skew = np.array([3.0, 0.0, -2.0, 0.5])
    scores = torch.from_numpy(scale * (dice.standard_normal((4000, 4)) + skew))
    weights = np.array([100.0, 400.0, 300.0, 200.0])
    found = shares_of(scores, share_offsets(scores, weights), 4)
    assert found == pytest.approx(weights / weights.sum(), abs=0.01)
    # without them the first class takes nearly all
    assert shares_of(scores, np.zeros(4), 4)[0] > 0.9


def test_two_classes_are_divided_at_the_quantile_of_the_difference() -> None:
    dice = np.random.default_rng(1)
    gap = dice.gumbel(size=2001)
    scores = torch.from_numpy(np.stack([gap, np.zeros_like(gap)], axis=1))
    b = share_offsets(scores, np.array([0.3, 0.7]))
    # class 0 where gap + b₀ − b₁ > 0: in three of ten rows
    assert b[1] - b[0] == pytest.approx(np.quantile(gap, 0.7), abs=0.03)
    assert b.sum() == pytest.approx(0.0, abs=1e-12)


def test_odd_weights_and_scores_have_an_answer() -> None:
    scores = torch.from_numpy(np.random.default_rng(2).standard_normal((1000, 3)))
    found = shares_of(scores, share_offsets(scores, np.array([-5.0, 50.0, 50.0])), 3)
    assert found[0] < 0.01
    assert found[1:] == pytest.approx([0.5, 0.5], abs=0.02)
    for same in (share_offsets(torch.ones(10, 3), np.ones(3)), share_offsets(scores, np.zeros(3))):
        assert same.tolist() == [0.0, 0.0, 0.0]


def test_a_classifier_keeps_its_offsets_in_a_file_and_old_files_have_none(tmp_path: Path) -> None:
    dice = np.random.default_rng(3)
    held = Scattering((16, 16, 3), 8).of_photographs(0.0, 1.0)
    weights = dice.standard_normal((held.size, 3))
    plain = ScatteringClassifier(held, weights)
    moved = ScatteringClassifier(held, weights, np.array([0.0, 0.5, -0.5]))
    x = torch.from_numpy(dice.random((4, 768)).astype(np.float32))
    assert torch.allclose(moved.scores(x) - plain.scores(x), torch.tensor([0.0, 0.5, -0.5]), atol=1e-6)
    for each in (plain, moved):
        write_tensors(tmp_path / "labeller", each.tensors(), {"labeller": each.to_dict()})
        tensors, facts = read_tensors(tmp_path / "labeller")
        read = ScatteringClassifier.from_tensors(facts["labeller"], tensors)
        assert np.array_equal(read.offsets, each.offsets)
        assert torch.equal(read.scores(x), each.scores(x))
    assert "offsets" not in plain.tensors()
    assert plain.to_dict()["digest"] != moved.to_dict()["digest"]
    with pytest.raises(UsageError, match="offsets"):
        ScatteringClassifier(held, weights, np.array([0.0, np.nan, 0.0]))
