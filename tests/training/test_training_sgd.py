"""DP-SGD through the vault: releases are those that are counted, and the model learns."""

import copy
import itertools
import math
import random

import numpy as np
import pytest

from every_accountant import every_accountant
from privot import Adjacency, Standing, Vault
from privot.accounting import (
    BayesianAccountant,
    FixedSize,
    Gaussian,
    Poisson,
    PrivacyLossAccountant,
    RenyiAccountant,
    Sampled,
    WassersteinAccountant,
)
from privot.data.loading import load
from privot.errors import BudgetError, PrivotError, UnprovenError, UsageError
from privot.mechanisms import ClippedGradients
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.unproven.published_gradients import PublishedGradients
from privot.noise import SeededNoise
from privot.noise.adding import LARGEST_RATIO
from privot.training import train

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from privot.training.model_gradients import ModelGradients, draws_numbers, mixes_records  # noqa: E402
from privot.training.study_models import convolutional, linear  # noqa: E402


class Rows:
    """Gradients that are the rows themselves, so that everything can be computed by hand."""

    def __init__(self, size):
        self.size = size

    def each(self, weights, rows, labels):
        return rows * (1.0 + weights[0])

    def mean(self, weights, rows, labels):
        return rows.mean(axis=0) * (1.0 + weights[0])


def vault(x, y=None, budget=(1e9, 1e-5), adjacency="add-remove", **kw):
    y = np.zeros(len(x), dtype=int) if y is None else y
    return Vault(x, y, clip=1e3, classes=10, adjacency=adjacency, budget=budget, **kw)


def seeded(x, seed=1, **kw):
    return vault(x, noise=SeededNoise(seed), **kw)


@pytest.mark.statistical
def test_one_step_is_the_clipped_sum_plus_noise_of_the_stated_size(whole_run: bool):
    steps = 4000 if whole_run else 1000
    x = np.array([[3.0, 4.0], [0.3, 0.4], [-30.0, 0.0]])
    exact = np.array([0.6, 0.8]) + np.array([0.3, 0.4]) + np.array([-1.0, 0.0])
    mechanism = ClippedGradients(Rows(2), Query(np.zeros(2)), 0.5, 1.0, Poisson(1.0), steps)
    draws = np.array([r.value for r in vault(x).stream(mechanism, purpose="test")])
    # fresh noise in every run: six deviations are left in one run of 10⁸
    assert draws.mean(0) == pytest.approx(exact, abs=6 * 0.5 / math.sqrt(steps))
    squared = float(np.mean((draws - exact) ** 2))
    wide = 6 * math.sqrt(2 / (2 * steps))
    assert abs(squared / 0.25 - 1) < wide
    # and the test can tell two thirds of the noise from all of it
    assert abs(squared / (0.25 * 4 / 9) - 1) > wide


@pytest.mark.statistical
def test_a_sample_is_drawn_by_the_sampler_that_is_counted(whole_run: bool):
    """Rows of distinct powers show who took part: everybody, about a third of the time, on their own."""
    steps = 3000 if whole_run else 800
    x = np.eye(6)
    mechanism = ClippedGradients(Rows(6), Query(np.zeros(6)), 0.05, 1.0, Poisson(1 / 3), steps)
    there = np.array([r.value for r in vault(x).stream(mechanism, purpose="test")]) > 0.5
    assert there.mean(0) == pytest.approx(np.full(6, 1 / 3), abs=6 * math.sqrt(2 / 9 / steps))
    assert np.abs(np.corrcoef(there.T) - np.eye(6)).max() < 5.4 / math.sqrt(steps)
    assert (~there.any(axis=1)).any()  # empty samples are released too


def test_adding_a_record_moves_the_sum_by_at_most_the_clip():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(50, 5)) * 10.0 ** generator.uniform(-3, 3, (50, 1))
    mechanism = ClippedGradients(Rows(5), Query(np.zeros(5)), 1e-2, 1.0, Poisson(1.0), 1)
    whole = seeded(x).stream(mechanism, purpose="all", allow_unproven=True)
    less = seeded(x[:-1]).stream(mechanism, purpose="but one", allow_unproven=True)
    # the same seed gives the same noise, so the difference is that of the sums
    moved = np.linalg.norm(next(whole).value - next(less).value)
    assert 0.999 < moved <= 1.0
    event = mechanism.event(vault(x).facts)
    assert event == Sampled(Gaussian(1e-2, 1.0, Adjacency.ADD_REMOVE), Poisson(1.0))


@pytest.mark.slow
def test_replace_one_counts_twice_the_clip_and_draws_fixed_sizes():
    x = np.eye(6)
    v = vault(x, adjacency="replace-one")
    mechanism = ClippedGradients(Rows(6), Query(np.zeros(6)), 0.05, 1.0, FixedSize(2, 6), 200)
    assert mechanism.event(v.facts).event.sensitivity == 2.0
    there = np.array([r.value for r in v.stream(mechanism, purpose="test")]) > 0.5
    assert set(there.sum(axis=1)) == {2}


def test_a_gradient_that_is_not_finite_counts_as_zero():
    class Bad(Rows):
        def each(self, weights, rows, labels):
            out = rows.copy()
            out[rows[:, 0] > 5] = math.nan
            out[rows[:, 0] > 50] = 1e300
            return out

    x = np.array([[1.0, 0.0], [6.0, 0.0], [60.0, 0.0]])
    mechanism = ClippedGradients(Bad(2), Query(np.zeros(2)), 1e-3, 1.0, Poisson(1.0), 1)
    value = next(vault(x).stream(mechanism, purpose="test")).value
    assert np.isfinite(value).all()
    assert value[0] == pytest.approx(1.0, abs=0.01)


def test_a_large_sum_is_cut_rather_than_refused():
    """3000 aligned gradients against σ = 1e-3: the sum exceeds what noise is added to, and the release still comes."""
    x = np.tile([1.0, 0.0], (3000, 1))
    mechanism = ClippedGradients(Rows(2), Query(np.zeros(2)), 1e-3, 1.0, Poisson(1.0), 1)
    value = next(vault(x).stream(mechanism, purpose="test")).value[0]
    assert value == pytest.approx(LARGEST_RATIO * 1e-3, abs=0.01)


@pytest.mark.slow
def test_gradients_are_taken_at_the_weights_the_loop_sets():
    query = Query(np.zeros(2))
    mechanism = ClippedGradients(Rows(2), query, 0.05, 10.0, Poisson(1.0), 2)
    stream = vault(np.array([[3.0, 0.0], [0.0, 0.0]])).stream(mechanism, purpose="test")
    first = next(stream).value[0]
    query.set(np.array([1.0, 0.0]))
    assert next(stream).value[0] == pytest.approx(2 * first, abs=0.6)
    with pytest.raises(UsageError):
        query.set(np.zeros(3))
    with pytest.raises(UsageError):
        query.set(np.array([math.inf, 0.0]))


def digits():
    data = load("digits")
    return data.x[:1400], data.y[:1400], data.x[1400:], data.y[1400:]


def test_it_learns_and_the_budget_is_the_accountants():
    x, y, xt, yt = digits()
    gradients = ModelGradients(linear(64, 10), (64,))
    accountants = every_accountant(40)
    result = train(
        vault(x, y, budget=(3.0, 1e-5)),
        gradients,
        gradients.weights(),
        sigma=1.5,
        clip_norm=1.0,
        sampling_rate=0.1,
        steps=40,
        expected_batch_size=140.0,
        learning_rate=2.0,
        momentum=0.5,
        purpose="test",
        accountants=accountants,
    )
    assert gradients.accuracy(result.weights, xt, yt) > 0.75
    assert result.guarantee.standing is Standing.PROVEN
    counts = {c.accountant: c for c in result.counts(1e-5)}
    assert counts["privacy loss"].epsilon == pytest.approx(result.guarantee.epsilon(1e-5), rel=1e-9)
    assert counts["privacy loss"].epsilon < counts["Rényi"].epsilon < counts["moments"].epsilon
    assert all(a.steps == 40 for a in accountants)


def test_the_budget_refuses_before_any_record_is_read():
    x, y, *_ = digits()
    gradients = ModelGradients(linear(64, 10), (64,))
    accountant = PrivacyLossAccountant()
    with pytest.raises(BudgetError):
        train(
            vault(x, y, budget=(0.1, 1e-5)),
            gradients,
            gradients.weights(),
            sigma=0.5,
            clip_norm=1.0,
            sampling_rate=0.1,
            steps=40,
            expected_batch_size=140.0,
            learning_rate=1.0,
            purpose="test",
            accountants=[accountant],
        )
    assert accountant.steps == 0


def test_accountants_that_use_gradients_make_the_run_unproven():
    x, y, *_ = digits()
    gradients = ModelGradients(linear(64, 10), (64,))
    settings = {
        "sigma": 1.0,
        "clip_norm": 1.0,
        "sampling_rate": 0.05,
        "steps": 5,
        "expected_batch_size": 70.0,
        "learning_rate": 1.0,
        "purpose": "test",
    }

    def witnesses():
        return [
            BayesianAccountant(5, allow_unproven=True),
            WassersteinAccountant(allow_unproven=True),
            RenyiAccountant(),
        ]

    with pytest.raises(UnprovenError):
        train(vault(x, y), gradients, gradients.weights(), accountants=witnesses(), **settings)
    counting = witnesses()
    result = train(vault(x, y), gradients, gradients.weights(), accountants=counting, allow_unproven=True, **settings)
    assert result.guarantee.standing is Standing.UNPROVEN
    assert [a.steps for a in counting] == [5, 5, 5]
    # distances of clipped gradients never exceed the clip
    worst = BayesianAccountant(5, allow_unproven=True)
    worst.step(counting[2].event, [1.0, 1.0, 1.0])
    assert counting[0].epsilon(1e-5) <= worst.epsilon(1e-5) * (1 + 1e-9)
    with pytest.raises(UsageError):
        ClippedGradients(gradients, Query(gradients.weights()), 1.0, 1.0, Poisson(0.1), 5, (RenyiAccountant(),))


def test_the_published_variant_is_charged_for_what_whole_clipping_allows(whole_run: bool):
    x, y, *_ = digits()
    gradients = ModelGradients(linear(64, 10), (64,))
    counting = [WassersteinAccountant(allow_unproven=True), PrivacyLossAccountant()]
    settings = {
        "sigma": 0.01,
        "clip_norm": 1.0,
        "sampling_rate": 0.05,
        # the law of several such steps, whose ε is in the tens of thousands, takes seconds
        "steps": 4 if whole_run else 1,
        "learning_rate": 0.1,
        "purpose": "test",
        "variant": "published",
    }
    with pytest.raises(UnprovenError):
        train(vault(x, y), gradients, gradients.weights(), **settings)
    result = train(vault(x, y), gradients, gradients.weights(), allow_unproven=True, accountants=counting, **settings)
    assert result.guarantee.standing is Standing.UNPROVEN
    # σ = 0.01 against a sensitivity of 2: ε above ten thousand, where the published accountant says below 1
    assert result.guarantee.epsilon(1e-5) > 1e4
    assert counting[0].epsilon(1e-5) < 1.0
    assert {c.standing for c in result.counts(1e-5)} == {Standing.UNPROVEN}


def test_the_published_variant_is_sparse_and_clipped_as_a_whole():
    x = np.tile(np.linspace(1, 2, 50), (4, 1))
    mechanism = PublishedGradients(Rows(50), Query(np.zeros(50)), 0.1, 1.0, Poisson(1.0), 400, keep=0.25)
    values = np.array([r.value for r in vault(x).stream(mechanism, purpose="test", allow_unproven=True)])
    kept = values != 0.0
    assert kept.mean() == pytest.approx(0.25, abs=6 * math.sqrt(0.1875 / 20_000))
    whole = x[0] / np.linalg.norm(x[0])
    means = values.sum(axis=0) / kept.sum(axis=0)
    assert np.abs(means - whole).max() < 6 * 0.1 / math.sqrt(80)
    assert values[kept].std() == pytest.approx(0.1, rel=0.1)
    with pytest.raises(UsageError):
        PublishedGradients(Rows(2), Query(np.zeros(2)), 1.0, 1.0, Poisson(0.1), keep=0.0)


def test_per_example_gradients_are_those_of_one_record_at_a_time():
    model = convolutional("group", side=28, width=8)
    gradients = ModelGradients(model, (1, 28, 28))
    generator = np.random.default_rng(0)
    rows, labels = generator.random((4, 784)), np.array([1, 2, 3, 4])
    each = gradients.each(gradients.weights(), rows, labels)
    for i in range(4):
        alone = gradients.mean(gradients.weights(), rows[i : i + 1], labels[i : i + 1])
        assert np.allclose(each[i], alone, atol=1e-5)
    # a neighbour in the batch changes nothing
    other = rows.copy()
    other[1:] = generator.random((3, 784))
    assert np.allclose(gradients.each(gradients.weights(), other, labels)[0], each[0], atol=1e-6)
    assert np.allclose(each.mean(0), gradients.mean(gradients.weights(), rows, labels), atol=1e-5)
    assert gradients.each(gradients.weights(), rows[:0], labels[:0]).shape == (0, gradients.size)


def test_layers_that_mix_a_batch_are_refused():
    model = convolutional("batch", width=8)
    assert len(mixes_records(model)) == 2
    with pytest.raises(UsageError, match="group normalisation"):
        ModelGradients(model, (1, 28, 28))
    allowed = ModelGradients(model, (1, 28, 28), batch_statistics=True)
    with pytest.raises(UsageError):
        allowed.each(allowed.weights(), np.zeros((2, 784)), np.zeros(2, dtype=int))
    assert allowed.mean(allowed.weights(), np.random.default_rng(0).random((4, 784)), np.zeros(4, dtype=int)).any()
    assert mixes_records(nn.Sequential(nn.InstanceNorm2d(3, track_running_stats=True))) == ["0"]


def test_models_are_repeatable_and_leave_torchs_generator_alone():
    state = torch.random.get_rng_state()
    a, b, c = (ModelGradients(convolutional(seed=s), (1, 28, 28)).weights() for s in (3, 3, 4))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert a.size == 573_834  # what the authors' program notes beside its gradients


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"learning_rate": 0.0},
        {"expected_batch_size": None},
        {"variant": "both"},
        {"clip_norm": 0.0},
        {"sigma": 0.0},
    ],
)
def test_wrong_settings_are_refused(wrong):
    settings = {"sigma": 1.0, "clip_norm": 1.0, "sampling_rate": 0.5, "steps": 1, "expected_batch_size": 1.0}
    settings |= {"learning_rate": 1.0, "purpose": "test"}
    with pytest.raises(UsageError):
        train(vault(np.eye(4)), Rows(4), np.zeros(4), **{**settings, **wrong})


def test_a_gradient_of_the_wrong_shape_fails_without_showing_a_record():
    class Wrong(Rows):
        def each(self, weights, rows, labels):
            return rows[:, :1] if self.size == 5 or rows[0, 0] == 1.0 else rows

    held = vault(np.eye(4))
    mechanism = ClippedGradients(Wrong(4), Query(np.zeros(4)), 1.0, 1.0, Poisson(1.0), 1)
    with pytest.raises(PrivotError, match="withheld"):
        next(held.stream(mechanism, purpose="test"))
    # seen on public rows already, it costs nothing
    mechanism = ClippedGradients(Wrong(5), Query(np.zeros(5)), 1.0, 1.0, Poisson(1.0), 1)
    with pytest.raises(UsageError, match="one row per record"):
        held.stream(mechanism, purpose="test")


class ByPlace(Rows):
    def each(self, weights, rows, labels):
        return rows * (1.0 + 0.01 * np.arange(len(rows)))[:, None]


class ByCompany(Rows):
    def each(self, weights, rows, labels):
        return rows - 0.05 * rows.mean(axis=0)


class Failing(Rows):
    def each(self, weights, rows, labels):
        raise RuntimeError(f"secret {rows}")


class ByBlock(Rows):
    """A mask for every sixteen places."""

    def each(self, weights, rows, labels):
        factors = np.random.default_rng(3).uniform(0.5, 1.5, size=len(rows) // 16)
        return rows * np.repeat(factors, 16)[:, None]


class ByLabels(Rows):
    """Weights from how often a label occurs in the batch."""

    def each(self, weights, rows, labels):
        return rows / np.bincount(labels, minlength=10)[labels][:, None]


class Hidden0(Rows):
    """By place, but for the first weights, where all gradients are 0."""

    def each(self, weights, rows, labels):
        return rows * weights[0] * (1.0 + 0.01 * np.arange(len(rows)))[:, None]


class Remembers(Rows):
    calls = 0

    def each(self, weights, rows, labels):
        self.calls += 1
        return rows * (1.0 + 0.01 * self.calls)


class Draws(Rows):
    """One draw a call, from a generator that everybody shares; mostly it changes nothing."""

    def each(self, weights, rows, labels):
        return rows * (2.0 if self.draw() < 1e-9 else 1.0)

    def draw(self):
        return random.random()


class DrawsNumpy(Draws):
    def draw(self):
        return np.random.random()


class DrawsTorch(Draws):
    def draw(self):
        return float(torch.rand(()))


@pytest.mark.parametrize(
    "kind",
    [ByPlace, ByCompany, Failing, ByBlock, ByLabels, Hidden0, Remembers, Draws, DrawsNumpy, DrawsTorch],
)
def test_gradients_that_are_not_of_one_record_are_refused_before_paying(kind):
    held = vault(np.eye(4), budget=(1.0, 1e-5))
    mechanism = ClippedGradients(kind(4), Query(np.zeros(4)), 50.0, 1.0, Poisson(0.5), 1)
    with pytest.raises(UsageError, match=r"place|without random numbers") as caught:
        held.stream(mechanism, purpose="test")
    assert "secret" not in str(caught.value)
    # nothing was paid: what takes nearly all of the budget still fits
    next(held.stream(ClippedGradients(Rows(4), Query(np.zeros(4)), 4.0, 1.0, Poisson(1.0), 1), purpose="test"))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Dropout(0.5),
        nn.AlphaDropout(0.1),
        nn.RReLU(),
        nn.LSTM(8, 8, 2, dropout=0.1),
        nn.MultiheadAttention(8, 2, 0.1),
    ],
)
def test_layers_that_draw_random_numbers_are_refused(layer):
    model = nn.Sequential(nn.Linear(8, 8), layer, nn.Linear(8, 2))
    assert draws_numbers(model) == ["1"]
    with pytest.raises(UsageError, match="random numbers"):
        ModelGradients(model, (8,))
    assert draws_numbers(nn.Sequential(nn.Linear(8, 8), nn.LSTM(8, 8), nn.ReLU(), nn.Dropout(0.0))) == []


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.last = nn.Embedding(5, 4), nn.Linear(12, 10)

    def forward(self, x):
        return self.last(self.words(x.long()).flatten(1))


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Dropout(0.0), nn.ReLU(), nn.Linear(8, 10)),
        nn.Sequential(nn.Linear(3, 8), nn.GroupNorm(2, 8), nn.Tanh(), nn.Linear(8, 10)),
        Tokens(),
    ],
)
def test_valid_models_are_accepted(model, single):
    gradients = ModelGradients(copy.deepcopy(model), (3,), single=single)
    mechanism = ClippedGradients(gradients, Query(gradients.weights()), 1.0, 1.0, Poisson(1.0), 1)
    next(vault(np.ones((5, 3))).stream(mechanism, purpose="test"))


def test_a_model_of_unknown_size_is_refused():
    with pytest.raises(UsageError, match="public rows"):
        ModelGradients(nn.Sequential(nn.LazyLinear(4)), (8,))


def test_dropout_that_no_layer_shows_is_refused_before_paying():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 2)

        def forward(self, x):
            return self.last(nn.functional.dropout(x, 0.5, self.training))

    gradients = ModelGradients(Hidden(), (8,))
    mechanism = ClippedGradients(gradients, Query(gradients.weights()), 1.0, 1.0, Poisson(1.0), 1)
    with pytest.raises(UsageError, match="random numbers"):
        vault(np.ones((5, 8))).stream(mechanism, purpose="test")
    # for the published variant, which bounds the whole mean, a layer may draw
    allowed = ModelGradients(nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 2)), (8,), batch_statistics=True)
    assert allowed.mean(allowed.weights(), np.ones((4, 8)), np.zeros(4, dtype=int)).any()
    with pytest.raises(UsageError, match="dropout"):
        allowed.each(allowed.weights(), np.ones((4, 8)), np.zeros(4, dtype=int))


def test_published_pairs_are_those_of_left_out_records():
    """Eight leave-one-out gradients make 28 pairs; the accountant is counting the smallest's loss."""
    counting = WassersteinAccountant(2.0, allow_unproven=True)
    x = np.diag(np.arange(1.0, 11.0)) / 50
    mechanism = PublishedGradients(
        Rows(10), Query(np.zeros(10)), 1e-3, 1.0, Poisson(1.0), 1, keep=1.0, witnesses=(counting,)
    )
    next(vault(x).stream(mechanism, purpose="test", allow_unproven=True))
    left = [np.delete(x, j, axis=0).mean(0) for j in range(8)]
    least = min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(left, 2))
    assert counting.loss == pytest.approx(math.sqrt(least**2 + 2e-6), rel=1e-6)


def test_clipped_sums_agree_wherever_the_gradients_lie():
    from privot.mechanisms.gradients.clipped_sums import clipped_sum, float_of

    rows = np.random.default_rng(0).normal(size=(40, 7)) * np.logspace(-3, 3, 40)[:, None]
    rows[3], rows[4, 2], rows[5], rows[6, 1] = np.nan, np.inf, 1e300, -np.inf
    expected = np.zeros(7)
    for row in rows:
        if np.isfinite(row).all() and np.linalg.norm(row) < np.inf:
            expected += row * min(1.0, 0.5 / np.linalg.norm(row))
    for given in (rows, torch.from_numpy(rows)):
        whole, norms = clipped_sum(given, 0.5)
        # each of 40 gradients is cut to whole numbers of a unit below 2⁻³²
        assert float_of(whole, 0.5) == pytest.approx(expected, abs=40 * 2.0**-32)
        assert norms.max() <= 0.5 * (1 + 1e-12)
        assert norms[[3, 4, 5, 6]].tolist() == [0.0] * 4


def test_a_record_moves_only_its_own_gradient_even_at_a_kink():
    """A record on the kink of a ReLU: among other rows its last bit, and so its whole gradient, might change."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100, 8), nn.ReLU(), nn.Linear(8, 10)).double()
    x, z, w = np.random.default_rng(1).normal(size=(3, 100))
    with torch.no_grad():
        model[0].bias.copy_(-(model[0].weight @ torch.from_numpy(x)))
    gradients = ModelGradients(model, (100,))

    def total(rows):
        mechanism = ClippedGradients(gradients, Query(gradients.weights()), 1e-4, 1e-3, Poisson(1.0), 1)
        return next(iter(vault(rows).stream(mechanism, purpose="test"))).value

    apart = np.linalg.norm(total(np.array([x, w, z])) - total(np.array([x, w])))
    noise = 1e-4 * math.sqrt(2 * gradients.size)
    assert apart <= 1e-3 + 1.2 * noise


def test_samples_made_for_other_records_are_refused_before_paying():
    held = vault(np.ones((5, 2)), adjacency="replace-one")
    with pytest.raises(UsageError, match="public number of records"):
        held.stream(ClippedGradients(Rows(2), Query(np.zeros(2)), 1.0, 1.0, FixedSize(3, 99), 1), purpose="test")


@pytest.mark.parametrize("kind", [ClippedGradients, PublishedGradients])
@pytest.mark.parametrize("clip", [0.0, -1.0, math.nan, math.inf, True])
def test_a_clipping_bound_that_bounds_nothing_is_refused(kind, clip):
    with pytest.raises(UsageError, match="clipping bound"):
        kind(Rows(2), Query(np.zeros(2)), 1.0, clip, Poisson(0.5))


def test_a_target_epsilon_calibrates_the_noise_and_is_what_the_vault_charges():
    x = np.random.default_rng(0).normal(size=(200, 3))
    terms = {"clip_norm": 1.0, "sampling_rate": 0.1, "steps": 5, "learning_rate": 0.1, "expected_batch_size": 20.0}
    y = np.zeros(200, dtype=np.int64)
    vault = Vault(x, y, classes=2, clip=5.0, adjacency="add-remove", budget=(2.0, 1e-5))
    made = train(vault, Rows(3), np.zeros(3), target_epsilon=1.0, delta=1e-5, purpose="target", **terms)
    assert 0.99 < made.guarantee.epsilon(1e-5) <= 1.0
    for wrong in ({}, {"target_epsilon": 1.0}, {"sigma": 1.0, "target_epsilon": 1.0, "delta": 1e-5}):
        with pytest.raises(UsageError, match="target_epsilon"):
            train(vault, Rows(3), np.zeros(3), purpose="target", **terms, **wrong)
    with pytest.raises(UsageError, match="honest variant"):
        train(
            vault, Rows(3), np.zeros(3), target_epsilon=1.0, delta=1e-5, variant="published", purpose="target", **terms
        )
