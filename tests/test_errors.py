"""Errors: each ends a command with the exit code the documentation promises, and shows values on one short line."""

from __future__ import annotations

import numpy as np
import pytest

from privot import errors
from privot.errors import (
    BudgetError,
    ConvergenceError,
    CorruptLedgerError,
    DataError,
    NoTheoremError,
    PrivotError,
    RefutedError,
    UnprovenError,
    UsageError,
    brief,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UsageError, 2),
        (DataError, 3),
        (CorruptLedgerError, 3),
        (BudgetError, 4),
        (UnprovenError, 5),
        (NoTheoremError, 5),
        (ConvergenceError, 6),
        (RefutedError, 7),
    ],
)
def test_exit_codes_are_those_of_the_contract(kind: type[PrivotError], code: int) -> None:
    assert kind.exit_code == code
    with pytest.raises(PrivotError, match="what to do"):
        raise kind("what to do")


def test_every_error_is_ours_and_has_a_code() -> None:
    kinds = [v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, BaseException)]
    assert len(kinds) >= 8
    for kind in kinds:
        assert issubclass(kind, PrivotError)
        assert kind.exit_code in {1, 2, 3, 4, 5, 6, 7, 130}
        assert kind.__doc__


def test_wrong_arguments_and_data_are_value_errors_too() -> None:
    """So that code which knows nothing of privot still catches them; a refused budget is no such thing."""
    assert issubclass(UsageError, ValueError)
    assert issubclass(DataError, ValueError)
    assert not issubclass(BudgetError, ValueError)
    assert not issubclass(UnprovenError, ValueError)


def test_a_value_is_shown_on_one_short_line() -> None:
    for value in (1.5, "text", None, "a\nb", "x" * 1000, list(range(1000)), 10**5000, b"\n", np.eye(9)):
        text = brief(value)
        assert 0 < len(text) <= 60
        assert "\n" not in text


def test_short_values_are_shown_whole() -> None:
    assert brief(0.25) == "0.25"
    assert brief("δ") == "'δ'"
