"""A vault's part in a release over the records of many parties; it shows a mechanism nothing but this party's sums."""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import BlockSum, Totals
from privot.errors import PrivotError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.mechanism import Facts, Identified, Mechanism, Records, name_of
from privot.noise import NoiseSource, SystemNoise
from privot.noise.kept_noise import KeptNoise, mark_of
from privot.noise.shared_noise import SharedNoise
from privot.partitions.engines.engine import arithmetic_mark
from privot.partitions.kept_sums import described
from privot.vault.array_records import _Records
from privot.vault.budget import LedgerBudget, MemoryBudget
from privot.vault.partitioned_records import PartitionedRecords
from privot.vault.release_steps import SALT_BYTES, exact_columns


class Party(Protocol):
    """One party's side of a release that many make together (`privot.federation.secure_sum.party`)."""

    job: str
    """The digest of the job, of all parties, and of how many of them may collude."""
    salt: bytes
    """What this party's noise follows from, with the key of the ledger that pays; it stays in the party's folder."""
    failure: PrivotError | None
    """Why a sum was not made; it says nothing of records, which a sum never sees unmasked."""

    def begin(self, release: bytes, secret: bytes, own: NoiseSource) -> SharedNoise:
        """The noise of the one release that the party serves; refuses another one, and one whose `secret` changed."""
        ...

    def about(self, asked: bytes) -> None:
        """Bind the next question to what is asked of the records; the same at every party."""
        ...

    def end(self) -> None:
        """Find out whether all parties were shown the same totals."""
        ...


def asked_of_all(mechanism: Identified, facts: Facts, standing: Standing) -> bytes:
    """Everything that all parties must mean alike: mechanism and columns to the last bit, cost and standing."""
    cost = sorted(facts.cost(mechanism.event(facts)).to_dict().items())
    held = [name_of(mechanism), facts.identity(), repr(facts.unit), repr(cost), str(standing)]
    return b"\n".join([*(text.encode() for text in held), exact_columns(facts), mechanism.identity()])


def derived(secret: bytes, named: bytes) -> tuple[bytes, KeptNoise, str]:
    """(what a party commits to, its noise, the mark of its charge), all of them following from a `secret`.

    They are made here and nowhere else, so that no frame through which an error may pass holds the secret.
    """
    return hmac.digest(secret, named, hashlib.sha256), KeptNoise(secret, named), mark_of(secret, named)


def check_shareable(mechanism: Mechanism, facts: Facts) -> None:
    """Refuse, before anything is paid, a release that many parties cannot make together."""
    if not mechanism.needs.shareable or mechanism.steps != 1 or hasattr(mechanism, "begin"):
        raise UsageError(
            f"{type(mechanism).__name__} is not made of sums over records, so many parties cannot make it together: "
            "release a table, an embedding, a sketch, counts or a mean."
        )
    if facts.adjacency is not Adjacency.ADD_REMOVE:
        raise UsageError(
            "Many parties release together under add-remove: under replace-one the number of records of each would "
            "have to be public."
        )


def noise_of_party(
    mechanism: Identified,
    party: Party,
    records: _Records | PartitionedRecords,
    own: NoiseSource,
    budget: MemoryBudget | LedgerBudget,
) -> tuple[NoiseSource, str | None]:
    """The noise of one release of many parties, and the mark of its charge, where a ledger remembers one.

    The noise is that of the party's salt, of the vault's secret, of the records and of all that is asked.
    """
    asked = asked_of_all(mechanism, records.facts, own.standing)
    if type(own) is not SystemNoise:
        if own.standing is Standing.PROVEN:
            raise UsageError("A release of many parties takes its noise from the operating system: leave noise out.")
        # for tests: it cannot be made again, so another run is another release
        return party.begin(asked, os.urandom(SALT_BYTES), own), None
    named = f"{party.job}\n{arithmetic_mark(('scipy',), mechanism.needs.tensors)}\n".encode() + asked + b"\n"
    if isinstance(budget, LedgerBudget):
        named += budget.data.encode() + hashlib.sha256(records.exact_digest(budget.row_key)).digest()
    committed, noise, mark = derived(budget.secret_of(party.salt), named)
    return party.begin(asked, committed, noise), mark if isinstance(budget, LedgerBudget) else None


class SharedRecords:
    """This party's records as a mechanism sees them: their sums, and what is public about them.

    What is asked is bound to the question that the sum answers, so that a party which was made to ask for something
    else finds out before it sends anything.
    """

    __slots__ = ("__party", "__records")

    def __init__(self, records: Records, party: Party) -> None:
        self.__records, self.__party = records, party

    @property
    def facts(self) -> Facts:
        """What is public about the records; the same for all parties."""
        return self.__records.facts

    def sums(self, summand: BlockSum) -> Totals:
        """This party's sums, without noise."""
        said = described(summand)
        if said is None:
            raise UsageError(f"{type(summand).__name__} does not say what it sums, so many parties cannot agree on it.")
        self.__party.about(said)
        return self.__records.sums(summand)

    @property
    def count(self) -> int:
        """How many records this party has: a sum like any other, which noise has to meet."""
        self.__party.about(b"count")
        return self.__records.count

    def clipped(self, indices: NDArray[np.int64] | None = None) -> NoReturn:
        """Refused: rows are of this party alone."""
        raise _alone()

    rows = labels = clipped


def _alone() -> UsageError:
    return UsageError("A release over many parties sees sums alone, no rows and no number of one party.")
