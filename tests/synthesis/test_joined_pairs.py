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
from privot.synthesis.design import shares
from privot.synthesis.fitted import FittedGenerator
from privot.synthesis.method_configs import Embedding
from privot.synthesis.neural.after_training.relabelling import Drawn, labels_of, of_pixels
from privot.synthesis.neural.generators.generator import build
from privot.synthesis.neural.generators.joined_pairs import joined_pairs
from privot.tables import Column, Schema, Table, TableCodec

COLOUR = (16, 16, 3)


def rows(count: int, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.rand(count, int(np.prod(shape)), generator=torch.Generator().manual_seed(seed))


@given(
    st.sampled_from([(8, 8), (9, 7, 3), (3, 16, 12), (1, 8, 8)]),
    st.integers(1, 12),
    st.integers(0, 99),
)
def test_a_joined_row_lies_between_the_two_it_is_made_of(shape: tuple[int, ...], count: int, seed: int) -> None:
    x, y = (4.0 * rows(count, shape, s) - 2.0 for s in (seed, seed + 100))
    made = joined_pairs(x, y, shape, np.random.default_rng(seed))
    assert made.shape == x.shape
    assert bool((made >= torch.minimum(x, y)).all() and (made <= torch.maximum(x, y)).all())
    assert torch.equal(made, joined_pairs(x, y, shape, np.random.default_rng(seed)))


def test_rounding_leads_past_no_end() -> None:
    # on no grid: differences of such numbers are rounded
    x, y = (torch.log(rows(400, (32, 32, 3), seed) + 0.1) for seed in (1, 2))
    made = joined_pairs(x, y, (32, 32, 3), np.random.default_rng(0))
    assert bool((made >= torch.minimum(x, y)).all() and (made <= torch.maximum(x, y)).all())


@pytest.mark.parametrize("shape", [(16, 12, 3), (3, 16, 12)])
def test_a_border_is_the_same_in_all_channels_and_soft(shape: tuple[int, ...]) -> None:
    made = joined_pairs(torch.zeros(60, 576), torch.ones(60, 576), shape, np.random.default_rng(0))
    channels = made.view(60, *shape).movedim(shape.index(3) + 1, 1)
    assert torch.equal(channels[:, 0], channels[:, 1])
    assert torch.equal(channels[:, 0], channels[:, 2])
    # mostly one of the two, as much of one as of the other, and a part where one passes into the other
    between = float(((made > 0.1) & (made < 0.9)).float().mean())
    assert 0.1 < between < 0.5
    assert float(made.mean()) == pytest.approx(0.5, abs=0.1)
    # no speckle: neighbours differ little
    assert float((channels[:, 0, 1:] - channels[:, 0, :-1]).abs().mean()) < 0.2


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


def plainly(made: FittedGenerator, n: int, seed: int) -> np.ndarray:
    """Samples as they were drawn before any could be joined."""
    dice, out = np.random.default_rng(seed), []
    y = dice.permutation(shares(made.counts, n))
    for start in range(0, n, 4096):
        part = y[start : start + 4096]
        z = dice.standard_normal((len(part), 4)).astype(np.float32)
        with torch.no_grad():
            out.append(made.generator(torch.from_numpy(z), torch.from_numpy(part)).numpy())
    return np.concatenate(out)


def test_nothing_changes_for_those_who_do_not_ask() -> None:
    assert np.array_equal(fitted().sample(4200, seed=5)[0], plainly(fitted(), 4200, 5))


def test_joined_samples_are_labelled_by_what_they_show() -> None:
    made = fitted()
    x, y = made.sample(300, seed=5, joined=0.5)
    # the first pictures of the block are those that would have come without
    plain = plainly(made, 300, 5)
    changed = (x != plain).any(axis=1)
    assert 0.35 < changed.mean() < 0.65
    assert made.labeller is not None
    assert np.array_equal(labels_of(made.labeller, torch.from_numpy(x)).numpy(), y)
    # and not by what one of the two is: some have another label than that picture
    other = labels_of(made.labeller, torch.from_numpy(plain)).numpy()
    assert (y[~changed] == other[~changed]).all()
    assert (y != other).any()
    assert np.array_equal(made.sample(300, seed=5, joined=0.5)[0], x)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_about_the_share_is_joined_in_every_block(share: float) -> None:
    made = fitted()
    x = made.sample(8192, seed=1, joined=share)[0]
    # pictures of random weights differ little: those of the generator itself are told by where they come from
    drawn = {row.tobytes() for row in _drawn_by(made, 8192, 1, share)}
    for block in (x[:4096], x[4096:]):
        kept = np.mean([row.tobytes() in drawn for row in block])
        assert 1.0 - kept == pytest.approx(share, abs=5.0 * (share * (1.0 - share) / 4096) ** 0.5)


def _drawn_by(made: FittedGenerator, n: int, seed: int, share: float) -> list[np.ndarray]:
    """All pictures that the generator makes while `n` samples are drawn."""
    seen: list[np.ndarray] = []
    forward = made.generator.forward
    made.generator.forward = lambda *given: seen.append((out := forward(*given)).numpy().copy()) or out  # type: ignore
    made.sample(n, seed=seed, joined=share)
    made.generator.forward = forward  # type: ignore[method-assign]
    return list(np.concatenate(seen))


def test_one_sample_is_joined_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fitted()
    for n in (1, 4097):
        x = made.sample(n, seed=2, joined=1.0)[0]
        assert (x != plainly(made, n, 2)).any(axis=1)[-1]


@pytest.mark.slow
def test_joining_is_refused_where_nobody_says_what_came_out(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(UsageError, match="only where a classifier says"):
        fitted(labelled=False).sample(10, joined=0.5)
    with pytest.raises(UsageError, match="leave out the labels"):
        fitted().sample(2, labels=[0, 1], joined=0.5)
    for wrong in (-0.1, 1.1, float("nan"), "0.5", None, True):
        with pytest.raises(UsageError, match="between 0 and 1"):
            fitted().sample(10, joined=wrong)  # type: ignore[arg-type]
    x, y = toy(40)
    vault = Vault(x, y, classes=2, clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    Synthesizer(5.0, 1e-5, device="cpu", seed=1, records=40, method=Embedding(rules=rules(2))).fit(vault).save(
        tmp_path / "model"
    )
    out = tmp_path / "more.npz"
    assert run(["sample", str(tmp_path / "model"), "-n", "10", "--joined", "0.5", "--out", str(out)]) == 2
    assert "only where a classifier says" in capsys.readouterr().err
    assert not out.exists()
    codec = TableCodec(Schema((Column("age", "integer", 0, 99),)))
    x, _ = codec.encode(Table({"age": np.arange(90)}), compact=True)
    people = Vault(x, clip=codec.bound(compact=True), adjacency="add-remove", budget=(5.0, 1e-5))
    table = Synthesizer(5.0, 1e-5, device="cpu", seed=1, kind=codec).fit(people)
    with pytest.raises(UsageError, match="Rows of tables"):
        table.sample(10, joined=0.5)
    table.save(tmp_path / "table")
    assert run(["sample", str(tmp_path / "table"), "--joined", "0.5", "--out", str(tmp_path / "more.csv")]) == 2
    assert "leave out joined" in capsys.readouterr().err
