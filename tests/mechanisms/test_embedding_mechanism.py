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
from mechanism_samples import Onlooker, Plain, Raw, Silent

from privot.accounting import Gaussian
from privot.errors import BudgetError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts, MeanEmbedding
from privot.mechanisms.embedding import MARGIN, clip_features, count_share
from privot.mechanisms.exact_sums import Sums, _norms
from privot.noise import SystemNoise
from privot.synthesis.neural.features.fourier import Fourier, Stack
from privot.vault import Vault

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
ANY = st.floats(allow_nan=False, allow_infinity=False)


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
    records, noise = Plain(x, y, adjacency, 3), Silent()
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


@pytest.mark.slow
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
    moved = joint(mechanism, Plain(x, y, classes=3)) - joint(mechanism, Plain(x2, y2, classes=3))
    assert np.linalg.norm(moved) <= 2.0
    # removed: the others move up by one place
    fewer = Plain(np.delete(x, changed, 0), np.delete(y, changed), ADD, 3)
    moved = joint(mechanism, Plain(x, y, ADD, 3)) - joint(mechanism, fewer)
    assert np.linalg.norm(moved) <= 1.0


def test_the_furthest_neighbours_reach_the_bound() -> None:
    mechanism = MeanEmbedding(Raw(2), 1.0, count_weight=0.01)
    values = [joint(mechanism, Plain(np.array([[s, 0.0], [0.0, 1.0]]))) for s in (9.0, -9.0)]
    assert np.linalg.norm(values[0] - values[1]) == pytest.approx(2 * math.sqrt(1 - 0.01**2), rel=2 * MARGIN)
    labelled = MeanEmbedding(Raw(2), 1.0, labels=True)
    few, more = (joint(labelled, Plain(np.full((n, 2), 7.0), np.zeros(n, int), ADD, 2)) for n in (4, 5))
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
        Plain(x, y, classes=4), Silent(), m.event(Plain(x, y, classes=4).facts), 0
    )
    phi = features.features(torch.from_numpy(x)).numpy()
    for c in range(4):
        np.testing.assert_allclose(value["sums"][c], phi[y == c].sum(0) * (1 - MARGIN), rtol=1e-9, atol=1e-9)
        assert value["counts"][c] == pytest.approx((y == c).sum() * (1 - MARGIN), rel=1e-9)


@pytest.mark.statistical
def test_noise_has_the_variance_that_is_counted() -> None:
    x, y = np.random.default_rng(10).uniform(size=(50, 3)), np.arange(50) % 5
    mechanism = MeanEmbedding(Fourier(3, 2000, [1.0], 11), 2.5, labels=True)
    records = Plain(x, y, classes=5)
    drawn = joint(mechanism, records, SystemNoise()) - joint(mechanism, records)
    # 20,000 variates: the sample sd is within 2.5 % with probability 1 − 1e-6; 2σ/3 is far outside
    assert drawn[:, :-1].std() == pytest.approx(2.5, rel=0.025)
    # counts are beside any features: few, and their own values once
    few = MeanEmbedding(Fourier(3, 2, [1.0], 11), 2.5, labels=True)
    exact = joint(few, records)[:, -1]
    counts = np.concatenate([joint(few, records, SystemNoise())[:, -1] - exact for _ in range(200)])
    # 1000 variates: within 11 % with probability 1 − 1e-6
    assert counts.std() == pytest.approx(2.5, rel=0.11)


def test_refuses_before_anything_is_touched() -> None:
    x, y = np.random.default_rng(12).uniform(size=(10, 3)), np.arange(10) % 2
    touched: list[bool] = []

    class Untouchable(Raw):
        def features(self, rows: torch.Tensor) -> torch.Tensor:
            touched.append(rows.shape[1] == 3 and bool((rows[:, None] == torch.from_numpy(x)[None]).any()))
            return rows

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
    assert touched
    assert not any(touched), "records were touched"
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


def test_what_rounding_refuses_for_any_number_of_records_is_refused_before_paying() -> None:
    x = np.random.default_rng(0).uniform(size=(50, 3))
    vault = Vault(x, clip=1.0, adjacency="add-remove", budget=(1.0, 1e-5))
    with pytest.raises(UsageError, match="Rounding could"):
        vault.release(MeanEmbedding(Fourier(3, 10, [1.0], 1), 1e8), purpose="a grid too coarse")
    # the whole budget is still there
    assert vault.release(MeanEmbedding(Fourier(3, 10, [1.0], 1), 4.0), purpose="fits").guarantee.epsilon() > 0.9


def test_the_rounding_of_norms_is_counted() -> None:
    """√size units a record: with 10¹⁶ numbers a thousand records are too many, at a σ whose grid costs nothing."""

    class Wide(Raw):
        size = 10**16

        def __init__(self) -> None:
            self.dim = 3

    mechanism = MeanEmbedding(Wide(), 1e-100)
    mechanism._check_rounding(100, 1)
    with pytest.raises(UsageError, match="Rounding could"):
        mechanism._check_rounding(1000, 1)


def test_hundreds_of_millions_of_records_are_no_reason_to_refuse() -> None:
    for frequencies, records in ((2_000, 3 * 10**8), (20_000, 10**8)):
        MeanEmbedding(Fourier(2, frequencies, [1.0], 1), 5.0, labels=True)._check_rounding(records, 10)
    # whole numbers of 64 bits end at 2³¹ records, whatever the map promises
    with pytest.raises(UsageError, match="Rounding could"):
        MeanEmbedding(Raw(1), 1e-100)._check_rounding(2**31, 1)


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 40_001])
def test_norms_are_off_by_no_more_than_is_counted(size: int) -> None:
    phi = np.random.default_rng(size).normal(size=(20, size))
    found = _norms(torch.from_numpy(phi)).numpy()
    for row, norm in zip(phi, found, strict=True):
        exact = math.sqrt(math.fsum(Fraction(v) ** 2 for v in row) if size < 10 else math.fsum((row * row).tolist()))
        assert abs(norm / exact - 1.0) <= (math.sqrt(size) + 4.0) * 2.0**-53


@pytest.mark.parametrize("rows", [1, 3, 1000, 100_000])
def test_sums_are_exact_in_any_order_and_blocks(rows: int) -> None:
    """Against Python's whole numbers: values that a plain sum of doubles gets wrong in its last bits."""
    generator = np.random.default_rng(14)
    phi = generator.uniform(-1, 1, size=(100_000, 2))
    phi[::3] *= 1e-9
    order = generator.permutation(len(phi))
    sums = Sums(1, 2, torch.device("cpu"))
    for start in range(0, len(phi), rows) if rows > 3 else range(0, 3000, rows):
        part = torch.from_numpy(phi[order[start : start + rows]])
        sums.add(part, torch.ones(len(part), dtype=torch.float64), torch.zeros(len(part), dtype=torch.int64))
    taken = phi[order] if rows > 3 else phi[order[:3000]]
    for found, column in zip(sums.total()[0], taken.T, strict=True):
        # fsum rounds once; two roundings of the total are all there is here
        assert abs(found - math.fsum(column)) <= 2.0 * np.spacing(abs(found))


def test_one_record_more_moves_a_long_sum_by_its_own_row() -> None:
    """A million equal records, of which one is taken away from the front, so that every block changes."""
    features = Fourier(1, 4, [0.05], 1)
    mechanism = MeanEmbedding(features, 1.0)
    row = features.features(torch.full((1, 1), 0.123, dtype=torch.float64)).numpy()[0] * (1.0 - MARGIN)
    sums = []
    for n in (300_001, 300_000):
        records = Plain(np.full((n, 1), 0.123), adjacency=ADD)
        (summand,) = mechanism.summands(records.facts)
        sums.append(summand.floats(records.sums(summand))[0][0])
    # what is seen is the last bit of sums of 300,000, not an error that grew with them
    assert np.abs(sums[0] - sums[1] - row).max() <= 4.0 * 300_001 * 2.0**-53


class Network(torch.nn.Module):
    """A map that somebody left in training mode: every row is scaled by what stands beside it."""

    rounding = 2.0**-40
    dim = size = 2

    def __init__(self, layer: torch.nn.Module, doubled: bool = False) -> None:
        super().__init__()
        self.layer, self.doubled = layer.double(), doubled

    def features(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer(torch.cat([x, x]))[: len(x)] if self.doubled else self.layer(x)
        return 0.3 * torch.tanh(out)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "network"}


@pytest.mark.parametrize("doubled", [False, True])
def test_a_map_whose_rows_influence_each_other_is_refused_before_paying(doubled: bool) -> None:
    x = np.random.default_rng(0).uniform(size=(50, 2))
    vault = Vault(x, clip=1.0, adjacency="add-remove", budget=(1.0, 1e-5))
    network = Network(torch.nn.BatchNorm1d(2, affine=False), doubled)
    with pytest.raises(UsageError, match="feature map"):
        vault.release(MeanEmbedding(network, 4.0), purpose="training mode")
    with pytest.raises(UsageError, match="beside"):
        vault.release(MeanEmbedding(Network(torch.nn.Dropout(0.5)), 4.0), purpose="training mode")
    assert vault.release(MeanEmbedding(network.eval(), 4.0), purpose="evaluation mode").guarantee.epsilon() > 0.9


def test_a_rounding_stated_too_small_is_refused() -> None:
    class Boastful(Raw):
        def features(self, x: torch.Tensor) -> torch.Tensor:
            return 0.1 * torch.tanh(x) * (1.0 + 1e-9 * len(x))

    with pytest.raises(UsageError, match="beside"):
        MeanEmbedding(Boastful(3), 1.0).event(Facts(3, 10, 1.0, REPLACE))
    honest = Boastful(3)
    honest.rounding = 1e-8
    MeanEmbedding(honest, 1.0).event(Facts(3, 10, 1.0, REPLACE))


@pytest.mark.parametrize("sigma", [1e-3, 1e-2])
def test_no_sum_of_records_can_raise(sigma: float) -> None:
    """Sums beyond 2²¹·σ are clamped: whether they are that large is private."""
    for records in (1000, 30_000):
        x = np.zeros((records, 1))
        x[:, 0] = 5.0
        joint(MeanEmbedding(Raw(1), sigma), Plain(x), SystemNoise())


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


def test_nothing_is_paid_or_summed_while_somebody_looks_on() -> None:
    vault = Vault(np.eye(4), clip=1.0, adjacency="add-remove", budget=(1.0, 1e-5))
    mechanism = MeanEmbedding(Fourier(4, 8, [1.0], 1), 5.0)
    with Onlooker(), pytest.raises(UsageError, match="see records"):
        vault.release(mechanism, purpose="test")
    # nothing was paid: it still fits, once
    vault.release(mechanism, purpose="test")
