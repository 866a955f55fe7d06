"""The errors privot raises, and the exit code each one ends a command with.

An error is one sentence that says what is wrong and what to do. None of them ever carries a record.

Exit codes: 0 done; 1 internal error (an error of another type than these: a fault of privot's, or no memory left);
2 wrong usage; 3 bad data; 4 a budget or a policy refuses; 5 unproven and not allowed; 6 did not converge, or no answer
in time; 7 an audit refutes a claim; 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class PrivotError(Exception):
    """Anything privot refuses to do. Subclasses say which exit code a command ends with."""

    exit_code = 1


class UsageError(PrivotError, ValueError):
    """An argument is out of range, of the wrong kind, or contradicts another one."""

    exit_code = 2


class MissingDependencyError(UsageError, ModuleNotFoundError):
    """An optional package is not installed; the sentence names the extra of privot that installs it.

    It is a ModuleNotFoundError too, with the module's `name`, so that `except ImportError` still finds it.
    """

    def __init__(self, sentence: str, name: str | None = None) -> None:
        super().__init__(sentence)
        self.name = name


class DataError(PrivotError, ValueError):
    """The data cannot be used: unreadable, empty, not finite, or of the wrong shape."""

    exit_code = 3


class CorruptLedgerError(DataError):
    """The ledger's rows do not agree with its hash chain, or the file is not a ledger."""


class BudgetError(PrivotError):
    """The budget does not cover the release; nothing was released."""

    exit_code = 4


class OtherRecordsError(BudgetError):
    """A ledger was given other records than those it guards, and it was not stated that they are new."""


class LostReleaseError(BudgetError):
    """A charge stands and its release is lost: only an explicit second charge makes another."""


class PolicyError(PrivotError):
    """A party's policy does not allow what was asked of it; nothing was released."""

    exit_code = 4


class UnprovenError(PrivotError):
    """The mechanism has no theorem behind it and was not explicitly allowed."""

    exit_code = 5


class NoTheoremError(UnprovenError):
    """This combination of mechanism, sampling and adjacency has no theorem, so no number is given for it."""


class ConvergenceError(PrivotError):
    """A solver stopped before it reached its tolerance; the message says how far it got."""

    exit_code = 6


class NoAnswerError(PrivotError):
    """A party or a process did not answer in time, or ended; the message says who, and where its log is."""

    exit_code = 6


class RefutedError(PrivotError):
    """An audit measured more than was claimed, or found a leak; its findings say where."""

    exit_code = 7


class StoppedError(PrivotError):
    """The user or the system asked to stop; the message says what was paid, what is kept and how to go on."""

    exit_code = 130


@contextmanager
def said_by(file: object) -> Iterator[None]:
    """Within, what goes wrong is the fault of what `file` says: it is untrusted input, and a `DataError` names it.

    >>> with said_by("config.json"):
    ...     int("many")
    Traceback (most recent call last):
    privot.errors.DataError: config.json is damaged, or was changed (ValueError).
    """
    try:
        yield
    except UsageError as error:
        raise DataError(f"{file} cannot be used: {error}") from None
    except (PrivotError, OSError, MemoryError, ImportError):
        raise
    except Exception as error:
        raise DataError(f"{file} is damaged, or was changed ({type(error).__name__}).") from None


def brief(value: object) -> str:
    """`value` on one short line, for an error message; of an array or a DataFrame, which may be records, its shape."""
    if getattr(value, "shape", ()) and not isinstance(value, type):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"  # type: ignore[attr-defined]
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer with thousands of digits
        text = "a number with thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."
