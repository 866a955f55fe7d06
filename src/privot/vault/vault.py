"""Holds the records and lets nothing out but paid-for releases; it may not show, log or quote a record.

The order of a release is fixed: what the mechanism needs is checked, its cost is counted, an unproven claim
is refused, the budget is charged, and only then are records and noise touched. A refusal therefore costs
nothing and shows nothing; a failure after the charge leaves the charge standing, because what already
happened cannot be undone.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account
from privot.accounting.events import Downgraded, Event, adjacency_of, repeated
from privot.common.arguments import check_delta, check_epsilon
from privot.data import checked_labels, checked_rows
from privot.errors import DataError, PrivotError, UnprovenError, UsageError
from privot.guarantee import Adjacency, Guarantee, Standing
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.mechanism import Answer, Answering, Facts, Identified, Mechanism
from privot.noise import KeptNoise, NoiseSource, SystemNoise
from privot.noise.kept_noise import mark_of
from privot.release import Release, Value
from privot.vault.budget import LedgerBudget, MemoryBudget, row_digests
from privot.vault.stream import Sealed, Stream

if TYPE_CHECKING:
    from privot.ledger import Ledger

__all__ = ["CLIP_RANGE", "Stream", "Vault"]

CLIP_RANGE = (1e-100, 1e100)
"""Bounds on norms for which neither a squared norm nor σ leaves the floats."""


class _Records(Sealed):
    """The arrays, in closures: an object browser finds functions here, not values."""

    __slots__ = ("__labels", "__rows", "count", "facts")

    def __init__(self, x: NDArray[Any], y: NDArray[np.int64] | None, facts: Facts) -> None:
        def rows(indices: NDArray[np.int64] | None) -> NDArray[np.float64]:
            return np.array(x if indices is None else x[indices], dtype=np.float64)

        def labels(indices: NDArray[np.int64] | None) -> NDArray[np.int64]:
            if y is None:
                raise UsageError("The vault holds no labels: give it y and the number of classes.")
            return np.array(y if indices is None else y[indices])

        self.__rows, self.__labels = rows, labels
        self.count, self.facts = x.shape[0], facts

    def rows(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        return self.__rows(indices)

    def clipped(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        return clip_rows(self.__rows(indices), self.facts.clip)

    def labels(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        return self.__labels(indices)


class Vault(Sealed):
    """Records `x` of shape (records, dimension), labels `y`, public facts, a budget and a source of noise.

    `clip` bounds the norm of a row and `classes` the labels; both are public and stated, never estimated.
    `adjacency` is stated too. The budget is the `ledger`'s, or `budget` = (ε, δ); with both, `budget` is what
    the ledger is told if it does not know these records yet. A ledger guards one data set: given any others, a changed
    value included, it refuses, unless `new_records=True` states that these are new records; that is written down in it.
    The records are copied, so nothing done to `x`
    later changes what is released.

    Threat model: the vault protects against mistakes, not against its own process. No attribute,
    representation, copy, pickle, error message or traceback of privot's shows a record; but Python cannot
    keep code in the same process from reading memory, and a mechanism is handed the records: run only
    mechanisms you trust, in a process you trust. What a release *shows* is covered by its guarantee; how long
    it took, and that a mechanism failed, are not.

    >>> from privot.mechanisms import RandomProjection
    >>> vault = Vault(np.eye(8), clip=0.5, adjacency="replace-one", budget=(10.0, 1e-5))
    >>> vault.release(RandomProjection(slices=4, sigma=1.0), purpose="a first look").value.shape
    (8, 4)
    """

    __slots__ = ("__budget", "__facts", "__label", "__lock", "__noise", "__records")

    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        clip: float,
        adjacency: Adjacency | str,
        classes: int | None = None,
        ledger: Ledger | None = None,
        budget: tuple[float, float] | None = None,
        noise: NoiseSource | None = None,
        label: str = "records",
        new_records: bool = False,
    ) -> None:
        adjacency = Adjacency.parse(adjacency)
        if isinstance(clip, bool) or not isinstance(clip, int | float) or not CLIP_RANGE[0] <= clip <= CLIP_RANGE[1]:
            raise UsageError(f"The clip must be a number from {CLIP_RANGE[0]:g} to {CLIP_RANGE[1]:g}, got {clip!r}.")
        if ledger is None and budget is None:
            raise UsageError("A vault needs a budget: give it a ledger, or budget=(ε, δ).")
        if isinstance(noise, KeptNoise):
            # the same for everything asked of it: two releases, or two vaults, would show what differs between them
            raise UsageError("Noise from a kept secret is for one release: leave it out, and use release_once.")
        rows = checked_rows(x)
        # not under add-remove, where refusing one record and taking two would tell neighbours apart
        if rows.shape[0] < 2 and adjacency is Adjacency.REPLACE_ONE:
            raise DataError(
                "A single record cannot be hidden among others under replace-one, where the number of records is "
                "public: give at least two."
            )
        labels = _checked_classes(y, classes, rows.shape[0])
        public_count = rows.shape[0] if adjacency is Adjacency.REPLACE_ONE else None
        self.__facts = Facts(rows.shape[1], public_count, float(clip), adjacency, classes)
        self.__records = _Records(rows, labels, self.__facts)
        self.__noise: NoiseSource = SystemNoise() if noise is None else noise
        self.__label = str(label)
        self.__lock = threading.Lock()
        self.__budget: MemoryBudget | LedgerBudget
        if ledger is None:
            self.__budget = MemoryBudget(*_pair(budget))
        else:
            terms = None if budget is None else _pair(budget)
            self.__budget = LedgerBudget(ledger, rows, terms, adjacency, self.__label, new_records)

    @property
    def facts(self) -> Facts:
        """What everybody may know about the records."""
        return self.__facts

    @property
    def ledger(self) -> str | None:
        """The public name of the ledger that pays (`Ledger.identity`); None for a budget in memory."""
        return self.__budget.identity

    def charges(self, mark: str) -> int:
        """How many charges for these records carry `mark` in their purpose: what a job that goes on has paid.

        A budget in memory knows those of this vault only.
        """
        return self.__budget.charges(mark)

    def check(self, event: Event, *, purpose: str) -> None:
        """Refuse charges to come that together cost `event` and do not fit the budget; nothing is charged.

        For a job that pays several times: what it cannot finish it should not begin.
        """
        with self.__lock:
            self.__budget.check(event, purpose)

    def release(
        self, mechanism: Mechanism, *, purpose: str, allow_unproven: bool = False, delta: float | None = None
    ) -> Release:
        """Run `mechanism` once and let its value out, after charging for it.

        `purpose` is written to the ledger. The guarantee is quoted at `delta` (the budget's unless given).
        Raises `BudgetError`, `UnprovenError` or `UsageError` before anything is touched.
        """
        if mechanism.steps != 1:
            raise UsageError(f"This mechanism runs {mechanism.steps} steps: use the vault's stream.")
        if hasattr(mechanism, "begin"):
            raise UsageError("This mechanism answers queries: use the vault's stream.")
        event, guarantee = self.__pay(mechanism, 1, purpose, allow_unproven, delta)
        return self.__run(mechanism, guarantee, lambda: mechanism.run(self.__records, self.__noise, event, 0))

    def release_once(
        self, mechanism: Identified, *, purpose: str, secret: bytes, delta: float | None = None
    ) -> Release:
        """Like `release`, but however often it is asked with one `secret`, charged once and answered alike.

        For a release that must survive a crash between charge and delivery: whoever keeps 32 bytes of the operating
        system's entropy with the records, until the release is safe on disk, can ask again for the same value. The
        noise is a keyed function of the ledger's name for the records, the mechanism to the last bit, its event and
        the value, so another question with the same secret gets independent noise, and pays. Needs a ledger, which
        remembers.
        """
        budget = self.__budget
        if not isinstance(budget, LedgerBudget):
            raise UsageError("Only a ledger remembers what was paid for: give the vault a ledger.")
        if mechanism.steps != 1 or mechanism.seed is not None or not hasattr(mechanism, "identity"):
            raise UsageError("Only a mechanism of one step that says its identity, without a seed, can be asked again.")
        mechanism.needs.check(self.__facts)
        # which label belongs to which row: the ledger's name for the records does not say
        labelled, held = "", self.__records
        if self.__facts.classes is not None:
            labelled = hashlib.sha256(row_digests(held.rows(), held.labels()).tobytes()).hexdigest()
        kind = f"{type(mechanism).__module__}.{type(mechanism).__qualname__}"
        named = [
            kind,
            repr(self.__facts),
            labelled,
            repr(sorted(mechanism.event(self.__facts).to_dict().items())),
        ]
        about = "\n".join([budget.data, *named]).encode() + b"\n" + mechanism.identity()
        noise = KeptNoise(secret, about)
        mark = mark_of(secret, about)
        charged, guarantee = self.__pay(mechanism, 1, purpose, False, delta, noise, mark)
        return self.__run(mechanism, guarantee, lambda: mechanism.run(self.__records, noise, charged, 0))

    def stream(
        self, mechanism: Mechanism, *, purpose: str, allow_unproven: bool = False, delta: float | None = None
    ) -> Stream:
        """All steps of `mechanism`, charged together now, run one by one as the stream is read or asked."""
        steps = mechanism.steps
        event, guarantee = self.__pay(mechanism, steps, purpose, allow_unproven, delta)
        if not hasattr(mechanism, "begin"):

            def run(step: int, query: Any) -> Release:
                return self.__run(
                    mechanism, guarantee, lambda: mechanism.run(self.__records, self.__noise, event, step)
                )

            return Stream(run, guarantee, steps)
        answering = cast(Answering, mechanism)
        begun: list[Answer] = []
        lock = threading.Lock()

        def answer(step: int, query: Any) -> Release:
            def work() -> tuple[Value, Mapping[str, Any]]:
                # one at a time: what a mechanism keeps between steps is not made for several threads
                with lock:
                    if not begun:
                        begun.append(answering.begin(self.__records, self.__noise, event))
                    return begun[0](step, query)

            return self.__run(mechanism, guarantee, work)

        return Stream(answer, guarantee, steps, answering.check)

    def __pay(
        self,
        mechanism: Mechanism,
        steps: int,
        purpose: str,
        allow_unproven: bool,
        delta: float | None,
        noise: NoiseSource | None = None,
        mark: str | None = None,
    ) -> tuple[Event, Guarantee]:
        """The event of one step, and the guarantee of all of them, charged (with a `mark`: unless it was before)."""
        noise = self.__noise if noise is None else noise
        if not isinstance(purpose, str) or not purpose.strip():
            raise UsageError("Say what the release is for: its purpose is written to the ledger.")
        if purpose.rstrip().endswith("]") and ("[seed" in purpose or "[once" in purpose):
            raise UsageError("A purpose may not end like a mark that the ledger keeps: reword it.")
        mechanism.needs.check(self.__facts)
        step = mechanism.event(self.__facts)
        if adjacency_of([step]) is not self.__facts.adjacency:
            raise UsageError(f"The mechanism counts under another adjacency than the vault's {self.__facts.adjacency}.")
        whole = repeated(step, steps)
        for standing, reason in (
            (mechanism.standing, f"the mechanism itself is {mechanism.standing}"),
            (noise.standing, "the noise is not secret: it comes from a seed"),
        ):
            if standing is not Standing.PROVEN:
                whole = Downgraded(whole, standing, reason)
        guarantee = account(whole, self.__budget.delta if delta is None else delta)
        if guarantee.standing is not Standing.PROVEN and allow_unproven is not True:
            why = "Only a limit argument" if guarantee.standing is Standing.ASYMPTOTIC else "No theorem"
            raise UnprovenError(f"{why} covers this release: say allow_unproven=True to make it nevertheless.")
        assumptions = dict.fromkeys((*guarantee.assumptions, *noise.assumptions))
        with self.__lock:
            if mark is None:
                self.__budget.charge(whole, purpose, mechanism.seed)
            else:
                assert isinstance(self.__budget, LedgerBudget)
                self.__budget.charge_once(whole, purpose, mark)
        return step, replace(guarantee, assumptions=tuple(assumptions))

    def __run(
        self, mechanism: Mechanism, guarantee: Guarantee, work: Callable[[], tuple[Value, Mapping[str, Any]]]
    ) -> Release:
        """One step, already paid for."""
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

    def __repr__(self) -> str:
        f = self.__facts
        count = "records" if f.records is None else f"{f.records} records"
        return f"<Vault {self.__label!r}: {count} in {f.dim} dimensions, clip {f.clip:g}, {f.adjacency}>"


def _released(guarantee: Guarantee, value: Value, public: Mapping[str, Any]) -> Release:
    return Release(value, guarantee, public)


def _pair(budget: Any) -> tuple[float, float]:
    try:
        epsilon, delta = budget
    except (TypeError, ValueError):
        raise UsageError("A budget is a pair (ε, δ).") from None
    return check_epsilon(epsilon), check_delta(delta)


def _checked_classes(y: Any, classes: int | None, records: int) -> NDArray[np.int64] | None:
    """The labels, if there are any, each from 0 to `classes` − 1."""
    if (y is None) != (classes is None):
        raise UsageError("Labels and the number of classes go together: the number is public, never read off labels.")
    if y is None or classes is None:
        return None
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 1:
        raise UsageError(f"The number of classes must be a whole number of at least 1, got {classes!r}.")
    return checked_labels(y, records, classes)
