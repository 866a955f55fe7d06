"""FedWad: always an upper bound, right when t is random, stuck at a wrong answer when it is fixed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.errors import UsageError
from privot.federation import fedwad
from privot.federation.protocols.answering import drive, local_party
from privot.federation.protocols.fedwad import fedwad_steps
from privot.transport import exact

X = np.random.default_rng(1).normal(size=(40, 30))
Y = np.random.default_rng(2).normal(size=(40, 30)) + 0.3
DIRECT = exact(X, Y).value


def test_random_t_converges_and_a_fixed_t_stops_at_a_wrong_value() -> None:
    random = [fedwad(X, Y, 20, seed=s).value / DIRECT - 1 for s in range(3)]
    fixed = fedwad(X, Y, 20, t=0.5, seed=0)
    assert max(random) < 0.02
    assert fixed.value / DIRECT - 1 > 0.05
    assert fixed.history[-1] == pytest.approx(fixed.history[-5], rel=1e-3)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 8), st.sampled_from([1.0, 2.0, 3.0]))
def test_every_round_is_an_upper_bound(seed, n, m, p) -> None:
    g = np.random.default_rng(seed)
    x, y = g.normal(size=(n, 2)), g.normal(size=(m, 2)) + 1
    found = fedwad(x, y, 3, p, seed=seed)
    assert min(found.history) >= exact(x, y, p).value - 1e-9
    assert len(found.history) == found.rounds == 3


def test_on_a_line_it_is_soon_exact() -> None:
    x, y = np.arange(6.0), np.arange(6.0) ** 2
    assert fedwad(x, y, 30, seed=1).value == pytest.approx(exact(x, y).value, rel=1e-6)


def test_no_message_holds_the_records() -> None:
    seen = []

    def watched(x):
        party = local_party(x)

        def answer(question):
            said = party(question)
            seen.append(np.abs(said.points - x).max())
            return said

        return answer

    drive(fedwad_steps(np.zeros_like(X), 2), watched(X), watched(Y))
    assert len(seen) == 6
    assert min(seen) > 1e-3


@pytest.mark.parametrize("arguments", [{"rounds": 0}, {"t": 0.0}, {"t": "half"}, {"p": 0.0}])
def test_invalid_arguments_are_refused(arguments) -> None:
    with pytest.raises(UsageError):
        fedwad(X, Y, **arguments)
