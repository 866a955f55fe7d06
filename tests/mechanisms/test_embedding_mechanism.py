"""A mean embedding moves by no more than is counted, whatever a record or a feature map says, and has its noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privot.accounting import Gaussian
from privot.errors import BudgetError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms import Facts, MeanEmbedding
from privot.mechanisms.embedding import MARGIN, clip_features, count_share
from privot.noise import SystemNoise
from privot.synthesis.features import Fourier, Stack
from privot.vault import Vault

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
ANY = st.floats(allow_nan=False, allow_infinity=False)


class Plain:
    """Records without a vault around them."""

    def __init__(self, x: np.ndarray, y: np.ndarray | None = None, classes: int | None = None, adjacency=REPLACE):
        self.x, self.y, self.count = x, y, len(x)
        self.facts = Facts(x.shape[1], len(x) if adjacency is REPLACE else None, 1.0, adjacency, classes)

    def rows(self, indices: np.ndarray | None = None) -> np.ndarray:
        return self.x if indices is None else self.x[indices]

    def labels(self, indices: np.ndarray | None = None) -> np.ndarray:
        assert self.y is not None
        return self.y if indices is None else self.y[indices]


class Silent:
    """Noise of zero, which writes down what it was asked."""

    standing = Standing.PROVEN
    assumptions = ()

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def normal(self, shape: tuple[int, ...], sigma: float) -> np.ndarray:
        self.asked.append((shape, sigma))
        return np.zeros(shape)


class Raw:
    """A map that bounds nothing: φ(x) = x. The mechanism must do the bounding."""

    rounding = 0.0

    def __init__(self, dim: int) -> None:
        self.dim = self.size = dim

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "raw"}


def joint(mechanism: MeanEmbedding, records: Plain, noise: Any = None) -> np.ndarray:
    """What noise was added to: the weighted sums and counts, as one matrix."""
    value, public = mechanism.run(records, noise or Silent(), mechanism.event(records.facts), 0)
    a = public["sigma"] / public["sums_sigma"]
    return np.concatenate([a * value["sums"], public["count_weight"] * value["counts"][:, None]], axis=1)


def exact_norm(row: np.ndarray, factor: float = 1.0) -> Fraction:
    """‖factor·row‖² without any rounding."""
    return sum((Fraction(float(v)) ** 2 for v in row), Fraction(0)) * Fraction(factor) ** 2


@pytest.mark.parametrize(("adjacency", "sensitivity"), [(ADD, 1.0), (REPLACE, 2.0)])
def test_event_says_what_runs(adjacency: Adjacency, sensitivity: float) -> None:
    x, y = np.random.default_rng(0).uniform(size=(30, 4)), np.arange(30) % 3
    records, noise = Plain(x, y, 3, adjacency), Silent()
    mechanism = MeanEmbedding(Fourier(4, 8, [1.0], 1), 2.5, labels=True)
    event = mechanism.event(records.facts)
    assert event == Gaussian(2.5, sensitivity, adjacency)
    value, public = mechanism.run(records, noise, event, 0)
    assert noise.asked == [((3, 17), 2.5)]
    assert value["sums"].shape == (3, 16)
    assert public["records"] == (30 if adjacency is REPLACE else None)
    np.testing.assert_allclose(value["counts"], 10.0, rtol=2 * MARGIN)
    # the noise that is stated is the noise that is there once the weights are divided out
    b = count_share(16)
    assert public["counts_sigma"] == pytest.approx(2.5 / b)
    assert public["sums_sigma"] == pytest.approx(2.5 / math.sqrt(1 - b * b))


@settings(max_examples=200)
@given(arrays(np.float64, (3, 5), elements=ANY))
def test_clipped_features_have_norm_below_one_exactly(phi: np.ndarray) -> None:
    held, share = clip_features(torch.from_numpy(phi))
    for row, factor in zip(held.numpy(), share.numpy(), strict=True):
        assert exact_norm(row, float(factor)) <= (1 - Fraction(MARGIN) / 2) ** 2


@settings(max_examples=100)
@given(arrays(np.float64, (3, 5), elements=st.floats(-0.4, 0.4)))
def test_features_within_the_bound_are_kept(phi: np.ndarray) -> None:
    held, share = clip_features(torch.from_numpy(phi))
    assert held.numpy().tobytes() == phi.tobytes()
    assert (share == 1.0).all()


def test_features_that_are_no_numbers_count_as_zero() -> None:
    phi = torch.tensor([[math.nan, 1.0], [math.inf, 0.0], [1e200, 1e200], [0.3, 0.4]], dtype=torch.float64)
    held, share = clip_features(phi)
    assert (held[:3] == 0.0).all()
    assert held[3].tolist() == [0.3, 0.4]
    assert torch.isfinite(share).all()


@settings(max_examples=100)
@given(
    arrays(np.float64, (6, 4), elements=ANY),
    arrays(np.float64, 4, elements=ANY),
    arrays(np.int64, 7, elements=st.integers(0, 2)),
    st.integers(0, 5),
    st.sampled_from(["raw", "fourier", "stack"]),
)
def test_neighbours_differ_by_no_more_than_is_counted(
    x: np.ndarray, other: np.ndarray, y: np.ndarray, changed: int, kind: str
) -> None:
    features = {
        "raw": Raw(4),
        "fourier": Fourier(4, 6, [0.5, 2.0], 3),
        "stack": Stack([Fourier(4, 3, [1.0], 4, -1e3, 1e3), Raw(4)], [1.0, 2.0]),
    }[kind]
    mechanism = MeanEmbedding(features, 1.0, labels=True)
    y, new = y[:6], y[6]
    # replaced
    x2, y2 = x.copy(), y.copy()
    x2[changed], y2[changed] = other, new
    moved = joint(mechanism, Plain(x, y, 3)) - joint(mechanism, Plain(x2, y2, 3))
    assert np.linalg.norm(moved) <= 2.0
    # removed: the others move up by one place
    fewer = Plain(np.delete(x, changed, 0), np.delete(y, changed), 3, ADD)
    moved = joint(mechanism, Plain(x, y, 3, ADD)) - joint(mechanism, fewer)
    assert np.linalg.norm(moved) <= 1.0


def test_the_furthest_neighbours_reach_the_bound() -> None:
    mechanism = MeanEmbedding(Raw(2), 1.0, count_weight=0.01)
    values = [joint(mechanism, Plain(np.array([[s, 0.0], [0.0, 1.0]]))) for s in (9.0, -9.0)]
    assert np.linalg.norm(values[0] - values[1]) == pytest.approx(2 * math.sqrt(1 - 0.01**2), rel=2 * MARGIN)
    labelled = MeanEmbedding(Raw(2), 1.0, labels=True)
    few, more = (joint(labelled, Plain(np.full((n, 2), 7.0), np.zeros(n, int), 2, ADD)) for n in (4, 5))
    assert np.linalg.norm(few - more) == pytest.approx(1.0, rel=2 * MARGIN)


@pytest.mark.parametrize(
    "features",
    [
        # phases of hundreds of turns: were they not exact, their rounding would be far above what the map states
        Fourier(400, 30, [0.02], 1),
        Stack([Fourier(400, 9, [0.05], 2), Fourier(400, 4, [2], 3)]),
    ],
)
def test_a_record_adds_the_same_wherever_it_stands(features: Any) -> None:
    """Were a record's features to depend on its neighbours in a block, more than one of them would move."""
    x = torch.from_numpy(np.random.default_rng(5).uniform(-0.2, 1.2, size=(257, 400)))
    whole = features.features(x)
    for rows in (1, 2, 3, 8, 100):
        for start in (0, 1, 77, 157):
            part = features.features(x[start : start + rows])
            apart = torch.linalg.vector_norm(part - whole[start : start + rows], dim=1)
            assert float(apart.max()) <= features.rounding


def test_phases_are_exact() -> None:
    """The projection of a snapped record on the grid of frequencies, against whole-number arithmetic."""
    features = Fourier(50, 20, [0.2], 6)
    x = np.random.default_rng(7).uniform(size=(4, 50))
    turns = features._turns
    snapped = np.rint(x * 2**16) / 2**16
    phase = torch.from_numpy(snapped) @ torch.from_numpy(turns)
    for i in range(4):
        for j in range(20):
            exact = sum(Fraction(u) * Fraction(w) for u, w in zip(snapped[i], turns[:, j], strict=True))
            assert Fraction(float(phase[i, j])) == exact


def test_sums_in_blocks_are_the_sums() -> None:
    generator = np.random.default_rng(8)
    x, y = generator.uniform(size=(2500, 3)), generator.integers(0, 4, 2500)
    features = Fourier(3, 10, [0.7], 9)
    value, _ = (m := MeanEmbedding(features, 1.0, labels=True)).run(
        Plain(x, y, 4), Silent(), m.event(Plain(x, y, 4).facts), 0
    )
    phi = features.features(torch.from_numpy(x)).numpy()
    for c in range(4):
        np.testing.assert_allclose(value["sums"][c], phi[y == c].sum(0) * (1 - MARGIN), rtol=1e-9, atol=1e-9)
        assert value["counts"][c] == pytest.approx((y == c).sum() * (1 - MARGIN), rel=1e-9)


def test_noise_has_the_variance_that_is_counted() -> None:
    x, y = np.random.default_rng(10).uniform(size=(50, 3)), np.arange(50) % 5
    mechanism = MeanEmbedding(Fourier(3, 2000, [1.0], 11), 2.5, labels=True)
    records = Plain(x, y, 5)
    drawn = joint(mechanism, records, SystemNoise()) - joint(mechanism, records)
    # 20,000 variates: the sample sd is within 2.5 % with probability 1 − 1e-6; 2σ/3 is far outside
    assert drawn[:, :-1].std() == pytest.approx(2.5, rel=0.025)
    counts = np.concatenate(
        [(joint(mechanism, records, SystemNoise()) - joint(mechanism, records))[:, -1] for _ in range(200)]
    )
    # 1000 variates: within 11 % with probability 1 − 1e-6
    assert counts.std() == pytest.approx(2.5, rel=0.11)


def test_refuses_before_anything_is_touched() -> None:
    class Untouchable(Raw):
        def features(self, x: torch.Tensor) -> torch.Tensor:
            assert (x == 0.0).all(), "records were touched"
            return x

    x, y = np.random.default_rng(12).uniform(size=(10, 3)), np.arange(10) % 2
    vault = Vault(x, y, classes=2, clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5))
    with pytest.raises(UsageError, match="columns"):
        vault.release(MeanEmbedding(Untouchable(4), 10.0, labels=True), purpose="wrong columns")
    with pytest.raises(BudgetError):
        vault.release(MeanEmbedding(Untouchable(3), 1.0, labels=True), purpose="too dear")
    with pytest.raises(UsageError, match="labels"):
        Vault(x, clip=1.0, adjacency="add-remove", budget=(1.0, 1e-5)).release(
            MeanEmbedding(Untouchable(3), 100.0, labels=True), purpose="no labels"
        )

    class Broken(Raw):
        def features(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :2]

    with pytest.raises(UsageError, match="shape"):
        vault.release(MeanEmbedding(Broken(3), 10.0, labels=True), purpose="a map that lies")
    # nothing was charged by the refusals
    assert vault.release(MeanEmbedding(Raw(3), 10.0, labels=True), purpose="fits").guarantee.epsilon() <= 1.0


def test_rounding_beyond_the_margin_is_refused() -> None:
    class Rough(Raw):
        rounding = 1e-6

    with pytest.raises(UsageError, match="Rounding"):
        MeanEmbedding(Rough(3), 1.0).event(Facts(3, 10, 1.0, REPLACE))
    MeanEmbedding(Rough(3), 1.0).event(Facts(3, 4, 1.0, REPLACE))
    # a grid so coarse that it would move sums by more than the margin
    with pytest.raises(UsageError, match="Rounding"):
        MeanEmbedding(Fourier(3, 10, [1.0], 1), 1e8).event(Facts(3, 10, 1.0, REPLACE))
    # a million records and 40,000 numbers are no reason to refuse
    MeanEmbedding(Fourier(2, 20_000, [1.0], 1), 5.0, labels=True).event(Facts(2, 10**6, 1.0, REPLACE, classes=10))


@pytest.mark.parametrize(
    "arguments", [{"sigma": 0.0}, {"count_weight": 0.0}, {"count_weight": 1.0}, {"count_weight": math.nan}]
)
def test_impossible_settings_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        MeanEmbedding(**{"features": Raw(2), "sigma": 1.0, **arguments})


def test_unknown_device_is_refused_before_paying() -> None:
    with pytest.raises(UsageError):
        MeanEmbedding(Raw(2), 1.0, device="tpu").event(Facts(2, 10, 1.0, REPLACE))


def test_count_weight_minimises_the_noise_of_everything() -> None:
    for size in (1, 16, 40_000):
        b = count_share(size)

        def total(b: float, size: int = size) -> float:
            return size / (1 - b * b) + 1 / (b * b)

        assert total(b) <= min(total(b * 0.99), total(b * 1.01 if b * 1.01 < 1 else b))
