"""The steps of a release around the records: its price, noise that can be made again, and the run once it is paid.

None of them reads a record: what does so is handed in as `work`, and the vault calls it after the charge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, cast

from privot.accounting import account
from privot.accounting.assumptions import standing_of
from privot.accounting.events import Downgraded, Event, adjacency_of, of_standing, repeated
from privot.errors import PrivotError, UnprovenError, UsageError
from privot.guarantee import Guarantee, Standing
from privot.mechanisms.mechanism import Answer, Answering, Facts, Identified, Mechanism, Records, name_of
from privot.noise import NoiseSource
from privot.noise.kept_noise import KeptNoise, mark_of
from privot.partitions.engines.engine import arithmetic_mark
from privot.partitions.kept_sums import described
from privot.release import Release, Value
from privot.vault.stream import Stream

SALT_BYTES = 32
"""Of what a release's secret follows from, together with a ledger's key."""


def check_purpose(purpose: Any) -> None:
    """Refuse a purpose that is no text, or one that ends like a mark that the ledger adds itself."""
    if not isinstance(purpose, str) or not purpose.strip():
        raise UsageError("A release needs a purpose, a text that is not empty: it is written to the ledger.")
    if purpose.rstrip().endswith("]") and ("[seed" in purpose or "[once" in purpose):
        raise UsageError('The purpose must not end in "[seed …]" or "[once …]": these suffixes are reserved.')


def priced(
    mechanism: Mechanism, steps: int, facts: Facts, noise: NoiseSource, delta: float, allow_unproven: bool
) -> tuple[Event, Event, Guarantee]:
    """The event of one step, what all steps are charged, and the guarantee of all of them at `delta`.

    Refuses an event under another adjacency than that of `facts`, and without `allow_unproven` what no theorem covers.
    """
    step = mechanism.event(facts)
    if adjacency_of([step]) is not facts.adjacency:
        raise UsageError(
            f"The mechanism's event is not under the vault's adjacency, {facts.adjacency}: make it for that."
        )
    whole = of_standing(repeated(facts.cost(step), steps), mechanism.standing)
    if noise.standing is not Standing.PROVEN:
        whole = Downgraded(whole, noise.standing, "the noise is not secret: it comes from a seed")
    check_standing(whole, allow_unproven)
    guarantee = account(whole, delta)
    stated = getattr(mechanism, "assumptions", ())
    assumptions = dict.fromkeys((*guarantee.assumptions, *stated, *noise.assumptions))
    return step, whole, replace(guarantee, assumptions=tuple(assumptions))


def check_standing(event: Event, allow_unproven: bool) -> None:
    """Refuse what no theorem covers, unless it is allowed."""
    standing = standing_of(event)
    if standing is not Standing.PROVEN and allow_unproven is not True:
        why = "Only a limit argument" if standing is Standing.ASYMPTOTIC else "No theorem"
        raise UnprovenError(f"{why} covers this release: pass allow_unproven=True to make it nevertheless.")


def is_identified(mechanism: Mechanism) -> bool:
    """Whether a proven mechanism of one step can be told from every other one (`Identified`)."""
    if mechanism.steps != 1 or not hasattr(mechanism, "identity") or mechanism.standing is not Standing.PROVEN:
        return False
    try:
        name_of(mechanism)
        mechanism.identity()
    except UsageError:
        return False
    return True


def exact_columns(facts: Facts) -> bytes:
    """How the rows are read, column by column, to the last bit; it is not in `Facts.identity`."""
    found = described(tuple(facts.columns))
    if found is None:
        stated = [(c.name, c.place, c.range, c.categories, c.missing, c.whole) for c in facts.columns]
        found = repr(stated).encode()
    return found


def kept_noise(
    mechanism: Identified,
    secret: bytes,
    facts: Facts,
    data: str,
    records: str,
    charged: Callable[[str], bool] = lambda mark: False,
) -> tuple[KeptNoise, str]:
    """The noise of one release that can be made again, and the mark of its charge.

    Both are bound to `data`, the ledger's name for the records, and to the very `records`, by a digest for which nobody
    without the ledger's key finds others: one noise on two data sets would show what differs between them, and the
    second would not pay. So they are to the columns where a mechanism names one: it could read another. They are
    bound to the versions and the rounding of this machine too: a part that is fitted to an earlier one could come out
    a little different elsewhere, and would get fresh noise; so elsewhere it is another release, and pays.
    """
    named = [
        data,
        name_of(mechanism),
        facts.identity(),
        records,
        repr(sorted(facts.cost(mechanism.event(facts)).to_dict().items())),
        arithmetic_mark(("scipy",), mechanism.needs.tensors),
    ]
    about = "\n".join(named).encode() + b"\n" + mechanism.identity()
    # what asks for no column reads all rows as they are, whatever their columns are called here or there
    if hasattr(mechanism, "column") and not charged(mark_of(secret, about)):
        # an earlier version paid for the columns that it was begun with, and wrote a mark that no later one writes
        about += b"\ncolumns " + exact_columns(facts)
    return KeptNoise(secret, about), mark_of(secret, about)


def run_paid(
    mechanism: Mechanism, guarantee: Guarantee, work: Callable[[], tuple[Value, Mapping[str, Any]]]
) -> Release:
    """The release of one step, already paid for; a failure of `work` is told by its kind alone."""
    try:
        # no name here for what the mechanism returned: this frame goes with the error that is raised below
        return _released(guarantee, *work())
    except BaseException as error:
        failure: type[BaseException] = type(error)
    # raised out here: inside the handler the failure, whose message and frames may hold records, hangs on
    if not issubclass(failure, Exception):
        # an interrupt goes on as one, without the frames that hold un-noised values
        raise failure
    kind = failure if issubclass(failure, PrivotError) else PrivotError
    raise kind(
        f"{type(mechanism).__name__} failed after it was paid for ({failure.__name__}): "
        "the charge stays, and the message is withheld because it could quote a record."
    )


def paid_stream(
    mechanism: Mechanism, guarantee: Guarantee, event: Event, records: Records, noise: NoiseSource
) -> Stream:
    """All steps of `mechanism`, already paid for, run one by one as the stream is read or asked."""
    if not hasattr(mechanism, "begin"):

        def run(step: int, query: Any) -> Release:
            return run_paid(mechanism, guarantee, lambda: mechanism.run(records, noise, event, step))

        return Stream(run, guarantee, mechanism.steps)
    answering = cast(Answering, mechanism)
    begun: list[Answer] = []
    lock = Lock()

    def answer(step: int, query: Any) -> Release:
        def work() -> tuple[Value, Mapping[str, Any]]:
            # one at a time: what a mechanism keeps between steps is not made for several threads
            with lock:
                if not begun:
                    begun.append(answering.begin(records, noise, event))
                return begun[0](step, query)

        return run_paid(mechanism, guarantee, work)

    return Stream(answer, guarantee, mechanism.steps, answering.check)


def _released(guarantee: Guarantee, value: Value, public: Mapping[str, Any]) -> Release:
    return Release(value, guarantee, public)
