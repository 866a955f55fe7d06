"""Holds the records and lets nothing out but paid-for releases; it may not show, log or quote a record.

The order of a release is fixed: what the mechanism needs is checked, its cost is counted, an unproven claim
is refused, the budget is charged, and only then are records and noise touched. A refusal therefore costs
nothing and shows nothing; a failure after the charge leaves the charge standing, because what already
happened cannot be undone.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.accounting.events import Event
from privot.common.declared import declared
from privot.common.privacy_unit import Unit
from privot.errors import DataError, PrivotError, UsageError
from privot.guarantee import Adjacency, Guarantee
from privot.kinds import Kind
from privot.mechanisms.mechanism import Facts, Identified, Mechanism, refuse_unit
from privot.mechanisms.summaries.array_columns import checked_columns
from privot.noise import NoiseSource, SystemNoise
from privot.noise.kept_noise import KeptNoise
from privot.release import Release, Value
from privot.vault.budget import LedgerBudget, expect_ledger, opened_budget, owner_key
from privot.vault.partitioned_records import one_place
from privot.vault.record_sources import record_source
from privot.vault.release_steps import (
    SALT_BYTES,
    check_purpose,
    check_standing,
    is_identified,
    kept_noise,
    paid_stream,
    priced,
    run_paid,
)
from privot.vault.shared_records import Party, SharedRecords, check_shareable, noise_of_party
from privot.vault.stream import Stream
from privot.vault.vault_arguments import check_clip, checked_noise, checked_terms, stated_kind
from privot.vault.vault_openers import VaultOpeners

if TYPE_CHECKING:
    from privot.ledger import Ledger


class Vault(VaultOpeners):
    """The records, the public facts about them, the budget they may spend, and the source of noise.

    Nothing leaves a vault except a `Release`, and each one is charged to the budget before a record is touched.
    `Vault.open` reads the records from files.

    Parameters
    ----------
    x
        Records of shape (records, dimension): an array of finite numbers, or what NumPy makes one of. They are copied,
        so nothing done to `x` later changes what is released. Or a `privot.partitions.PartitionedSource`, of which the
        vault holds where the records are; mechanisms then get sums of them and no rows.
    y
        Labels of shape (records,), whole numbers from 0 to `classes` − 1. They are given together with `classes`.
    clip
        Bound on the norm of a row, public and stated, never estimated. A mechanism that asks for clipped rows gets
        x·min(1, clip/‖x‖).
    adjacency
        "add-remove" or "replace-one", stated, without a default. Under replace-one the number of records is public.
    classes
        How many classes there are: public and stated, never read off the labels.
    ledger
        The ledger that pays. It guards one data set: given any other records, a changed value included, it refuses.
    budget
        (ε, δ). Without a `ledger` it is a budget in memory, for this vault in this process. With one it is what the
        ledger is told if it does not know these records yet.
    noise
        The source of noise; the operating system's entropy unless given. With noise from a seed every release is
        UNPROVEN.
    label
        The name by which a ledger lists these records. It is public.
    new_records
        True states that these are new records, not the ones that the ledger guards with a value changed. The statement
        is written to the ledger.
    units
        Whose record each is: texts or whole numbers, of shape (records,). Neighbours then differ in *everything that
        one unit has* and not in one record. Add-remove only.
    unit
        What a unit is called (the name of its column), which is public; with a ledger it has to be given. A `Unit` also
        says at most how many records of each take part, 1 unless given: which ones is decided by a hash of the unit and
        the record alone, and noise grows with it.
    kind
        What the records are and all that is public about them: `Images(…)` or `Vectors(…)` of `privot.kinds`, a
        `Schema`, a codec. What it says (clip, classes) is left out here. It names the columns for mechanisms that read
        one, as `Vectors(columns=("age", "bmi"))` does. Unless given it is what was opened
        where `x` says it, and plain vectors for an array: of encoded rows of a table, give the codec.

    Raises
    ------
    UsageError
        If the clip, the adjacency, the classes or the budget cannot be used, or contradict the ledger.
    DataError
        If the records or labels cannot be used. The sentence quotes none of them.
    OtherRecordsError
        If the ledger guards other records and `new_records` does not state that these are new.

    Notes
    -----
    Formal guarantees:
      * what `release`, `release_once` and `stream` let out is differentially private as the guarantee that it carries
        says, under the assumptions that it lists; floating point is each mechanism's own promise, in its docstring;
      * all releases together cost at most the budget, counted by the accountant before each of them;
      * a refusal touches no record and costs nothing. A failure after the charge leaves the charge standing;
      * with `units`, records are bounded before a mechanism sees them (`privot.kinds.contributions`; partitions to the
        same rows, over all of them together, `privot.partitions.chosen_rows`), and each event that a mechanism
        states for one record is charged for `per_unit` of them (`privot.accounting.for_unit`); mechanisms for which
        that is no theorem are refused. A ledger knows the records, all of them, by the same fingerprint with and
        without units, and has one budget for them, for one grouping into units.

    Threat model: the vault protects against mistakes, not against its own process. No attribute, representation, copy,
    pickle, error message or traceback of privot's shows a record; but Python cannot keep code in the same process from
    reading memory, and a mechanism is handed the records: run only mechanisms you trust, in a process you trust. What a
    release *shows* is covered by its guarantee; how long it took, and that a mechanism failed, are not.

    Examples
    --------
    >>> import numpy as np
    >>> from privot.mechanisms import RandomProjection
    >>> vault = Vault(np.eye(8), clip=0.5, adjacency="replace-one", budget=(10.0, 1e-5))
    >>> vault.release(RandomProjection(slices=4, sigma=1.0), purpose="a first look").value.shape
    (8, 4)
    >>> vault
    <Vault 'records': 8 records in 8 dimensions, clip 0.5, replace-one>
    """

    __slots__ = ("__budget", "__facts", "__kind", "__label", "__lock", "__noise", "__records")

    @declared(ledger="?privot.ledger.ledger:Ledger")
    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        clip: float | None = None,
        adjacency: Adjacency | str,
        classes: int | None = None,
        ledger: Ledger | None = None,
        budget: tuple[float, float] | None = None,
        noise: NoiseSource | None = None,
        label: str = "records",
        new_records: bool = False,
        units: Any = None,
        unit: Unit | str | None = None,
        kind: Any = None,
    ) -> None:
        adjacency = Adjacency.parse(adjacency)
        source = record_source(x, y, units)
        kind, clip, classes = stated_kind(kind, source, clip, classes)
        unit, protected = source.protected(unit)
        check_clip(clip)
        terms, noise = checked_terms(ledger, budget), checked_noise(noise)
        if ledger is not None and protected is not None and unit is None:
            raise UsageError("A ledger's budget is for a unit with a name: give unit, what one of the units is called.")
        if ledger is not None:
            expect_ledger(source, ledger)
        count, dim = source.measured(classes)
        # not under add-remove, where refusing one record and taking two would tell neighbours apart
        if count < 2 and adjacency is Adjacency.REPLACE_ONE:
            raise DataError(
                "A single record cannot be hidden among others under replace-one, where the number of records is "
                "public: give at least two."
            )
        public_count = count if adjacency is Adjacency.REPLACE_ONE else None
        named, whole = checked_columns(kind.columns, dim), source.whole_units
        facts = Facts(dim, public_count, float(clip), adjacency, classes, named, protected, whole_units=whole)
        self.__facts, self.__label, self.__lock = facts, str(label), threading.Lock()
        self.__kind: Kind = kind.described(classes, facts.clip)
        self.__records = source.records(facts, None if ledger is None else owner_key(ledger))
        self.__noise: NoiseSource = noise
        self.__budget = opened_budget(ledger, source, terms, facts, self.__label, new_records)

    @property
    def facts(self) -> Facts:
        """What everybody may know about the records."""
        return self.__facts

    @property
    def kind(self) -> Kind:
        """What is public about what the records are: everybody who needs it asks here, so it is said once."""
        return self.__kind

    @property
    def ledger(self) -> str | None:
        """The public name of the ledger that pays (`Ledger.identity`); None for a budget in memory."""
        return self.__budget.identity

    @property
    def ledger_file(self) -> Path | None:
        """The file of the ledger that pays, beside which paid answers are kept until they are delivered."""
        return self.__budget.path

    def data_name(self) -> str:
        """The ledger's name for the data set: a keyed hash, the same however the records are cut."""
        return self.__paying().data

    def knows(self, mark: str) -> bool:
        """Whether the ledger charged or reserved something whose purpose carries `mark`."""
        return self.__paying().knows(mark)

    def content_name(self, of: Vault | None = None) -> str:
        """The ledger's name for the very records that take part, labels and units included; those `of` another vault.

        A keyed hash: it tells whether two vaults hold the same, to whoever has the ledger's key, and nothing else.
        """
        return self.__paying().content_name((self if of is None else of).__records)

    def __paying(self) -> LedgerBudget:
        if not isinstance(self.__budget, LedgerBudget):
            raise UsageError("Only a ledger remembers what was paid for: give the vault a ledger.")
        return self.__budget

    def charges(self, mark: str) -> int:
        """How many charges for these records carry `mark` in their purpose: what a job that goes on has paid.

        A budget in memory knows those of this vault only.
        """
        return self.__budget.charges(mark)

    def remaining(self) -> float:
        """The ε of the largest Gaussian mechanism that these records may still pay for, at the budget's δ.

        Other mechanisms of that ε take a little more; `check` says what fits. In a ledger other vaults may pay from the
        same budget.

        >>> import numpy as np
        >>> from privot import Count
        >>> vault = Vault(np.zeros((9, 2)), clip=1.0, adjacency="add-remove", budget=(2.0, 1e-5))
        >>> vault.remaining()
        2.0
        >>> _ = vault.release(Count(epsilon=1.0, delta=1e-6), purpose="how many")
        >>> 0.9 < vault.remaining() < 2.0
        True
        """
        return self.__budget.remaining()

    @declared(event="privot.accounting.events:Event")
    def check(self, event: Event, *, purpose: str) -> None:
        """Refuse charges to come that together cost `event` and do not fit the budget; nothing is charged.

        For what pays from several vaults: the refusal of one should not cost another.
        """
        with self.__lock:
            self.__budget.check(event, purpose)

    def reserve(
        self, event: Event, *, purpose: str, mark: str, rows: bool = False, allow_unproven: bool = False
    ) -> None:
        """Charge whole, before its first release, all that a job costs whose charges carry `mark`: `event`.

        For a job that pays several times: its charges then draw on what is reserved, so that it is not begun where it
        cannot be finished, and it is one event to the budget, which costs least. A job reserves once: of one that did,
        only what goes beyond that is checked. `rows` says whether one of its mechanisms draws or keeps single records,
        which partitioned records do not give; what is unproven is refused as by `release`.
        """
        if rows and not self.__records.in_one_place:
            raise one_place()
        check_standing(event, allow_unproven)
        with self.__lock:
            self.__budget.reserve(event, purpose, mark)

    @declared(mechanism="mechanism")
    def release(
        self, mechanism: Mechanism, *, purpose: str, allow_unproven: bool = False, delta: float | None = None
    ) -> Release:
        """Run `mechanism` once and let its value out, after charging for it.

        Parameters
        ----------
        mechanism
            A mechanism of one step; one of several steps, or one that answers queries, is run by `stream`.
        purpose
            What the release is for; it is written to the ledger.
        allow_unproven
            True lets out a release whose guarantee is not a theorem.
        delta
            The δ at which the guarantee is quoted; the budget's unless given.

        Returns
        -------
        Release
            The value, its guarantee, and the public choices behind it.

        Raises
        ------
        BudgetError
            If the budget does not cover the release. Nothing was touched.
        UnprovenError
            If no theorem covers the release and `allow_unproven` is not True. Nothing was touched.
        UsageError
            If the mechanism does not fit the public facts of these records. Nothing was touched.
        PrivotError
            If the mechanism failed after the charge. The charge stays, and what failed is not quoted.
        """
        if mechanism.steps != 1:
            raise UsageError(f"This mechanism runs {mechanism.steps} steps: use the vault's stream.")
        if hasattr(mechanism, "begin"):
            raise UsageError("This mechanism answers queries: use the vault's stream.")
        event, guarantee = self.__pay(mechanism, 1, purpose, allow_unproven, delta)
        return run_paid(mechanism, guarantee, lambda: mechanism.run(self.__records, self.__noise, event, 0))

    @declared(mechanism="mechanism")
    def release_once(
        self, mechanism: Identified, *, purpose: str, secret: bytes, delta: float | None = None
    ) -> Release:
        """Like `release`, but asked again with the same `secret` it gives the same value and is not charged again.

        For a release that must survive a crash between charge and delivery: keep 32 bytes of the operating system's
        entropy with the records until the release is safe on disk, and ask again for the same value. The noise is a
        keyed function of the ledger's name for the records, the mechanism to the last bit, its event and the value, so
        another question with the same secret gets independent noise, and pays. It needs a ledger, which remembers what
        was paid. Parameters, returns and raises are those of `release`; nothing unproven is released this way.
        """
        noise, mark = self.__kept(mechanism, secret)
        charged, guarantee = self.__pay(mechanism, 1, purpose, False, delta, noise, mark)
        return run_paid(mechanism, guarantee, lambda: mechanism.run(self.__records, noise, charged, 0))

    def repeats(self, mechanism: Mechanism) -> bool:
        """Whether a release of `mechanism` can be made again by `release_once`: then a kill cannot lose it.

        It can where a ledger remembers what was paid for, noise is the operating system's, and the mechanism, proven
        and of one step, says what it is to the last bit.
        """
        plain = isinstance(self.__budget, LedgerBudget) and type(self.__noise) is SystemNoise
        return plain and is_identified(mechanism)

    def release_shared(
        self,
        mechanism: Identified,
        party: Party,
        *,
        purpose: str,
        allow_unproven: bool = False,
        delta: float | None = None,
    ) -> Release:
        """This vault's part in a release over the records of many parties, as if they lay in one vault.

        Every party calls it at once with the same mechanism, each in its own process, and with a `party` that serves
        this one release. What comes back is the same for all of them, and a party that was shown other totals than the
        others finds out. Nobody sees more of these records than the release and `party` say: sums leave under masks,
        with this party's share of the noise (`privot.noise.shared_noise`). The guarantee is for these records. This
        vault's budget pays before anything is sent, and once, however often the job is run again: with a ledger the
        noise follows from the party's salt, the ledger's key, the records and all that is asked, so it is the same
        each time, and whatever makes one of them another is another release, which pays. Parameters, returns and raises
        are those of `release`; a sum that is not made raises what `party` says.

        What this cannot see: a party's folder that is restored from an older copy forgets which questions were
        answered, so keep it out of backups.
        """
        check_shareable(mechanism, self.__facts)
        mechanism.needs.check(self.__facts)
        noise, mark = noise_of_party(mechanism, party, self.__records, self.__noise, self.__budget)
        charged, guarantee = self.__pay(mechanism, 1, purpose, allow_unproven, delta, noise, mark)
        seen = SharedRecords(self.__records, party)

        def work() -> tuple[Value, Mapping[str, Any]]:
            made = mechanism.run(seen, noise, charged, 0)
            party.end()
            return made

        try:
            return run_paid(mechanism, guarantee, work)
        except PrivotError:
            if party.failure is None:
                raise
        # raised out here: what it hangs on inside the handler may hold records
        raise party.failure

    def secret_of(self, salt: bytes) -> bytes:
        """A secret for `release_once` that only this `salt` and the ledger's key together give.

        Keep the salt (32 bytes of the operating system's entropy) until the release is on disk: it may lie where the
        secret may not, since without the ledger's key it says nothing of the noise.
        """
        if len(salt) != SALT_BYTES:
            raise UsageError(f"A salt has {SALT_BYTES} bytes, got {len(salt)}.")
        return self.__paying().secret_of(salt)

    def forget_sums(self) -> None:
        """Remove the sums of finished partitions that are kept for a release which is on disk now."""
        self.__records.forget_sums()

    def released_once(self, mechanism: Identified, *, secret: bytes) -> bool:
        """Whether `release_once` with this mechanism and `secret` was paid for: asked again, it charges nothing."""
        budget = self.__budget
        return isinstance(budget, LedgerBudget) and budget.charged_once(self.__kept(mechanism, secret)[1])

    def __kept(self, mechanism: Identified, secret: bytes) -> tuple[KeptNoise, str]:
        """The noise of one release that can be made again, and the mark of its charge (`kept_noise`)."""
        budget = self.__paying()
        if mechanism.steps != 1 or not hasattr(mechanism, "identity"):
            raise UsageError("release_once needs a mechanism of one step, with an identity.")
        mechanism.needs.check(self.__facts)
        records = hashlib.sha256(self.__records.exact_digest(budget.row_key)).hexdigest()
        return kept_noise(mechanism, secret, self.__facts, budget.data, records, budget.charged_once)

    @declared(mechanism="mechanism")
    def stream(
        self, mechanism: Mechanism, *, purpose: str, allow_unproven: bool = False, delta: float | None = None
    ) -> Stream:
        """All steps of `mechanism`, charged together now, run one by one as the stream is read or asked.

        Parameters and raises are those of `release`; every release of the stream carries the guarantee of all steps.
        """
        event, guarantee = self.__pay(mechanism, mechanism.steps, purpose, allow_unproven, delta)
        return paid_stream(mechanism, guarantee, event, self.__records, self.__noise)

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
        check_purpose(purpose)
        mechanism.needs.check(self.__facts)
        if not mechanism.needs.sums_only:
            if not self.__records.in_one_place:
                raise one_place()
            refuse_unit(self.__facts, f"{type(mechanism).__name__} draws or keeps single records, so it")
        step, whole, guarantee = priced(
            mechanism, steps, self.__facts, noise, self.__budget.delta if delta is None else delta, allow_unproven
        )
        with self.__lock:
            if mark is None:
                self.__budget.charge(whole, purpose, mechanism.seed)
            else:
                assert isinstance(self.__budget, LedgerBudget)
                self.__budget.charge_once(whole, purpose, mark, mechanism.seed)
        return step, guarantee

    def __repr__(self) -> str:
        f = self.__facts
        rows = self.__kind.rows_are
        count = rows if f.records is None else f"{f.records} {rows}"
        of_unit = "" if f.unit is None else f" of {f.unit}"
        return f"<Vault {self.__label!r}: {count} in {f.dim} dimensions, clip {f.clip:g}, {f.adjacency}{of_unit}>"
