"""A sanitized gradient runs what it says it costs: one clip, one σ, one sampler, and nothing a sample could betray."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mechanism_samples import Plain

from privot.accounting import FixedSize, Gaussian, Poisson, Repeated, Sampled, gradient
from privot.errors import BudgetError, NoTheoremError, PrivotError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms import SanitizedGradient
from privot.mechanisms.clipping import MARGIN
from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery, clip_each, clip_whole
from privot.noise import SystemNoise
from privot.noise.adding import grid_of
from privot.transport import sinkhorn
from privot.transport._solvers.costs import with_labels
from privot.vault import Vault

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


class Stub:
    """Noise that is nearly none and samples that a test chooses; it writes down what it was asked."""

    standing = Standing.PROVEN
    assumptions = ()

    def __init__(self, sample: Any = None) -> None:
        self.sample, self.asked = sample, []

    def normal_tensor(self, shape: Any, sigma: float, device: Any, dtype: Any) -> torch.Tensor:
        self.asked.append(("normal", shape, sigma))
        return torch.zeros(shape, dtype=dtype)

    def sample_without_replacement(self, records: int, batch: int) -> np.ndarray:
        self.asked.append(("fixed", records, batch))
        return np.arange(batch) if self.sample is None else np.asarray(self.sample)

    def poisson_sample(self, records: int, rate: float) -> np.ndarray:
        self.asked.append(("poisson", records, rate))
        return np.arange(records) if self.sample is None else np.asarray(self.sample, dtype=np.int64)


def data(n: int = 12, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.uniform(size=(n, d)), np.arange(n) % 3


def query(n: int = 6, d: int = 5, labels: bool = True, dtype: Any = torch.float64) -> GradientQuery:
    x = torch.rand(n, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype) * 2 - 1
    return GradientQuery(x, torch.arange(n) % 3 if labels else None)


def make(**changes: Any) -> SanitizedGradient:
    usual = {"points": 6, "sigma": 1.0, "clip": 0.5, "sampling": Poisson(0.5), "capacity": 12, "reg": 0.5}
    return SanitizedGradient(**{**usual, "labels": True, **changes})


def answer(mechanism: SanitizedGradient, records: Plain, noise: Any, asked: GradientQuery, steps: int = 1) -> Any:
    told = mechanism.begin(records, noise, mechanism.event(records.facts))
    return [told(step, asked)[0] for step in range(steps)][-1]


@pytest.mark.slow
@pytest.mark.parametrize("sample", [[0, 3, 6, 1], [0, 1, 2], [2, 5], []])
def test_balanced_classes_move_each_to_its_own(sample: list[int]) -> None:
    """Against the converging solver, class by class: each class of the points weighs its share of those present."""
    x, y = data()
    asked = query()
    mechanism = make(clip=1e4, mixture=0.0, sweeps=3000, reg=2.0, balance=True, label_weight=1e3)
    value = answer(mechanism, Plain(x, y, A, 3), Stub(sample), asked)
    wanted = torch.zeros_like(asked.x)
    rows = 2.0 * torch.from_numpy(x[sample]) - 1.0
    present = np.isin(asked.labels.numpy(), y[sample])
    for c in set(y[sample].tolist()):
        own = asked.labels == c
        points = asked.x[own].clone().requires_grad_()
        sinkhorn(points, rows[y[sample] == c], 2.0, "sqeuclidean", 1e-10).value.backward()
        wanted[own] = 2.0 * points.grad * int(own.sum()) / int(present.sum())
    torch.testing.assert_close(value, wanted, rtol=1e-5, atol=1e-6)


def test_the_event_is_what_runs() -> None:
    x, y = data()
    for adjacency, sampling in ((A, Poisson(0.5)), (R, FixedSize(4, 12))):
        records, noise, mechanism = Plain(x, y, adjacency, 3), Stub(), make(sampling=sampling, sigma=3.0)
        event = mechanism.event(records.facts)
        assert event == Sampled(Gaussian(3.0, 1.0, adjacency), sampling)
        answer(mechanism, records, noise, query())
        drawn = ("poisson", 12, 0.5) if adjacency is A else ("fixed", 12, 4)
        assert sorted(noise.asked) == sorted([("normal", (1, 1, 6, 5), 3.0), drawn])
    # the plan that a budget is calibrated with is the same event
    plan = gradient(adjacency=R, delta=1e-5, sigma=3.0, records=12, batch=4, steps=7, clip=0.5, clipping="matrix")
    assert plan.event.event == event


class Turns(Stub):
    """One sample after another."""

    def poisson_sample(self, records: int, rate: float) -> np.ndarray:
        self.asked.append(("poisson", records, rate))
        return np.asarray(self.sample.pop(0), dtype=np.int64)


def test_each_of_several_samples_has_its_own_points_clip_and_noise() -> None:
    """Group by group what as many mechanisms of one sample answer, and charged as many times."""
    x, y = data()
    records, samples = Plain(x, y, A, 3), [[0, 3, 6, 1], [], [5, 7, 8]]
    asked, mechanism, noise = query(18), make(samples=3, sigma=3.0, balance=True), Turns([*samples])
    one = Sampled(Gaussian(3.0, 1.0, A), Poisson(0.5))
    assert mechanism.event(records.facts) == Repeated(one, 3)
    value = answer(mechanism, records, noise, asked)
    assert sorted(noise.asked) == sorted([("normal", (1, 3, 6, 5), 3.0), *[("poisson", 12, 0.5)] * 3])
    assert value.shape == (18, 5)
    for i, sample in enumerate(samples):
        rows = slice(6 * i, 6 * i + 6)
        own = GradientQuery(asked.x[rows], asked.labels[rows])
        alone = answer(make(sigma=3.0, balance=True), records, Stub(sample), own)
        torch.testing.assert_close(value[rows], alone, rtol=1e-9, atol=1e-12)
        # all of C each, not a share of it
        assert float(value[rows].norm()) == pytest.approx(0.5 if sample else 0.0, rel=1e-5)
    for event in (one, Repeated(one, 2), Repeated(one, 4)):
        with pytest.raises(UsageError, match="the event it made"):
            mechanism.begin(records, Stub(), event)
    with pytest.raises(UsageError, match="the event it made"):
        make().begin(records, Stub(), Repeated(one, 3))
    for wrong in (query(6), GradientQuery(asked.x, asked.labels[:6])):
        with pytest.raises(UsageError, match="18"):
            mechanism.check(wrong)


@pytest.mark.slow
def test_several_samples_a_step_cost_as_many_steps() -> None:
    x, y = data()
    spent = []
    for fields in ({"steps": 6}, {"steps": 2, "samples": 3}):
        vault = Vault(x, y, classes=3, clip=10.0, adjacency=A, budget=(50.0, 1e-5))
        spent.append(vault.stream(make(**fields), purpose="test").guarantee.epsilon())
    assert spent[0] == pytest.approx(spent[1], rel=1e-9)
    vault = Vault(x, y, classes=3, clip=10.0, adjacency=A, budget=(50.0, 1e-5))
    assert vault.stream(make(steps=2), purpose="test").guarantee.epsilon() < 0.9 * spent[0]


def test_sigma_and_clip_are_read_off_the_event() -> None:
    x, y = data()
    mechanism, noise = make(clip=100.0), Stub()
    event = Sampled(Gaussian(7.0, 2e-3, A), Poisson(0.5))
    value = mechanism.begin(Plain(x, y, A, 3), noise, event)(0, query())[0]
    assert noise.asked[-1] == ("normal", (1, 1, 6, 5), 7.0) or noise.asked[0] == ("normal", (1, 1, 6, 5), 7.0)
    assert float(value.norm()) == pytest.approx(1e-3, rel=1e-5)


@pytest.mark.parametrize("m", [0.0, 1.0])
def test_the_gradient_is_that_of_twice_the_regularised_cost_on_labelled_points(m: float) -> None:
    """Against the converging solver, on [x; 15·one-hot] in [−1, 1]."""
    x, y = data()
    asked = query()
    value = answer(make(clip=1e4, mixture=m, sweeps=2000, reg=2.0, sigma=1.0), Plain(x, y, A, 3), Stub(), asked)
    ours = with_labels(asked.x, asked.labels, 3, 15.0)
    theirs = with_labels(torch.from_numpy(2 * x - 1), torch.from_numpy(y), 3, 15.0)
    exact = 2.0 * sinkhorn(ours, theirs, 2.0, ("mixture", m), 1e-9).gradient[:, :5]
    torch.testing.assert_close(value, exact, rtol=1e-5, atol=1e-6)


def test_records_are_scaled_from_their_public_range_and_clamped() -> None:
    x, y = data()
    usual = answer(make(clip=1e4), Plain(x, y, A, 3), Stub(), query())
    wide = answer(make(clip=1e4, low=-3.0, high=7.0), Plain(10 * x - 3, y, A, 3), Stub(), query())
    torch.testing.assert_close(usual, wide, rtol=1e-4, atol=1e-6)
    far = x.copy()
    far[0], x[0] = 1e9, 1.0
    clamped = answer(make(clip=1e4), Plain(far, y, A, 3), Stub(), query())
    torch.testing.assert_close(clamped, answer(make(clip=1e4), Plain(x, y, A, 3), Stub(), query()))


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, (5, 3), elements=st.floats(-1e9, 1e9)),
    arrays(np.float64, 3, elements=st.floats(-1e9, 1e9)),
    st.sampled_from([1e-3, 0.5]),
    st.booleans(),
)
def test_neighbours_differ_by_no_more_than_is_counted(x: np.ndarray, other: np.ndarray, clip: float, add: bool) -> None:
    changed = np.concatenate([x, other[None]]) if add else np.concatenate([other[None], x[1:]])
    adjacency = A if add else R
    sampling = Poisson(1.0) if add else FixedSize(5, 5)
    mechanism = make(clip=clip, sampling=sampling, capacity=6, labels=False, sigma=2 * clip, sweeps=20)
    asked = query(6, 3, labels=False, dtype=torch.float32)
    first, second = (answer(mechanism, Plain(d, None, adjacency), Stub(), asked) for d in (x, changed))
    counted = mechanism.event(Plain(x, None, adjacency).facts).event.sensitivity
    assert float((first - second).norm()) <= counted
    for value in (first, second):
        assert float(value.norm()) <= clip


@settings(max_examples=100, deadline=None)
@given(arrays(np.float64, (3, 2, 2), elements=st.floats(width=64)), st.sampled_from([1e-8, 0.5, 1e8]))
def test_each_is_clipped_by_itself_whatever_the_others_hold(values: np.ndarray, clip: float) -> None:
    out = clip_each(torch.from_numpy(values), clip)
    for one, alone in zip(out, values, strict=True):
        assert torch.equal(one, clip_whole(torch.from_numpy(alone), clip))


def test_opposite_samples_reach_the_bound() -> None:
    mechanism = make(clip=0.25, labels=False, sampling=FixedSize(2, 2), points=6)
    asked = GradientQuery(torch.zeros(6, 3, dtype=torch.float64))
    ends = [answer(mechanism, Plain(np.full((2, 3), v), None, R), Stub(), asked) for v in (0.0, 1.0)]
    assert float((ends[0] - ends[1]).norm()) == pytest.approx(0.5 * (1 - MARGIN), rel=1e-6)


@pytest.mark.parametrize("sample", [[], [3], list(range(12)), [0, 1] * 30])
def test_any_sample_gives_an_answer_of_the_same_shape(sample: list[int]) -> None:
    """Empty, single, full and over-full: what leaves has the same shape, and an empty one is nothing but noise."""
    x, y = data()
    mechanism, noise = make(), Stub(sample)
    value = answer(mechanism, Plain(x, y, A, 3), noise, query())
    assert value.shape == (6, 5)
    assert bool(torch.isfinite(value).all())
    assert (float(value.norm()) == 0.0) == (sample == [])
    assert ("normal", (1, 1, 6, 5), 1.0) in noise.asked


def test_a_sample_beyond_the_capacity_is_cut_off() -> None:
    x, y = data()
    cut = answer(make(capacity=4), Plain(x, y, A, 3), Stub(), query())
    torch.testing.assert_close(cut, answer(make(capacity=4), Plain(x, y, A, 3), Stub([0, 1, 2, 3]), query()))
    assert not torch.allclose(cut, answer(make(), Plain(x, y, A, 3), Stub(), query()))


@pytest.mark.parametrize("reg", [1e-12, 1e-3, 1e12])
@pytest.mark.parametrize("sweeps", [1, 30])
def test_where_a_solver_would_not_converge_an_answer_leaves_all_the_same(reg: float, sweeps: int) -> None:
    x, y = data(12, 5)
    for dtype in (torch.float32, torch.float64):
        value = answer(make(reg=reg, sweeps=sweeps), Plain(x, y, A, 3), Stub(), query(dtype=dtype))
        assert bool(torch.isfinite(value).all())
        assert float(value.norm()) <= 0.5


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_query_that_is_no_number_is_answered_with_noise_alone(broken: float) -> None:
    x, y = data()
    bad = query()
    bad.x[2, 1] = broken
    assert float(answer(make(), Plain(x, y, A, 3), Stub(), bad).norm()) == 0.0


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, (4, 3), elements=st.floats(width=64)), st.sampled_from([1e-8, 0.5, 1e8]))
def test_the_whole_matrix_is_clipped_whatever_it_holds(values: np.ndarray, clip: float) -> None:
    out = clip_whole(torch.from_numpy(values), clip).numpy()
    assert np.isfinite(out).all()
    assert math.sqrt(math.fsum(float(v / clip) ** 2 for v in out.flat)) <= 1.0
    if np.isfinite(values).all() and np.abs(values).max() < clip / 4:
        assert np.array_equal(out, values)
    if not np.isfinite(values).all():
        assert not out.any()


def has_sigma(draws: torch.Tensor, sigma: float) -> bool:
    """Σx²/σ² is χ² with n degrees of freedom; five of its standard deviations either way."""
    n = draws.numel()
    return abs(float((draws / sigma).square().sum()) - n) < 5.2 * math.sqrt(2 * n)


@pytest.mark.slow
def test_the_noise_has_the_sigma_that_was_charged_and_two_thirds_of_it_are_noticed() -> None:
    """Through a vault, asked with the same query: what varies is the noise (and, by at most 2C, the sample)."""
    x, y = data()
    vault = Vault(x, y, classes=3, clip=1.0, adjacency=A, budget=(1e6, 1e-5))
    sigma = 200.0  # next to it C = 0.5 spread over 30 entries is nothing

    def drawn(sigma: float) -> torch.Tensor:
        stream = vault.stream(make(sigma=sigma, steps=60, sweeps=1), purpose="noise")
        return torch.stack([stream.answer(query()).value for _ in range(60)])

    assert has_sigma(drawn(sigma), sigma)
    assert not has_sigma(drawn(sigma * 2 / 3), sigma)


def test_every_step_has_noise_and_sample_of_its_own() -> None:
    x, y = data()
    vault = Vault(x, y, classes=3, clip=1.0, adjacency=A, budget=(1e6, 1e-5))
    stream = vault.stream(make(steps=3), purpose="three")
    values = [stream.answer(query()).value for _ in range(3)]
    assert len({v.numpy().tobytes() for v in values}) == 3
    grid = grid_of(1.0)
    for value in values:
        assert torch.equal(value / grid, (value / grid).round())


def test_a_stream_of_answers_ends_and_cannot_be_read_otherwise() -> None:
    x, y = data()
    vault = Vault(x, y, classes=3, clip=1.0, adjacency=A, budget=(1e6, 1e-5))
    with pytest.raises(UsageError, match="stream"):
        vault.release(make(), purpose="one")
    stream = vault.stream(make(steps=2), purpose="two")
    with pytest.raises(UsageError, match=r"use answer\(query\)"):
        next(stream)
    # a query that cannot be answered uses up nothing
    for bad in (
        None,
        query(5),
        query(labels=False),
        GradientQuery(query().x, torch.zeros(2)),
        GradientQuery(query().x[0]),
    ):
        with pytest.raises(UsageError):
            stream.answer(bad)
    first, second = stream.answer(query()), stream.answer(query())
    assert [r.public["step"] for r in (first, second)] == [0, 1]
    assert first.guarantee is stream.guarantee
    with pytest.raises(BudgetError, match="used up"):
        stream.answer(query())


def test_a_failure_inside_a_step_says_nothing_of_the_records(monkeypatch: Any) -> None:
    """A query of the wrong width passes the public check, and fails after the charge without quoting anything."""
    x, y = data()
    vault = Vault(x, y, classes=3, clip=1.0, adjacency=A, budget=(1e6, 1e-5))
    stream = vault.stream(make(steps=2), purpose="two")
    with pytest.raises(PrivotError, match="withheld") as caught:
        stream.answer(query(6, 4))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_points_of_more_columns_than_the_records_are_not_answered() -> None:
    """‖x−y‖² alone would take records of one column beside points of five, and one column of noise would serve all."""
    x, _ = data(12, 1)
    vault = Vault(x, clip=1.0, adjacency=A, budget=(1e6, 1e-5))
    stream = vault.stream(make(steps=2, mixture=0.0, labels=False), purpose="two")
    with pytest.raises(PrivotError, match="withheld"):
        stream.answer(query(6, 5, labels=False))
    assert stream.answer(query(6, 1, labels=False)).value.shape == (6, 1)


class Numbered(Stub):
    """Noise that says which draw it is: every number of the k-th step's worth is 8k."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = 0

    def normal_tensor(self, shape: Any, sigma: float, device: Any, dtype: Any) -> torch.Tensor:
        out = torch.empty(shape, dtype=dtype, device=device)
        for part in out:
            self.drawn += 1
            part.fill_(8.0 * self.drawn)
        return out


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_no_draw_of_noise_serves_two_answers(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where steps are recorded and noise is drawn ahead, seven steps' worth, and where a step fails."""
    monkeypatch.setattr("privot.mechanisms.gradients.batches.NORMALS_AHEAD", 7 * 30)
    x, y = data()
    mechanism = make(clip=0.5, steps=40, sweeps=6, device=device)
    told = mechanism.begin(Plain(x, y, A, 3), Numbered(), mechanism.event(Plain(x, y, A, 3).facts))
    asked, narrow = (query(6, d, dtype=torch.float32) for d in (5, 1))
    asked, narrow = (GradientQuery(q.x.to(device), q.labels.to(device)) for q in (asked, narrow))
    seen = []
    for step in range(40):
        if step % 9 == 4:
            with pytest.raises((RuntimeError, UsageError)):
                told(step, narrow)
            continue
        noisy = told(step, asked)[0]
        number = (noisy / 8.0).round()
        assert bool((number == number[0, 0]).all())
        assert float((noisy - 8.0 * number).norm()) <= 0.5
        seen.append(int(number[0, 0]))
    assert len(set(seen)) == len(seen) == 36


def test_what_has_no_theorem_or_no_room_is_refused_before_it_is_paid_for() -> None:
    x, y = data()
    facts = Plain(x, y, A, 3).facts
    with pytest.raises(NoTheoremError):
        make().event(Plain(x, y, R, 3).facts)
    with pytest.raises(UsageError, match="replace-one"):
        make(sampling=FixedSize(4, 12)).event(facts)
    with pytest.raises(UsageError, match="made for 11"):
        make(sampling=FixedSize(4, 11)).event(Plain(x, y, R, 3).facts)
    with pytest.raises(UsageError, match="too small"):
        make(sigma=1e-9).event(facts)
    with pytest.raises(UsageError, match="Rounding could outgrow the margin"):
        make(sigma=1e9, points=6).event(facts)


@pytest.mark.parametrize(
    "changes",
    [
        {"points": 0},
        {"sigma": 0.0},
        {"clip": 0.0},
        {"clip": math.nan},
        {"reg": 0.0},
        {"mixture": -1.0},
        {"mixture": 0.0, "square": 0.0},
        {"low": 1.0},
        {"capacity": None},
        {"sampling": 0.5},
        {"steps": 0},
    ],
)
def test_impossible_mechanisms_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        make(**changes)


def test_system_noise_is_what_a_vault_uses() -> None:
    value = answer(make(), Plain(*data(), A, 3), SystemNoise(), query())
    assert float(value.abs().max()) > 0.1


@pytest.mark.slow
def test_one_step_cannot_answer_many_queries_at_once() -> None:
    """Inside vmap a tensor stands for many, and one sample and one noise would serve them all."""
    x, _ = data()
    vault = Vault(x, clip=10.0, adjacency="add-remove", budget=(1e9, 1e-5))
    mechanism = SanitizedGradient(points=6, sigma=1.0, clip=1.0, sampling=Poisson(0.5), steps=3, capacity=12, sweeps=5)
    stream = vault.stream(mechanism, purpose="test")
    many = torch.rand(3, 6, 5, dtype=torch.float64)
    single = GradientQuery(many[0])
    with pytest.raises(UsageError, match="vmap"):
        torch.func.vmap(lambda each: stream.answer(GradientQuery(each)).value)(many)
    with pytest.raises(UsageError, match="grad"):
        torch.func.grad(lambda w: w * stream.answer(single).value.sum())(torch.ones(()))
    for _ in range(3):
        stream.answer(single)


def test_code_of_a_query_never_runs_beside_the_records() -> None:
    class Watching(torch.Tensor):
        pass

    class Asking(GradientQuery):
        pass

    mechanism = make()
    asked = query()
    with pytest.raises(UsageError, match="plain"):
        mechanism.check(GradientQuery(asked.x.as_subclass(Watching), asked.labels))
    with pytest.raises(UsageError, match="GradientQuery"):
        mechanism.check(Asking(asked.x, asked.labels))
    assert mechanism.check(asked).x.data_ptr() != asked.x.data_ptr()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1e-309), (-1.2e308, 1.2e308)])
def test_ranges_that_cannot_be_divided_by_are_refused(low: float, high: float) -> None:
    with pytest.raises(UsageError, match="range"):
        make(low=low, high=high)
