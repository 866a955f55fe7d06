"""Events: JSON there and back, and nothing but one-line errors of ours for anything a stranger may pass in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from privot.accounting import (
    Composed,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    Repeated,
    Sampled,
    account,
    calibrate,
    embedding,
    gradient,
    projection,
    read_guarantee,
)
from privot.accounting.calibration import largest_count
from privot.accounting.events import (
    Downgraded,
    Event,
    Projection,
    Renyi,
    Unbounded,
    adjacency_of,
    event_from_dict,
    leaves,
)
from privot.accounting.laws.hyp1f1 import log_hyp1f1
from privot.errors import DataError, NoTheoremError, PrivotError, UsageError
from privot.guarantee import Adjacency, Standing

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning:privot")

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
HUGE = 10**5000  # more digits than Python will print

positive = st.floats(1e-6, 1e6)
counts = st.integers(1, 10**6)
adjacencies = st.sampled_from([ADD, REPLACE])
standings = st.sampled_from(list(Standing))


@st.composite
def curves(draw: st.DrawFn, adjacency: Adjacency) -> Renyi:
    orders = sorted(draw(st.sets(st.floats(1.01, 500.0), min_size=1, max_size=5)))
    epsilons = sorted(
        draw(st.lists(st.floats(0.0, 50.0) | st.just(math.inf), min_size=len(orders), max_size=len(orders)))
    )
    pure = draw(st.just(math.inf) | st.floats(50.0, 60.0)) if math.isfinite(epsilons[-1]) else math.inf
    return Renyi(tuple(orders), tuple(epsilons), adjacency, draw(standings), pure)


@st.composite
def steps(draw: st.DrawFn, adjacency: Adjacency) -> Event:
    event: Event
    kind = draw(st.sampled_from(["gaussian", "laplace", "curve", "projection", "published", "none"]))
    if kind == "none":
        return Unbounded(draw(st.text(max_size=8)), adjacency)
    if kind == "curve":
        event = draw(curves(adjacency))
    elif kind == "laplace":
        event = Laplace(draw(positive), draw(positive), adjacency)
    elif kind == "projection" and adjacency is REPLACE:
        frame = draw(st.sampled_from(["orthogonal", "independent"]))
        event = Projection(draw(counts), draw(counts), draw(positive), draw(positive), REPLACE, frame)
    elif kind == "published" and adjacency is REPLACE:
        bound, failure = (
            draw(st.sampled_from(["bernstein", "clt", "published", "published-clt"])),
            draw(st.floats(1e-12, 0.1)),
        )
        event = Projection(
            draw(counts), draw(counts), draw(positive), draw(positive), REPLACE, "independent", bound, failure
        )
    else:
        event = Gaussian(draw(positive), draw(positive), adjacency)
    if draw(st.booleans()):
        return event
    if adjacency is ADD:
        return Sampled(event, Poisson(draw(st.floats(1e-9, 1.0))))
    records = draw(counts)
    return Sampled(event, FixedSize(draw(st.integers(1, records)), records))


def trees(adjacency: Adjacency) -> st.SearchStrategy[Event]:
    return st.recursive(
        steps(adjacency),
        lambda inner: st.one_of(
            st.builds(Repeated, inner, st.integers(1, 30)),
            st.lists(inner, min_size=1, max_size=3).map(lambda e: Composed(tuple(e))),
            st.builds(Downgraded, inner, standings, st.text(max_size=8)),
        ),
        max_leaves=4,
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(adjacencies.flatmap(trees))
def test_events_read_back_equal(event: Event) -> None:
    text = json.dumps(event.to_dict(), allow_nan=False)
    back = event_from_dict(json.loads(text))
    assert back == event
    assert hash(back) == hash(event)
    assert json.dumps(back.to_dict(), allow_nan=False) == text
    assert leaves(back) == leaves(event)
    assert adjacency_of([back]) is adjacency_of([event])


def test_the_written_form_is_the_one_older_files_have() -> None:
    """A change of names would make every ledger unreadable."""
    event = Repeated(Sampled(Projection(9, 3, 1.5, 1.0, REPLACE), FixedSize(2, 9)), 4)
    assert event.to_dict() == {
        "kind": "repeated",
        "times": 4,
        "event": {
            "kind": "sampled",
            "sampling": {"sampling": "fixed-size", "batch": 2, "records": 9},
            "event": {
                "kind": "projection",
                "dim": 9,
                "slices": 3,
                "sigma": 1.5,
                "sensitivity": 1.0,
                "adjacency": "replace-one",
                "frame": "orthogonal",
                "bound": "exact",
                "failure": None,
            },
        },
    }


# --- bad input ---------------------------------------------------------------------------------------------------

ODD: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    -1.0,
    0.0,
    0,
    -3,
    1e308,
    5e-324,
    1e300,
    10**400,
    HUGE,
    -HUGE,
    True,
    False,
    None,
    "",
    "1.0",
    "replace-one",
    "a\nb",
    b"x",
    [],
    [1.0],
    (),
    {},
    {"kind": "gaussian"},
    object(),
    Gaussian,
    Gaussian(1.0, 1.0, ADD),
    Adjacency.ADD_REMOVE,
    Poisson(0.5),
    FixedSize(3, 7),
    np.float64(1.0),
    np.nan,
    np.int64(3),
    np.array([1.0, 2.0]),
    1j,
    lambda: 1,
]
odd = st.sampled_from(ODD)


def only_ours(call: Callable[[], Any]) -> Any:
    """The answer, or None after a refusal in one line; anything else fails the test."""
    try:
        return call()
    except PrivotError as error:
        text = str(error)
        assert text, "an error must say something"
        assert "\n" not in text, text
        assert len(text) < 400, text
        return None


def mutated(fields: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """`fields` with one or two values replaced by something odd."""
    return st.dictionaries(st.sampled_from(sorted(fields)), odd, min_size=1, max_size=2).map(lambda d: {**fields, **d})


CONSTRUCTORS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (Gaussian, {"sigma": 1.0, "sensitivity": 1.0, "adjacency": ADD}),
    (Laplace, {"scale": 1.0, "sensitivity": 1.0, "adjacency": ADD}),
    (
        Projection,
        {"dim": 9, "slices": 3, "sigma": 1.0, "sensitivity": 1.0, "adjacency": REPLACE, "frame": "independent"},
    ),
    (
        Projection,
        {
            "dim": 9,
            "slices": 3,
            "sigma": 1.0,
            "sensitivity": 1.0,
            "adjacency": REPLACE,
            "frame": "independent",
            "bound": "bernstein",
            "failure": 1e-7,
        },
    ),
    (
        Renyi,
        {"orders": (2.0, 3.0), "epsilons": (0.1, 0.2), "adjacency": ADD, "standing": Standing.PROVEN, "pure": 1.0},
    ),
    (Downgraded, {"event": Gaussian(1.0, 1.0, ADD), "standing": Standing.UNPROVEN, "reason": "x"}),
    (Unbounded, {"name": "x", "adjacency": ADD}),
    (Sampled, {"event": Gaussian(1.0, 1.0, ADD), "sampling": Poisson(0.1)}),
    (Repeated, {"event": Gaussian(1.0, 1.0, ADD), "times": 3}),
    (Composed, {"events": (Gaussian(1.0, 1.0, ADD), Laplace(1.0, 1.0, ADD))}),
]


@pytest.mark.parametrize(("make", "fields"), CONSTRUCTORS, ids=lambda v: getattr(v, "kind", ""))
def test_odd_events_are_refused_or_counted(make: Callable[..., Any], fields: dict[str, Any]) -> None:
    """Every field takes every odd value; what is accepted must be counted and written without complaint."""
    for name in fields:
        for value in ODD:
            event = only_ours(lambda name=name, value=value: make(**{**fields, name: value}))
            if event is None:
                continue
            guarantee = only_ours(lambda event=event: account(event, 1e-5))
            if guarantee is not None:
                cost = only_ours(guarantee.epsilon)
                assert cost is None or cost >= 0.0
                only_ours(lambda guarantee=guarantee: guarantee.delta(1.0))
            assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event


def test_odd_samplings_are_refused_or_counted() -> None:
    for value in ODD:
        poisson = only_ours(lambda value=value: Poisson(value))
        if poisson is not None:
            only_ours(lambda p=poisson: account(Repeated(Sampled(Gaussian(1.0, 1.0, ADD), p), 7), 1e-5).epsilon())
        for batch, records in ((value, 10), (1, value), (value, value)):
            fixed = only_ours(lambda b=batch, r=records: FixedSize(b, r))
            if fixed is not None:
                only_ours(lambda f=fixed: account(Repeated(Sampled(Gaussian(1.0, 1.0, REPLACE), f), 7), 1e-5).epsilon())


@pytest.mark.parametrize("q", [5e-324, 1e-300, 1e-15, 1e-9])
def test_absurdly_rare_sampling_is_counted(q: float) -> None:
    guarantee = account(Repeated(Sampled(Gaussian(1.0, 1.0, ADD), Poisson(q)), 1000), 1e-5)
    assert 0.0 <= guarantee.epsilon() < 1e-2


def test_odd_arguments_of_account_and_its_guarantee() -> None:
    guarantee = account(Gaussian(1.0, 1.0, ADD), 1e-5)
    for value in ODD:
        only_ours(lambda value=value: account(value, 1e-5))
        only_ours(lambda value=value: account(Gaussian(1.0, 1.0, ADD), value))
        only_ours(lambda value=value: guarantee.epsilon(value))
        only_ours(lambda value=value: guarantee.delta(value))
        only_ours(lambda value=value: guarantee.quoted_at(value))
        only_ours(lambda value=value: leaves(value))
        only_ours(lambda value=value: read_guarantee(value))
        only_ours(lambda value=value: event_from_dict(value))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    mutated(
        {
            "adjacency": "add-remove",
            "delta": 1e-5,
            "sigma": 2.0,
            "epsilon": None,
            "records": 100,
            "batch": 10,
            "epochs": 1.0,
            "steps": None,
            "clip": 1.0,
            "clipping": "per-example",
        }
    )
)
@example({"adjacency": "add-remove", "delta": 1e-5, "sigma": 2.0, "records": 100, "batch": 0, "epochs": 1.0})
@example({"adjacency": "add-remove", "delta": 1e-5, "sigma": 2.0, "records": HUGE, "batch": 10, "epochs": 1.0})
@example({"adjacency": "add-remove", "delta": 1e-5, "epsilon": 2.0, "sigma": 1.0, "records": "x", "steps": 3})
def test_odd_gradient_plans(arguments: dict[str, Any]) -> None:
    only_ours(lambda: gradient(**{"clipping": "matrix", **arguments}))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    mutated(
        {
            "dim": 12,
            "slices": 5,
            "adjacency": "replace-one",
            "delta": 1e-5,
            "sigma": 2.0,
            "records": 100,
            "batch": 10,
            "steps": 3,
            "clip": 0.5,
            "frame": "independent",
            "bound": "bernstein",
        }
    )
)
def test_odd_projection_plans(arguments: dict[str, Any]) -> None:
    only_ours(lambda: projection(**arguments))


@settings(max_examples=60, deadline=None)
@given(mutated({"adjacency": "replace-one", "delta": 1e-5, "sigma": 2.0, "epsilon": None, "norm": 1.0, "releases": 3}))
def test_odd_embedding_plans(arguments: dict[str, Any]) -> None:
    only_ours(lambda: embedding(**arguments))


def test_odd_budgets_and_limits() -> None:
    def make(size: float) -> Event:
        return Gaussian(float(size), 1.0, ADD)

    for value in ODD:
        only_ours(lambda value=value: calibrate(make, epsilon=value, delta=1e-5))
        only_ours(lambda value=value: calibrate(make, epsilon=1.0, delta=value))
        for limit, epsilon, delta in ((value, 1.0, 1e-5), (10, value, 1e-5), (10, 1.0, value)):
            only_ours(
                lambda n=limit, e=epsilon, d=delta: largest_count(
                    lambda t: Repeated(Gaussian(9.0, 1.0, ADD), t), epsilon=e, delta=d, limit=n
                )
            )


def test_odd_arguments_of_kummers_function() -> None:
    for value in (math.nan, math.inf, -1.0, 0.0, True, None, "x", [], 1e308):
        for a, b, x in ((value, 2.0, 1.0), (0.5, value, 1.0), (0.5, 2.0, value)):
            only_ours(lambda a=a, b=b, x=x: log_hyp1f1(a, b, x))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**20)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["kind", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "event", "events", "sigma", "adjacency", "times", "sampling", "orders", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(plain)
def test_arbitrary_json_is_no_event(raw: Any) -> None:
    """Refused as bad data, whatever it is; never accepted, since none of these names a whole event."""
    with pytest.raises((DataError, NoTheoremError), match=r"\A[^\n]+\Z"):
        event_from_dict(raw)


WHOLE = Composed(
    (
        Repeated(Sampled(Projection(9, 3, 1.5, 1.0, REPLACE), FixedSize(2, 9)), 4),
        Downgraded(Laplace(1.0, 1.0, REPLACE), Standing.ASYMPTOTIC, "why not"),
        Renyi((2.0,), (1.0,), REPLACE, Standing.PROVEN),
    )
).to_dict()


def paths(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [at, *(p for key, child in inner for p in paths(child, (*at, key)))]


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(paths(WHOLE)[1:]), odd, st.booleans())
def test_mutated_events_are_refused_or_valid(path: tuple[Any, ...], value: Any, drop: bool) -> None:
    raw = json.loads(json.dumps(WHOLE))
    node = raw
    for key in path[:-1]:
        node = node[key]
    if drop:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    event = only_ours(lambda: event_from_dict(raw))
    assert event is None or event_from_dict(json.loads(json.dumps(event.to_dict()))) == event


def test_trees_that_are_too_deep_or_too_long_are_refused() -> None:
    event: Event = Gaussian(1.0, 1.0, ADD)
    for _ in range(98):
        event = Composed((event,))
    assert math.isfinite(account(event, 1e-5).epsilon())
    with pytest.raises(UsageError, match="levels deep"):
        Composed((Composed((event,)),))
    assert event_from_dict(event.to_dict()) == event
    raw: dict[str, Any] = Gaussian(1.0, 1.0, ADD).to_dict()
    for _ in range(5000):
        raw = {"kind": "repeated", "event": raw, "times": 1}
    with pytest.raises(DataError, match=r"deep|levels"):
        event_from_dict(raw)
    many = Repeated(Repeated(Gaussian(1.0, 1.0, ADD), 10**15), 10**15)
    with pytest.raises(UsageError, match="steps"):
        account(many, 1e-5)


def test_unusual_but_valid_sizes_are_counted() -> None:
    assert account(Repeated(Gaussian(1e9, 1.0, ADD), 10**15), 1e-5).epsilon() == pytest.approx(
        account(Gaussian(1e9, math.sqrt(1e15), ADD), 1e-5).epsilon()
    )
    assert account(Projection(10**9, 10**5, 1.0, 1.0, REPLACE), 1e-5).epsilon() < 1.0
    assert account(Gaussian(1e-30, 1.0, ADD), 1e-5).epsilon() > 1e50
    assert account(Gaussian(1e30, 1.0, ADD), 1e-5).epsilon() == 0.0
