"""A vault's part in a release over the records of many parties; it shows a mechanism nothing but this party's sums."""

from __future__ import annotations

import hashlib
import hmac
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import BlockSum, Totals
from privot.errors import PrivotError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.mechanism import Facts, Identified, Mechanism, Records, name_of
from privot.noise import NoiseSource
from privot.noise.kept_noise import KeptNoise, mark_of
from privot.noise.shared_noise import SharedNoise
from privot.partitions.kept_sums import described


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
    columns = described(tuple(facts.columns))
    if columns is None:
        stated = [(c.name, c.place, c.range, c.categories, c.missing, c.whole) for c in facts.columns]
        columns = repr(stated).encode()
    cost = sorted(facts.cost(mechanism.event(facts)).to_dict().items())
    held = [name_of(mechanism), facts.identity(), repr(facts.unit), repr(cost), str(standing)]
    return b"\n".join([*(text.encode() for text in held), columns, mechanism.identity()])


def derived(secret: bytes, named: bytes) -> tuple[bytes, KeptNoise, str]:
    """(what a party commits to, its noise, the mark of its charge), all of them following from a `secret`.

    They are made here and nowhere else, so that no frame through which an error may pass holds the secret.
    """
    return hmac.digest(secret, named, hashlib.sha256), KeptNoise(secret, named), mark_of(secret, named)


def check_shareable(mechanism: Mechanism, facts: Facts) -> None:
    """Refuse, before anything is paid, a release that many parties cannot make together."""
    if not mechanism.needs.whole_sums or mechanism.steps != 1 or hasattr(mechanism, "begin"):
        raise UsageError(
            f"{type(mechanism).__name__} is not made of sums of whole numbers, so many parties cannot make it "
            "together: release a table, counts or a mean."
        )
    if facts.adjacency is not Adjacency.ADD_REMOVE:
        raise UsageError(
            "Many parties release together under add-remove: under replace-one the number of records of each would "
            "have to be public."
        )


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
