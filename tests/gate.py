"""What `--gate` (`make test`, `make check`) runs of tests that repeat themselves; `make test-all` runs everything.

Of a function marked `gate(2)`, two of its parameters run, spread evenly over them; of one marked `gate(each="kind")`,
one for every value of `kind`, the other parameters taken in turn. What is marked `full` runs in `make test-all` only.
A property is tried on fewer examples; a test that repeats something in a loop asks the fixture `whole_run`. Every other
test runs as it is.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import is_hypothesis_test, settings

EXAMPLES = 25
"""The most examples of a property; a third of those that it states where these are fewer, three at least."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that `make test` and `make check` give."""
    parser.addoption("--gate", action="store_true", help="everything once: repeats are left to `make test-all`")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what the gate leaves out, before marks and workers choose among the rest."""
    if config.getoption("gate"):
        left = left_out(items)
        config.hook.pytest_deselected(items=left)
        out = {id(item) for item in left}
        items[:] = [item for item in items if id(item) not in out]
        with_fewer_examples(items)


@pytest.fixture(scope="session")
def whole_run(request: pytest.FixtureRequest) -> bool:
    """Whether repeats run, too: for loops inside tests."""
    return not request.config.getoption("gate")


def spread(count: int, keep: int) -> list[int]:
    """`keep` places of `count`, the first and the last among them.

    >>> spread(10, 4)
    [0, 3, 6, 9]
    """
    keep = min(keep, count)
    return [round(k * (count - 1) / max(keep - 1, 1)) for k in range(keep)]


def in_turn(values: list[str], keep: int = 1) -> list[int]:
    """Places of `keep` entries for each value: of the first value its first ones, of the second those after, …

    >>> in_turn(["a", "a", "b", "b"])
    [0, 3]
    """
    places = defaultdict(list)
    for place, value in enumerate(values):
        places[value].append(place)
    groups = enumerate(places.values())
    return sorted({group[(number + k) % len(group)] for number, group in groups for k in range(keep)})


def left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """What the gate leaves out of the tests that were collected."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    left = []
    for same in functions.values():
        rest = [item for item in same if item.get_closest_marker("full") is None]
        left += [item for item in same if item not in rest]
        mark = same[0].get_closest_marker("gate")
        if mark is None or not rest:
            continue
        if "each" in mark.kwargs:
            values = [repr(item.callspec.params[mark.kwargs["each"]]) for item in rest]  # type: ignore[attr-defined]
            kept = in_turn(values, *mark.args)
        else:
            kept = spread(len(rest), *mark.args)
        left += [item for place, item in enumerate(rest) if place not in kept]
    return left


def with_fewer_examples(items: list[pytest.Item]) -> None:
    """Properties are tried on a third of their examples, at most `EXAMPLES`."""
    for item in items:
        test = getattr(item, "function", None)
        if test is not None and is_hypothesis_test(test):
            asked = test._hypothesis_internal_use_settings
            few = min(asked.max_examples, max(3, min(asked.max_examples // 3, EXAMPLES)))
            test._hypothesis_internal_use_settings = settings(asked, max_examples=few)
