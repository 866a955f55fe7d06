"""Nothing leaves a vault unpaid, unproven or by accident."""

from __future__ import annotations

import copy
import inspect
import json
import logging
import os
import pickle
import pprint
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot import Ledger, Release, Vault
from privot.accounting import FixedSize, Gaussian, Repeated, Sampled, account
from privot.accounting.events import Event, Projection, Unbounded
from privot.errors import (
    BudgetError,
    DataError,
    NoTheoremError,
    OtherRecordsError,
    PrivotError,
    UnprovenError,
    UsageError,
)
from privot.guarantee import Adjacency, Standing
from privot.mechanisms import Facts, Needs, RandomProjection
from privot.mechanisms.clipping import clip_rows
from privot.noise import SeededNoise, SystemNoise
from privot.vault.budget import account_name

R = Adjacency.REPLACE_ONE
# digits that no shape, budget or address contains
MARKED = 0.31415926
X = np.full((12, 4), MARKED) * np.linspace(0.5, 1.0, 12)[:, None]
X[3] = MARKED
Y = np.arange(12) % 3
WIDE = (1e6, 1e-5)
"""A budget that covers everything here."""

NO_NEEDS = Needs()


class Spy:
    """System noise that writes down what it was asked."""

    standing = Standing.PROVEN
    assumptions = ("spied upon",)

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._noise = SystemNoise()

    def normal(self, shape: tuple[int, ...], sigma: float) -> np.ndarray:
        self.asked.append(("normal", shape, sigma))
        return self._noise.normal(shape, sigma)

    def sample_without_replacement(self, records: int, batch: int) -> np.ndarray:
        self.asked.append(("sample", records, batch))
        return self._noise.sample_without_replacement(records, batch)


@dataclass(frozen=True)
class Custom:
    """A mechanism whose every part a test can set."""

    body: Callable[..., Any] = lambda records, noise, event, step: (noise.normal(3, 1.0), {})
    make: Callable[[Facts], Event] = lambda facts: Gaussian(1.0, 2 * facts.clip, facts.adjacency)
    needs: Needs = NO_NEEDS
    steps: int = 1
    standing: Standing = Standing.PROVEN
    seed: int | None = None

    def event(self, facts: Facts) -> Event:
        return self.make(facts)

    def run(self, records: Any, noise: Any, event: Event, step: int) -> Any:
        return self.body(records, noise, event, step)


def vault(**changes: Any) -> Vault:
    settings = {"clip": 0.5, "adjacency": R, "budget": WIDE, **changes}
    return Vault(settings.pop("x", X), settings.pop("y", None), **settings)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "a.ledger") as made:
        yield made


def name_of(ledger: Ledger, x: np.ndarray = X) -> str:
    return account_name(ledger, np.asarray(x))


# --- what is released is what was counted


def test_release_carries_the_guarantee_of_what_ran() -> None:
    noise = Spy()
    release = vault(noise=noise).release(RandomProjection(slices=6, sigma=2.0, batch=5), purpose="test")
    assert noise.asked == [("sample", 12, 5), ("normal", (5, 6), 2.0)]
    event = Sampled(Projection(4, 6, 2.0, 1.0, R), FixedSize(5, 12))
    assert release.guarantee.events == (event.to_dict(),)
    assert release.guarantee.epsilon() == account(event, 1e-5).epsilon()
    assert release.guarantee.standing is Standing.PROVEN
    assert "spied upon" in release.guarantee.assumptions
    assert release.value.shape == (5, 6)


def test_the_guarantee_is_quoted_at_the_delta_asked() -> None:
    mechanism = RandomProjection(slices=4, sigma=2.0)
    assert vault().release(mechanism, purpose="test").guarantee.at_delta == 1e-5
    assert vault().release(mechanism, purpose="test", delta=1e-3).guarantee.at_delta == 1e-3
    with pytest.raises(UsageError):
        vault().release(mechanism, purpose="test", delta=0.0)


def test_the_mechanism_gets_the_very_event_that_was_charged() -> None:
    made, got = [], []

    def make(facts: Facts) -> Event:
        made.append(Gaussian(1.0, 2 * facts.clip, facts.adjacency))
        return made[-1]

    def body(records: Any, noise: Any, event: Event, step: int) -> Any:
        got.append(event)
        return np.zeros(1), {}

    vault().release(Custom(body, make), purpose="test")
    assert len(made) == len(got) == 1
    assert made[0] is got[0]


def test_rows_are_clipped_to_the_public_bound_and_labels_are_given() -> None:
    seen: dict[str, np.ndarray] = {}

    def body(records: Any, noise: Any, event: Event, step: int) -> Any:
        some = np.array([3, 1])
        seen.update(all=records.clipped(), some=records.clipped(some), rows=records.rows())
        seen["labels"] = records.labels(some)
        return np.zeros(1), {}

    vault(clip=0.4, y=Y, classes=3).release(Custom(body), purpose="test")
    np.testing.assert_array_equal(seen["all"], clip_rows(X, 0.4))
    np.testing.assert_array_equal(seen["some"], clip_rows(X[[3, 1]], 0.4))
    np.testing.assert_array_equal(seen["rows"], X)
    np.testing.assert_array_equal(seen["labels"], Y[[3, 1]])
    assert np.linalg.norm(seen["all"], axis=1).max() <= 0.4


def test_later_changes_outside_and_inside_do_not_reach_the_records() -> None:
    x = X.copy()
    held = vault(x=x)
    x[:] = 0.0

    def spoil(records: Any, noise: Any, event: Event, step: int) -> Any:
        records.rows()[:] = 7.0
        records.clipped()[:] = 7.0
        return records.rows(), {}

    np.testing.assert_array_equal(held.release(Custom(spoil), purpose="test").value, X)


def test_a_sampled_release_is_saved_and_read_back(tmp_path: Path) -> None:
    release = vault().release(RandomProjection(slices=6, sigma=2.0, batch=5), purpose="test")
    release.save(tmp_path / "a.npz")
    again = Release.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(again.value, release.value)
    assert again.guarantee.events == release.guarantee.events
    assert again.guarantee.epsilon() == release.guarantee.epsilon()
    assert set(release.guarantee.assumptions) <= set(again.guarantee.assumptions)


def test_public_facts_say_the_count_under_replace_one_only() -> None:
    assert vault(y=Y, classes=3).facts == Facts(4, 12, 0.5, R, 3)
    assert vault(adjacency="add-remove").facts == Facts(4, None, 0.5, Adjacency.ADD_REMOVE)
    assert "12" not in repr(vault(adjacency="add-remove"))


# --- refusals come first and change nothing


def untouched(**changes: Any) -> tuple[Custom, list[str]]:
    """A mechanism that writes down whether it ran."""
    ran: list[str] = []

    def body(records: Any, noise: Any, event: Event, step: int) -> Any:
        ran.append("ran")
        return np.zeros(1), {}

    return Custom(body, **changes), ran


REFUSALS: list[tuple[dict[str, Any], dict[str, Any], type[PrivotError]]] = [
    ({"needs": Needs(dim=5)}, {}, UsageError),
    ({"needs": Needs(least_records=13)}, {}, UsageError),
    ({"needs": Needs(labels=True)}, {}, UsageError),
    ({"make": lambda f: Gaussian(1.0, 1.0, Adjacency.ADD_REMOVE)}, {}, UsageError),
    ({"make": lambda f: Projection(4, 1, 1.0, 1.0, Adjacency.ADD_REMOVE)}, {}, NoTheoremError),
    ({"standing": Standing.UNPROVEN}, {}, UnprovenError),
    ({"standing": Standing.ASYMPTOTIC}, {}, UnprovenError),
    ({"standing": Standing.ASYMPTOTIC}, {"allow_unproven": 1}, UnprovenError),
    ({"make": lambda f: Unbounded("triangle", f.adjacency)}, {}, UnprovenError),
    ({"make": lambda f: Unbounded("triangle", f.adjacency)}, {"allow_unproven": True}, BudgetError),
    ({"make": lambda f: Gaussian(0.01, 1.0, f.adjacency)}, {}, BudgetError),
    ({}, {"purpose": " "}, UsageError),
    ({}, {"delta": 1.5}, UsageError),
    ({"steps": 2}, {}, UsageError),
]


@pytest.mark.parametrize(("parts", "asked", "error"), REFUSALS)
@pytest.mark.parametrize("where", ["memory", "ledger"])
def test_a_refusal_runs_nothing_and_leaves_the_budget_as_it_was(
    parts: dict[str, Any], asked: dict[str, Any], error: type[PrivotError], where: str, ledger: Ledger
) -> None:
    noise = Spy()
    held = vault(budget=(5.0, 1e-5), noise=noise, ledger=ledger if where == "ledger" else None)
    before = ledger.path.read_bytes(), ledger.entries()
    mechanism, ran = untouched(**parts)
    with pytest.raises(error) as refusal:
        held.release(mechanism, **{"purpose": "test", **asked})
    assert ran == []
    assert noise.asked == []
    assert (ledger.path.read_bytes(), ledger.entries()) == before
    assert "3141" not in str(refusal.value)
    # the whole budget is still there: ε = 4.37... at σ = Δ
    held.release(Custom(), purpose="test")


def test_the_budget_runs_out_before_the_second_release() -> None:
    one = account(Gaussian(1.0, 1.0, R), 1e-5).epsilon()
    both = account(Repeated(Gaussian(1.0, 1.0, R), 2), 1e-5).epsilon()
    noise = Spy()
    held = vault(budget=((one + both) / 2, 1e-5), noise=noise)
    held.release(Custom(), purpose="first")
    with pytest.raises(BudgetError, match="The release 'second' ") as refusal:
        held.release(Custom(), purpose=f"second (run {'0a' * 8})")
    assert refusal.value.exit_code == 4
    assert len(noise.asked) == 1
    # a filter covers Gaussians one after another but for the share of δ that later events may lose
    fits = vault(budget=(both * 1.0001, 1e-5))
    fits.release(Custom(), purpose="first")
    fits.release(Custom(), purpose="second")


@pytest.mark.parametrize("where", ["memory", "ledger"])
def test_whether_charges_to_come_fit_can_be_asked_and_costs_nothing(where: str, ledger: Ledger) -> None:
    given: dict[str, Any] = {"ledger": ledger} if where == "ledger" else {}
    step = Gaussian(1.0, 1.0, R)
    enough = account(Repeated(step, 3), 1e-5).epsilon()
    held = vault(budget=(enough * 1.0001, 1e-5), **given)
    mechanism = Custom()
    for left in (3, 2, 1):
        held.check(Repeated(step, left), purpose="all of it")
        with pytest.raises(BudgetError, match="all of it"):
            held.check(Repeated(step, left + 1), purpose="all of it")
        held.release(mechanism, purpose="one")
        assert len(ledger.entries()) == (4 - left if where == "ledger" else 0)
    with pytest.raises(BudgetError):
        held.check(step, purpose="more")
    other = vault(ledger=ledger, budget=WIDE, x=2.0 * X, new_records=True)
    with pytest.raises(BudgetError, match="under"):
        other.check(Gaussian(4.0, 2.0, Adjacency.ADD_REMOVE), purpose="other")


def test_the_ledger_is_charged_before_anything_runs_and_keeps_a_failed_charge(ledger: Ledger) -> None:
    held = vault(ledger=ledger, budget=(5.0, 1e-5), label="marked")
    entries: list[int] = []

    def body(records: Any, noise: Any, event: Event, step: int) -> Any:
        entries.append(len(ledger.entries()))
        raise RuntimeError("broken")

    with pytest.raises(PrivotError):
        held.release(Custom(body), purpose="will fail")
    assert entries == [1]
    assert [(e.purpose, e.event) for e in ledger.entries()] == [("will fail", Gaussian(1.0, 1.0, R))]
    with pytest.raises(BudgetError):
        held.release(Custom(), purpose="again")


def test_no_vault_without_a_budget(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="needs a budget"):
        vault(budget=None)
    with pytest.raises(UsageError, match="knows no budget"):
        vault(budget=None, ledger=ledger)
    for bad in (
        5.0,
        (5.0,),
        (0.0, 1e-5),
        (5.0, 0.0),
        (float("inf"), 1e-5),
        (float("nan"), 1e-5),
        ("5", 1e-5),
    ):
        with pytest.raises(UsageError):
            vault(budget=bad)


def test_the_ledger_knows_records_in_any_order_and_width_and_without_labels(ledger: Ledger) -> None:
    x = np.random.default_rng(1).normal(size=(9, 3)).astype(np.float32)
    x[0, 0] = 0.0
    one = account(Gaussian(1.0, 1.0, R), 1e-5).epsilon()
    vault(x=x, ledger=ledger, budget=(one, 1e-5)).release(Custom(), purpose="first")
    negative = x.astype(np.float64)
    negative[0, 0] = -0.0
    labelled = {"y": np.zeros(9), "classes": 1}
    for same, more in ((x[::-1], {}), (negative, {}), (np.asfortranarray(x), {}), (x, labelled)):
        again = vault(x=same, ledger=ledger, budget=None, **more)
        with pytest.raises(BudgetError):
            again.release(Custom(), purpose="second")
    other = x.copy()
    other[4, 1] += 1e-3
    with pytest.raises(OtherRecordsError, match="guards other records"):
        vault(x=other, ledger=ledger, budget=None)


def test_a_ledgers_terms_stand(ledger: Ledger) -> None:
    vault(ledger=ledger, budget=(5.0, 1e-5))
    vault(ledger=ledger, budget=(5.0, 1e-5))
    with pytest.raises(UsageError):
        vault(ledger=ledger, budget=(6.0, 1e-5))
    with pytest.raises(UsageError):
        vault(ledger=ledger, budget=None, adjacency="add-remove")
    assert ledger.budget(name_of(ledger)).epsilon == 5.0


@pytest.mark.slow
def test_seeded_noise_is_unproven_and_refused_unless_allowed(ledger: Ledger) -> None:
    held = vault(noise=SeededNoise(1), ledger=ledger)
    mechanism = RandomProjection(slices=2, sigma=5.0)
    with pytest.raises(UnprovenError):
        held.release(mechanism, purpose="test")
    with pytest.raises(UnprovenError):
        held.release(mechanism, purpose="test", allow_unproven=1)  # type: ignore[arg-type]
    assert ledger.entries() == []
    release = held.release(mechanism, purpose="test", allow_unproven=True)
    assert release.guarantee.standing is Standing.UNPROVEN
    assert any("seed" in reason for reason in release.guarantee.assumptions)
    assert ledger.entries()[0].event.kind == "downgraded"


def test_add_remove_projections_have_no_theorem() -> None:
    with pytest.raises(NoTheoremError):
        vault(adjacency="add-remove").release(RandomProjection(slices=2, sigma=1.0), purpose="test")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["memory", "ledger"])
def test_a_given_seed_is_taken_once(where: str, ledger: Ledger) -> None:
    kept = ledger if where == "ledger" else None
    held = vault(ledger=kept)
    held.release(RandomProjection(slices=2, sigma=9.0, seed=7), purpose="test")
    with pytest.raises(UsageError, match="seed 7 "):
        held.release(RandomProjection(slices=3, sigma=9.0, seed=7), purpose="test")
    held.release(RandomProjection(slices=2, sigma=9.0, seed=17), purpose="test")
    held.release(RandomProjection(slices=2, sigma=9.0), purpose="test")
    if kept is not None:
        # another process would find it in the ledger
        with pytest.raises(UsageError):
            vault(ledger=Ledger.open(kept.path)).release(RandomProjection(slices=2, sigma=9.0, seed=17), purpose="test")
        assert len(kept.entries()) == 3


# --- streams


def test_a_stream_is_charged_once_for_all_its_steps_and_ends(ledger: Ledger) -> None:
    noise = Spy()
    mechanism = RandomProjection(slices=3, sigma=4.0, batch=5, steps=3)
    stream = vault(ledger=ledger, noise=noise).stream(mechanism, purpose="train")
    whole = Repeated(Sampled(Projection(4, 3, 4.0, 1.0, R), FixedSize(5, 12)), 3)
    assert [e.event for e in ledger.entries()] == [whole]
    assert noise.asked == []
    releases = list(stream)
    assert len(releases) == 3
    assert list(stream) == []
    assert noise.asked == [("sample", 12, 5), ("normal", (5, 3), 4.0)] * 3
    assert [r.public["step"] for r in releases] == [0, 1, 2]
    assert len({r.public["seed"] for r in releases}) == 3
    assert all(r.guarantee.epsilon() == account(whole, 1e-5).epsilon() for r in releases)
    assert len(ledger.entries()) == 1


def test_a_stream_can_be_neither_copied_nor_rewound() -> None:
    stream = vault().stream(RandomProjection(slices=2, sigma=4.0, steps=2), purpose="train")
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UsageError):
            attempt(stream)
    next(stream)
    assert len(list(iter(stream))) == 1


def test_a_step_that_fails_is_not_tried_again() -> None:
    steps: list[int] = []

    def body(records: Any, noise: Any, event: Event, step: int) -> Any:
        steps.append(step)
        if step == 0:
            raise ValueError
        return np.zeros(1), {}

    stream = vault().stream(Custom(body, steps=2), purpose="train")
    with pytest.raises(PrivotError):
        next(stream)
    next(stream)
    with pytest.raises(StopIteration):
        next(stream)
    assert steps == [0, 1]


def test_threads_share_a_stream_without_repeating_a_step() -> None:
    seen: list[int] = []

    def body(records: Any, noise: Any, event: Event, step: int) -> Any:
        seen.append(step)
        return np.zeros(1), {}

    mechanism = Custom(body, lambda f: Gaussian(100.0, 1.0, f.adjacency), steps=200)
    stream = vault().stream(mechanism, purpose="train")
    threads = [threading.Thread(target=lambda: list(stream)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(200))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_cannot_spend_twice() -> None:
    held = vault()
    stream = held.stream(RandomProjection(slices=2, sigma=4.0, steps=2), purpose="train")
    child = os.fork()
    if child == 0:
        refused = 0
        for attempt in (lambda: next(stream), lambda: held.release(Custom(), purpose="test")):
            try:
                attempt()
            except BudgetError:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert len(list(stream)) == 2


# --- nothing leaks by accident


def placeless(text: str) -> str:
    """Without addresses in memory, which are digits too, and now and then the very ones that are looked for."""
    return re.sub(r"0x[0-9a-fA-F]+", "", text)


def texts_of(thing: object) -> Iterator[str]:
    """Every text an ordinary tool makes of an object."""
    yield repr(thing)
    yield str(thing)
    yield format(thing)
    yield f"{thing!a}"
    yield pprint.pformat(thing)
    yield "%s %r" % (thing, thing)  # noqa: UP031
    yield json.dumps(thing, default=repr)
    yield repr(inspect.getmembers(thing))
    yield repr([getattr(thing, name, None) for name in dir(thing)])
    yield repr(np.asarray(thing, dtype=object))


def test_no_text_of_a_vault_shows_a_record() -> None:
    held = vault(y=Y, classes=3)
    inner = [v for _, v in inspect.getmembers(held) if type(v).__name__ == "_Records"]
    assert len(inner) == 1
    stream = held.stream(RandomProjection(slices=2, sigma=4.0, steps=2), purpose="train")
    for thing in (held, *inner, stream):
        for text in map(placeless, texts_of(thing)):
            assert "3141" not in text
            assert "0.15" not in text  # the first row, half of the marked one
            assert "array([" not in text


def test_no_attribute_is_an_array_of_records() -> None:
    held = vault()
    todo: list[object] = [held]
    seen: set[int] = set()
    while todo:
        thing = todo.pop()
        if id(thing) in seen or not type(thing).__module__.startswith("privot"):
            assert not isinstance(thing, np.ndarray)
            continue
        seen.add(id(thing))
        todo += [getattr(thing, name) for name in dir(thing) if not name.startswith("__")]
    with pytest.raises(TypeError):
        vars(held)
    with pytest.raises(AttributeError):
        held.x  # noqa: B018
    with pytest.raises(AttributeError):
        held.extra = 1
    with pytest.raises(TypeError):
        iter(held)
    with pytest.raises(TypeError):
        len(held)


def test_no_copy_of_a_vault() -> None:
    held = vault()
    inner = next(v for _, v in inspect.getmembers(held) if type(v).__name__ == "_Records")
    for thing in (held, inner):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps, lambda t: t.__getstate__()):
            with pytest.raises(UsageError, match="cannot be copied"):
                attempt(thing)
        with pytest.raises(TypeError):
            json.dumps(thing)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(ValueError, PrivotError), (DataError, DataError), (KeyError, PrivotError), (MemoryError, PrivotError)],
)
def test_a_failing_mechanism_quotes_no_record(
    raised: type[Exception], expected: type[PrivotError], caplog: pytest.LogCaptureFixture
) -> None:
    def body(records: Any, noise: Any, event: Event, step: int) -> Any:
        rows = records.rows()
        raise raised(f"bad row {rows[3]}")

    held = vault()
    with caplog.at_level(logging.DEBUG), pytest.raises(PrivotError) as failure:
        held.release(Custom(body), purpose="test")
    assert type(failure.value) is expected
    assert raised.__name__ in str(failure.value)
    assert failure.value.__context__ is None
    # frames of this test hold X itself, as anybody's own frames may; those of privot may not
    trace = failure.value.__traceback__
    while trace is not None:
        if "privot" in trace.tb_frame.f_globals.get("__name__", ""):
            for name, local in trace.tb_frame.f_locals.items():
                assert not isinstance(local, np.ndarray | BaseException), name
                assert "3141" not in placeless(repr(local))
        trace = trace.tb_next
    assert "3141" not in "".join(traceback.format_exception(failure.value))
    assert "3141" not in caplog.text


def test_a_mechanism_whose_result_is_no_release_quotes_nothing() -> None:
    for result in (None, (X.astype(str), {}), (X, {"x": X}), 5):
        with pytest.raises(PrivotError, match="withheld") as failure:
            vault().release(Custom(lambda r, n, e, s, result=result: result), purpose="test")
        assert "3141" not in str(failure.value)


BAD_RECORDS: list[Any] = [
    np.where(X == MARKED, np.nan, X),
    np.where(X == MARKED, np.inf, X),
    np.empty((0, 4)),
    np.empty((4, 0)),
    X[:1],
    X[0],
    X[None],
    X.astype(str),
    X.astype(object),
    X.astype(complex),
    [[MARKED], [MARKED, 1.0]],
    [["a", MARKED]],
    None,
    "0.31415926",
    {"x": X},
]


@pytest.mark.parametrize("x", BAD_RECORDS)
def test_bad_records_are_refused_in_a_sentence_without_values(x: Any) -> None:
    with pytest.raises(DataError) as refusal:
        Vault(x, clip=0.5, adjacency=R, budget=WIDE)
    assert "3141" not in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert refusal.value.__context__ is None


@pytest.mark.parametrize(
    ("y", "classes", "error"),
    [
        (Y, None, UsageError),
        (None, 3, UsageError),
        (Y, 0, UsageError),
        (Y, 3.0, UsageError),
        (Y, 2, DataError),
        (Y - 1, 3, DataError),
        (Y + 0.31415926, 9, DataError),
        (Y[:-1], 3, DataError),
        (Y.astype(str), 3, DataError),
    ],
)
def test_bad_labels_are_refused(y: Any, classes: Any, error: type[PrivotError]) -> None:
    with pytest.raises(error) as refusal:
        vault(y=y, classes=classes)
    assert "3141" not in str(refusal.value)


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan"), float("inf"), 1e-200, "0.5", True, None])
def test_bad_clips_are_refused(clip: Any) -> None:
    with pytest.raises(UsageError):
        vault(clip=clip)


def test_clip_and_adjacency_have_no_default() -> None:
    with pytest.raises(UsageError, match="clip must be a number"):
        Vault(X, adjacency=R, budget=WIDE)
    with pytest.raises(TypeError):
        Vault(X, clip=0.5, budget=WIDE)
    with pytest.raises(UsageError):
        vault(adjacency="either")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.one_of(st.floats(), st.integers(), st.text(max_size=4), st.none()),
        lambda s: st.lists(s, max_size=4),
    )
)
def test_whatever_is_put_in_is_taken_or_refused_with_a_data_error(x: Any) -> None:
    try:
        held = Vault(x, clip=0.5, adjacency=R, budget=WIDE)
    except DataError:
        return
    assert held.facts.records is not None
    assert held.facts.records >= 2


def test_neighbours_differ_in_one_row_only_through_the_vault() -> None:
    class Still(Spy):
        def normal(self, shape: tuple[int, ...], sigma: float) -> np.ndarray:
            return np.zeros(shape)

    neighbour = X.copy()
    neighbour[5] = [-9.0, 0.0, 9.0, 1.0]
    values = [
        vault(x=x, noise=Still()).release(RandomProjection(slices=8, sigma=1.0, seed=3), purpose="test").value
        for x in (X, neighbour)
    ]
    moved = np.linalg.norm(values[0] - values[1], axis=1)
    assert (np.delete(moved, 5) == 0.0).all()
    # two whole frames: H = 2, Δ = 2·clip
    assert 0.0 < moved[5] <= 2 * 0.5 * np.sqrt(2.0)


def test_a_stream_cannot_be_made_longer_than_it_was_paid_for() -> None:
    vault = Vault(np.eye(8), clip=0.5, adjacency="replace-one", budget=(50.0, 1e-5))
    stream = vault.stream(RandomProjection(slices=4, sigma=5.0, steps=2), purpose="two")
    with pytest.raises(AttributeError):
        stream.steps = 500  # type: ignore[misc]
    assert len(list(stream)) == 2


@pytest.mark.slow
def test_a_seed_that_a_release_drew_cannot_be_given_again() -> None:
    vault = Vault(np.eye(8), clip=0.5, adjacency="replace-one", budget=(50.0, 1e-5))
    first = vault.release(RandomProjection(slices=1, sigma=5.0), purpose="first")
    with pytest.raises(UsageError, match="drawn for another release"):
        RandomProjection(slices=1, sigma=5.0, seed=first.public["seed"])


def test_an_interrupt_carries_no_values_with_it() -> None:
    class Interrupted:
        standing = Standing.PROVEN

        def normal(self, shape: object, sigma: float) -> object:
            secret_value = 0.123456789
            raise KeyboardInterrupt(secret_value)

    noise = SystemNoise()
    noise_like = type("Like", (), {"standing": noise.standing, "assumptions": noise.assumptions})()
    noise_like.normal = Interrupted().normal
    vault = Vault(np.eye(8), clip=0.5, adjacency="replace-one", budget=(50.0, 1e-5), noise=noise_like)
    with pytest.raises(KeyboardInterrupt) as caught:
        vault.release(RandomProjection(slices=1, sigma=5.0), purpose="stopped")
    assert caught.value.args == ()
    assert caught.value.__context__ is None
    names = [entry.name for entry in caught.traceback]
    assert "normal" not in names
    assert "run" not in names


def test_noise_too_small_to_add_safely_is_refused_before_it_is_paid_for() -> None:
    vault = Vault(np.eye(8), clip=0.5, adjacency="replace-one", budget=(1e12, 1e-5))
    with pytest.raises(UsageError, match="too small"):
        vault.release(RandomProjection(slices=8, sigma=1e-8), purpose="hardly any noise")


def test_what_remains_is_the_largest_gaussian_that_still_fits_in_memory_as_in_a_ledger(tmp_path: Path) -> None:
    from privot import Count
    from privot.accounting import calibrate

    def gaussian(sigma: float) -> Event:
        return Gaussian(sigma, 1.0, Adjacency.ADD_REMOVE)

    rows = np.zeros((9, 2))
    terms = {"clip": 1.0, "adjacency": "add-remove", "budget": (2.0, 1e-5)}
    with Ledger.create(tmp_path / "a.ledger") as book:
        for held in (Vault(rows, **terms), Vault(rows, **terms, ledger=book)):
            assert held.remaining() == 2.0
            held.release(Count(epsilon=1.0, delta=1e-6), purpose="how many")
            left = held.remaining()
            assert 1.0 < left < 2.0

            nearly, more = (
                Gaussian(calibrate(gaussian, epsilon=share * left, delta=1e-5), 1.0, Adjacency.ADD_REMOVE)
                for share in (0.99, 1.01)
            )
            held.check(nearly, purpose="nearly all")
            with pytest.raises(BudgetError):
                held.check(more, purpose="more than all")
        (data,) = book.datasets()
        assert book.remaining(data.fingerprint) == left == Vault(rows, **terms, ledger=book).remaining()
