"""Samples that are joined of two along a soft border, and named by the labeller afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from synthesis_samples import rules, toy

from privot import Vault
from privot.cli import run
from privot.errors import UsageError
from privot.synthesis import Synthesizer
from privot.synthesis.fitted import FittedGenerator
from privot.synthesis.generators.generator import build
from privot.synthesis.generators.joined_pairs import joined_pairs
from privot.synthesis.refinement.relabelling import Drawn, labels_of, of_pixels

COLOUR = (16, 16, 3)


def rows(count: int, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.rand(count, int(np.prod(shape)), generator=torch.Generator().manual_seed(seed))


@given(
    st.sampled_from([(8, 8), (9, 7, 3), (3, 16, 12), (1, 8, 8)]),
    st.integers(1, 12),
    st.floats(0.0, 1.0),
    st.integers(0, 99),
)
def test_a_joined_row_lies_between_the_two_it_is_made_of(
    shape: tuple[int, ...], count: int, share: float, seed: int
) -> None:
    x = 4.0 * rows(count, shape, seed) - 2.0
    made = joined_pairs(x, shape, share, np.random.default_rng(seed))
    after = x.roll(-1, dims=0)
    assert made.shape == x.shape
    assert bool((made >= torch.minimum(x, after)).all() and (made <= torch.maximum(x, after)).all())
    again = joined_pairs(x, shape, share, np.random.default_rng(seed))
    assert torch.equal(made, again)
    if share == 0.0:
        assert torch.equal(made, x)


@pytest.mark.parametrize("shape", [(16, 12, 3), (3, 16, 12)])
def test_a_border_is_the_same_in_all_channels_and_has_two_sides(shape: tuple[int, ...]) -> None:
    pictures = torch.zeros(40, 576)
    pictures[1::2] = 1.0
    made = joined_pairs(pictures, shape, 1.0, np.random.default_rng(0))
    channels = made.view(40, *shape).movedim(shape.index(3) + 1, 1)
    assert torch.equal(channels[:, 0], channels[:, 1])
    assert torch.equal(channels[:, 0], channels[:, 2])
    # soft, but mostly one of the two; and as much of one as of the other
    assert float(((made < 0.1) | (made > 0.9)).float().mean()) > 0.5
    assert float(made.mean()) == pytest.approx(0.5, abs=0.1)
    # no speckle: neighbours differ little
    assert float((channels[:, 0, 1:] - channels[:, 0, :-1]).abs().mean()) < 0.2


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_about_the_share_is_joined(share: float) -> None:
    x = rows(3000, (8, 8))
    made = joined_pairs(x, (8, 8), share, np.random.default_rng(1))
    changed = float((made != x).any(dim=1).float().mean())
    assert changed == pytest.approx(share, abs=5.0 * (share * (1.0 - share) / 3000) ** 0.5)


def fitted(labelled: bool = True) -> FittedGenerator:
    """A generator of colour images with random weights, and a classifier of pixels that labels its samples."""
    torch.manual_seed(0)
    segments = [[0, 768, "interval"]]
    generator = build({"kind": "mlp", "dim": 768, "classes": 2, "segments": segments, "latent": 4, "hidden": [8]})
    made = FittedGenerator(generator, None, np.array([30.0, 10.0]), True, (0.0, 1.0))
    if labelled:
        x, y = made.sample(400, seed=3)
        made.labeller = of_pixels(Drawn(torch.from_numpy(x), torch.from_numpy(y), 2, COLOUR, (0.0, 1.0)), 0)
    return made


def test_joined_samples_are_labelled_by_what_they_show() -> None:
    made = fitted()
    x, y = made.sample(300, seed=5, joined=0.5)
    plain, _ = made.sample(300, seed=5)
    changed = (x != plain).any(axis=1)
    assert 0.35 < changed.mean() < 0.65
    assert made.labeller is not None
    assert np.array_equal(labels_of(made.labeller, torch.from_numpy(x)).numpy(), y)
    # and not by what one of the two is: some have another label than either picture
    other = labels_of(made.labeller, torch.from_numpy(plain)).numpy()
    assert (y[~changed] == other[~changed]).all()
    assert (y != other).any()
    assert np.array_equal(made.sample(300, seed=5, joined=0.5)[0], x)
    # nothing changes for those who do not ask
    assert np.array_equal(made.sample(300, seed=5, joined=0.0)[0], plain)


def test_joining_is_refused_where_nobody_says_what_came_out(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(UsageError, match="only where a classifier says"):
        fitted(labelled=False).sample(10, joined=0.5)
    with pytest.raises(UsageError, match="leave out the labels"):
        fitted().sample(2, labels=[0, 1], joined=0.5)
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="between 0 and 1"):
            fitted().sample(10, joined=wrong)
    x, y = toy(40)
    vault = Vault(x, y, classes=2, clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    Synthesizer(5.0, 1e-5, rules=rules(2), device="cpu", seed=1, records=40).fit(vault).save(tmp_path / "model")
    out = tmp_path / "more.npz"
    assert run(["sample", str(tmp_path / "model"), "-n", "10", "--joined", "0.5", "--out", str(out)]) == 2
    assert "only where a classifier says" in capsys.readouterr().err
    assert not out.exists()
