"""The ledger against an adaptive analyst: one who chooses each next event, by what was released, to do worst.

What such an analyst reaches is computed exactly, by backward induction on a grid of privacy losses: before the last
event it is worth V(L) = max over accepted events of E V'(L + ℓ), and stopping is worth (1 − e^{ε − L})₊. The
laws of ℓ are those of another accountant, on pairs that dominate.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_samples import ADD
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from scipy.stats import norm

from privot.accounting import Composed, Gaussian, Laplace, Poisson, Repeated, Sampled, account
from privot.accounting.accountant import deltas
from privot.accounting.events import Event, PerUnit, leaves
from privot.accounting.laws import gaussian
from privot.accounting.privacy_filter import NOTHING, Counted, PrivacyFilter, dominating_shift
from privot.errors import BudgetError, UsageError
from privot.ledger import Ledger
from privot.ledger.ledger_rows import CHARGE, canonical
from privot.ledger.tally import beyond, budgets_of, filter_of
from privot.vault.budget import MemoryBudget

Array = NDArray[np.float64]
EPSILON, DELTA, GRID = 1.0, 1e-5, 1e-3
LOSSES = GRID * np.arange(-9000, 9001)
Accepts = Callable[[Sequence[Event]], bool]


def gaussian_of(shift: float) -> Event:
    return Gaussian(1.0 / shift, 1.0, ADD)


def laplace_of(epsilon: float) -> Event:
    return Laplace(1.0 / epsilon, 1.0, ADD)


def sampled(share: float, sigma: float, steps: int) -> Event:
    return Repeated(Sampled(Gaussian(sigma, 1.0, ADD), Poisson(share)), steps)


def law(event: Event) -> tuple[Array, int, float]:
    """P(ℓ) on the grid, the first loss's number and the mass at infinity, by another accountant."""
    ((step, times),) = leaves(event)
    grid = {"value_discretization_interval": GRID}
    if isinstance(step, Laplace):
        found = pld.from_laplace_mechanism(step.scale, step.sensitivity, **grid)
    elif isinstance(step, Sampled):
        assert isinstance(step.event, Gaussian)
        found = pld.from_gaussian_mechanism(step.event.sigma, sampling_prob=step.sampling.share, **grid)
    else:
        assert isinstance(step, Gaussian)
        found = pld.from_gaussian_mechanism(step.sigma, step.sensitivity, **grid)
    mass = found.self_compose(times)._pmf_remove.to_dense_pmf()
    return np.asarray(mass._probs), int(mass._lower_loss), float(mass._infinity_mass)


def worth(event: Event, later: Array) -> Array:
    """E V'(L + ℓ) at every loss L of the grid; beyond the grid V' is 1, and below its value at the lowest loss."""
    probs, lowest, infinite = law(event)
    padded = np.concatenate([np.full(len(LOSSES), later[0]), later, np.ones(len(LOSSES))])
    found = fftconvolve(padded, probs[::-1], mode="full")
    first = len(LOSSES) + lowest + len(probs) - 1
    return np.maximum(found[first : first + len(LOSSES)], 0.0) + infinite


def reached(first: Event, menus: Sequence[Callable[[Sequence[Event]], list[Event]]]) -> float:
    """δ at ε of the analyst who begins with `first` and then chooses from each of `menus`, or stops."""
    stop = np.maximum(0.0, -np.expm1(EPSILON - LOSSES))

    def best(path: list[Event], depth: int) -> Array:
        if depth == len(menus):
            return stop
        value = stop
        for event in menus[depth](path):
            value = np.maximum(value, worth(event, best([*path, event], depth + 1)))
        return value

    return float(worth(first, best([first], 0))[len(LOSSES) // 2])


def largest(make: Callable[[float], Event], path: Sequence[Event], accepts: Accepts, high: float) -> Event:
    """The largest event of a kind that may still follow `path`."""
    low = 0.0
    for _ in range(16):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if accepts([*path, make(middle)]) else (low, middle)
    return make(low) if low > 0.0 else gaussian_of(1e-6)


def composes(path: Sequence[Event]) -> bool:
    """The rule that adds up what happened."""
    return account(Composed(tuple(path)), DELTA).epsilon() <= EPSILON


def passes(path: Sequence[Event]) -> bool:
    """The rule of the ledger."""
    spent = PrivacyFilter(EPSILON, DELTA)
    for event in path:
        if spent.with_next(event) > EPSILON:
            return False
        spent = spent.after(event)
    return True


@pytest.fixture
def charged(tmp_path: Path) -> Iterator[Callable[[Sequence[Event]], None]]:
    """Charges a path to a new ledger, which refuses what does not fit."""
    books: list[Ledger] = []

    def charge(path: Sequence[Event]) -> None:
        books.append(Ledger.create(tmp_path / f"{len(books)}.ledger"))
        name = books[-1].fingerprint({"x": np.zeros(1)})
        books[-1].set_budget(name, EPSILON, DELTA, ADD, "clinic")
        for event in path:
            books[-1].charge(name, event, "adaptive")

    yield charge
    for book in books:
        book.close()


def kinds(accepts: Accepts) -> Callable[[Sequence[Event]], list[Event]]:
    return lambda path: [largest(make, path, accepts, 2.0) for make in (gaussian_of, laplace_of)]


@pytest.mark.slow
def test_the_adaptive_analyst_breaks_the_sum_and_not_the_ledger(charged: Callable[[Sequence[Event]], None]) -> None:
    first = gaussian_of(0.1)
    # each path costs at most the budget when it is composed, and yet
    assert reached(first, [kinds(composes)]) == pytest.approx(1.96e-5, rel=0.02)
    assert reached(first, [kinds(passes)]) <= DELTA * 1.002
    for event in kinds(passes)([first]):
        charged([first, event])
    with pytest.raises(BudgetError):
        charged([first, kinds(composes)([first])[1]])


def test_an_analyst_who_stays_with_gaussians_gets_all_of_the_budget() -> None:
    def only(path: Sequence[Event]) -> list[Event]:
        return [largest(gaussian_of, path, passes, 2.0)]

    assert reached(gaussian_of(0.1), [only]) == pytest.approx(DELTA, rel=5e-3)


@pytest.mark.gate(1)
@pytest.mark.slow
@pytest.mark.parametrize("first", [gaussian_of(0.08), sampled(0.01, 2.0, 300), laplace_of(0.05)], ids=str)
def test_an_analyst_of_three_steps_and_kinds(first: Event) -> None:
    def menu(share: float) -> Callable[[Sequence[Event]], list[Event]]:
        def choose(path: Sequence[Event]) -> list[Event]:
            all_of_it = kinds(passes)(path)
            steps = [n for n in (2000, 1000, 500, 200, 50) if passes([*path, sampled(0.01, 1.2, n)])][:1]
            whole = [*all_of_it, *(sampled(0.01, 1.2, n) for n in steps)]
            return whole if share == 1.0 else [gaussian_of(0.1), laplace_of(0.1), sampled(0.01, 1.2, 50), *whole]

        return choose

    assert reached(first, [menu(0.5), menu(1.0)]) <= DELTA * 1.01


def test_lost_mass_and_shift_may_not_be_traded_after_the_fact() -> None:
    # the first release is G_a; where its loss is small the analyst takes an event that tells all with probability λ,
    # where it is large a Gaussian: each path passes "ε of √Σµ² at δ − Σλ", and yet
    a, lost = 0.1, 0.9 * DELTA
    b = math.sqrt(gaussian.largest_shift(EPSILON, DELTA) ** 2 - a**2)
    losses = np.linspace(-1.0, 1.5, 200_001)
    weights = norm.pdf(losses, a * a / 2.0, a) * (losses[1] - losses[0])
    after = np.clip(EPSILON - losses, 0.0, None)
    value = np.maximum(gaussian.delta(b, after), lost)
    assert float(weights @ value) > 1.3 * DELTA
    assert gaussian.epsilon(a, DELTA - lost) < EPSILON
    # the ledger's share is fixed by the first event
    spent = PrivacyFilter(EPSILON, DELTA).after(gaussian_of(a))
    assert spent.with_next(laplace_of(1.0), Counted(0.0, lost)) == math.inf
    assert spent.with_next(laplace_of(1.0), Counted(0.0, 1e-9)) < EPSILON


@pytest.mark.slow
@pytest.mark.gate(2)
@pytest.mark.parametrize(
    ("event", "lost"),
    [(sampled(0.02, 1.0, 400), 1e-6), (sampled(0.3, 3.0, 20), 1e-7), (laplace_of(0.7), 0.0), (laplace_of(2.0), 1e-4)],
    ids=str,
)
def test_the_dominating_gaussian_lies_above_another_accountants_curve(event: Event, lost: float) -> None:
    shift = dominating_shift(event, lost)
    ((step, times),) = leaves(event)
    grid = {"value_discretization_interval": 1e-4}
    if isinstance(step, Laplace):
        found = pld.from_laplace_mechanism(step.scale, step.sensitivity, **grid)
    else:
        found = pld.from_gaussian_mechanism(step.event.sigma, sampling_prob=step.sampling.share, **grid)  # type: ignore
    at = np.linspace(0.0, 6.0, 601)
    theirs = np.array(found.self_compose(times).get_delta_for_epsilon(list(at)))
    above = gaussian.delta(shift, at) + lost - theirs
    assert float(above.min()) >= -1e-3 * lost - 1e-12
    # and no smaller one does
    below = gaussian.delta(0.999 * shift, at) + lost - theirs
    assert float(below.min()) < 0.0


def test_a_whole_curve_is_read_as_its_points_are() -> None:
    event = Composed((sampled(0.02, 0.8, 300), laplace_of(0.2), gaussian_of(0.3)))
    curve = account(event, DELTA).curve
    at = np.linspace(0.0, curve.epsilon(1e-7), 60)
    read = deltas(event, at.tolist())
    assert bool(np.all(np.diff(read) <= 0.0))
    for place in (0, 7, 30, 59):
        assert read[place] == pytest.approx(curve.delta(float(at[place])), rel=5e-3)


@pytest.mark.slow
def test_reservations_are_drawn_on_and_nothing_else_is(ledger: Ledger, data: str) -> None:
    whole, mark = sampled(0.01, 1.0, 200), "(job 0123"
    block = sampled(0.01, 1.0, 50)
    ledger.raise_budget(data, 5.0, "a test", i_am_the_steward=True)
    assert ledger.reserve(data, whole, "training (job 0123)", mark) is not None
    spent = ledger.spent(data)
    assert spent is not None
    assert spent.epsilon() == pytest.approx(account(whole, DELTA).epsilon())
    for number in range(4):
        assert ledger.charge(data, block, f"training (job 0123, block {number})").reserved
    assert ledger.spent(data) == spent
    # a second time nothing is reserved, and beyond it and for others everything is paid
    assert ledger.reserve(data, block, "training (job 0123)", mark) is None
    assert not ledger.charge(data, block, "training (job 0123, block 5)").reserved
    assert not ledger.charge(data, block, "training (job 4567, block 1)").reserved
    assert len(ledger.reservations(data)) == 1
    assert len(ledger.entries(data)) == 6
    assert ledger.verify() == 10
    with pytest.raises(UsageError, match="carries the mark"):
        ledger.reserve(data, block, "training", mark)


@pytest.mark.parametrize("where", ["memory", "ledger"])
def test_a_reservation_pays_for_itself_whatever_others_reserved(where: str, ledger: Ledger, data: str) -> None:
    event = gaussian_of(0.1)
    kept = MemoryBudget(EPSILON, DELTA, ADD, None)

    def reserve(purpose: str, mark: str) -> None:
        if where == "ledger":
            ledger.reserve(data, event, purpose, mark)
        else:
            kept.reserve(event, purpose, mark)

    def left() -> float:
        if where == "ledger":
            return ledger.remaining(data)
        return filter_of(kept._rows, budgets_of(kept._rows)[0]).left

    reserve("job a", "job a")
    for number in range(2):
        before = left()
        reserve(f"job a free{number}", f"free{number}")
        assert left() < before


def test_a_budget_in_memory_refuses_in_the_words_of_a_ledger(ledger: Ledger, data: str) -> None:
    kept = MemoryBudget(EPSILON, DELTA, ADD, None)
    said = []
    for charge in (
        lambda event, purpose: ledger.charge(data, event, purpose),
        lambda event, purpose: kept.charge(event, purpose, None),
    ):
        charge(gaussian_of(0.2), "first")
        with pytest.raises(BudgetError) as refused:
            charge(gaussian_of(0.2), "second")
        assert "entry" in str(refused.value)
        # the label of the data set, and the number and moment of the charge, are each budget's own
        said.append(re.sub(r"data set '[^']*'|entry \d+|of \d{4}-\S+", "", str(refused.value)))
    assert said[0] == said[1]


def test_the_first_charge_in_memory_is_counted_when_a_second_comes(
    ledger: Ledger, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, first, second = MemoryBudget(EPSILON, DELTA, ADD, None), sampled(0.013, 2.0, 30), laplace_of(0.05)

    def counts(self: PrivacyFilter, event: Event) -> Counted:
        raise AssertionError(event)

    with monkeypatch.context() as patch:
        patch.setattr(PrivacyFilter, "count", counts)
        kept.check(first, "first")
        kept.charge(first, "first (job 0123456789abcdef)", None)
        with pytest.raises(AssertionError):
            kept.check(second, "second")
    ledger.charge(data, first, "first (job 0123456789abcdef)")
    for event in (second, first):
        ledger.charge(data, event, "more (job 0123456789abcdef)")
        kept.charge(event, "more (job 0123456789abcdef)", None)
        assert kept.remaining() == ledger.remaining(data) < EPSILON
    of_memory, of_ledger = (filter_of(rows, budgets_of(rows)[0]) for rows in (kept._rows, ledger._snapshot()))
    assert (of_memory.events, of_memory.counted) == (of_ledger.events, of_ledger.counted)


def test_a_job_that_cannot_be_finished_reserves_nothing(ledger: Ledger, data: str) -> None:
    with pytest.raises(BudgetError, match="above its budget"):
        ledger.reserve(data, sampled(0.01, 0.7, 5000), "training (job 1)", "(job 1")
    assert ledger.reservations() == []
    assert ledger.spent(data) is None


def test_the_first_job_may_use_all_of_the_budget(ledger: Ledger) -> None:
    event = sampled(0.01, 1.0, 200)
    name = ledger.fingerprint({"x": np.zeros(1)})
    ledger.set_budget(name, account(event, DELTA).epsilon(), DELTA, ADD, "exact")
    ledger.reserve(name, event, "training (job 1)", "(job 1")
    assert ledger.remaining(name) == 0.0
    with pytest.raises(BudgetError):
        ledger.charge(name, Gaussian(1e4, 1.0, ADD), "a crumb")
    ledger.charge(name, event, "training (job 1)")


def older(ledger: Ledger, name: str, event: Event, purpose: str) -> None:
    """A charge as versions before the filter wrote it."""
    with ledger._store.writing():
        row = ledger._append(ledger._rows(), CHARGE, name, canonical(event.to_dict()), purpose)
    ledger._anchor(row)


def test_an_older_ledger_is_counted_as_a_filter_and_job_by_job(ledger: Ledger, data: str) -> None:
    block = sampled(0.01, 2.0, 50)
    for number in range(4):
        older(ledger, data, block, f"adaptation by stream (job 0123456789abcdef, block {number + 1})")
    spent = ledger.spent(data)
    assert spent is not None
    assert spent.epsilon() == pytest.approx(account(Repeated(block, 4), DELTA).epsilon())
    older(ledger, data, laplace_of(0.7), "count")
    spent = ledger.spent(data)
    assert spent is not None
    # what happened costs less than the budget; what was promised of whoever chose it costs more
    assert account(Composed((Repeated(block, 4), laplace_of(0.7))), DELTA).epsilon() < 1.0 < spent.epsilon()
    assert ledger.remaining(data) == 0.0
    with pytest.raises(BudgetError, match=r"is spent already"):
        ledger.charge(data, gaussian_of(1e-4), "a crumb")
    assert ledger.verify() == 7


@given(
    shifts=st.lists(st.floats(0.01, 0.4), min_size=1, max_size=6),
    other=st.floats(0.01, 0.2),
    at=st.integers(0, 5),
)
@settings(max_examples=25, deadline=None)
def test_the_order_of_what_was_charged_matters_only_for_the_share(shifts: list[float], other: float, at: int) -> None:
    events: list[Event] = [gaussian_of(s) for s in shifts]
    spent = PrivacyFilter(EPSILON, DELTA)
    for event in events:
        spent = spent.after(event)
    total = math.sqrt(sum(s * s for s in shifts))
    assert spent.curve.epsilon(DELTA) == pytest.approx(gaussian.epsilon(total, DELTA), rel=1e-3)
    # whatever fits leaves less, and is at least what it costs alone
    assert spent.after(gaussian_of(other)).left <= spent.left
    assert spent.with_next(gaussian_of(other)) >= gaussian.epsilon(other, DELTA) * (1.0 - 1e-9)


@pytest.mark.slow
def test_mass_that_is_lost_adds_up_to_the_share_however_many_events_come() -> None:
    spent = PrivacyFilter(EPSILON, DELTA)
    for _ in range(6):
        spent = spent.after(sampled(0.01, 4.0, 50))
    lost = [c.lost for c in spent.counted]
    assert lost == pytest.approx([0.1 * DELTA / (k * (k + 1)) for k in range(1, 7)])
    assert sum(lost) < spent.share * DELTA
    assert NOTHING.shift == 0.0


@pytest.mark.slow
def test_older_charges_of_no_job_are_each_their_own(ledger: Ledger, data: str) -> None:
    for _ in range(3):
        older(ledger, data, laplace_of(0.1), "count")
    spent = ledger.spent(data)
    assert spent is not None
    assert spent.epsilon() > account(Repeated(laplace_of(0.1), 3), DELTA).epsilon() * 1.5


def test_units_stay_with_what_goes_beyond_a_reservation() -> None:
    inner = Composed((Gaussian(5.0, 2.0, ADD), Gaussian(7.0, 2.0, ADD)))
    event = PerUnit(inner, "patient", 3)
    assert beyond(event, Counter()) is event
    assert beyond(event, Counter(dict(leaves(event)))) is None
    rest = beyond(event, Counter({Gaussian(5.0, 2.0, ADD): 1}))
    assert rest == PerUnit(Composed((Gaussian(7.0, 2.0, ADD),)), "patient", 3)
