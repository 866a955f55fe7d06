"""Vaults of many parties in one process, used like one vault; it shows what the parties would release together."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.accounting.events import Event
from privot.common.declared import declared
from privot.errors import UsageError
from privot.federation.secure_sum.local_sums import LocalSums
from privot.federation.secure_sum.party import SumParty
from privot.federation.secure_sum.round_memory import RoundMemory
from privot.federation.secure_sum.rounds import SharedJob
from privot.federation.wire.signing import public_name
from privot.kinds import Kind
from privot.mechanisms.mechanism import Facts, Identified, Mechanism
from privot.noise.shared_noise import check_shares
from privot.release import Release
from privot.vault import Vault
from privot.vault.shared_records import check_shareable

ONE_PROCESS = "all parties ran in one process, for a simulation: it kept their records from each other by no mask"
"""What the guarantee of a simulation states besides: it holds against who sees the outcome."""


class Federation:
    """Vaults of many parties, released from together as if their records lay in one vault.

    It simulates on one machine what the parties would do on their own: each runs the mechanism on its own records, adds
    its share of the noise, and hands its numbers to a secure sum, whose messages are those of real parties. What
    estimators ask of a vault it answers, so `Synthesizer(epsilon, delta).fit(federation)` makes a table of all records.

    Parameters
    ----------
    vaults
        One vault per party, three at least, under add-remove. What is public about their records is the same for all;
        each has a budget of its own.
    collusion
        At most how many parties pool what they know with the coordinator: from 1 (a party knows its own noise) to all
        but one.

    Raises
    ------
    UsageError
        If there are too few vaults, two of them pay from one ledger, or their records are not of one kind.

    Notes
    -----
    Formal guarantee, for the records of each party, against the coordinator, whatever it sends, together with at most
    `collusion` other parties: what a mechanism claims for one vault with the same σ (`privot.noise.shared_noise`). A
    sum carries noise of deviation σ·√(m/(m − t)) for m parties of which t may collude, so that the others' shares
    suffice; spread in any way, records give the same sums as in one vault. Every party's budget pays the whole cost,
    once, before anything is sent. Whoever has records with several parties is protected with each of them, not over all
    of them together. In one process all of that is a simulation, which the guarantee says.

    Only releases whose noise meets sums can be made together: tables, related tables, embeddings, sketches, counts,
    means, histograms and quantiles; others are refused before anything is paid. Sums of floats (embeddings, sketches)
    are those of one vault but for half a step of σ·2⁻⁴⁰ per party, and cut at 2²¹·σ/m by each; others are the same to
    the bit.

    References
    ----------
    Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning" (the masks); Kairouz,
    Liu & Steinke 2021, "The distributed discrete Gaussian mechanism for federated learning with secure aggregation".

    Examples
    --------
    >>> import numpy as np
    >>> from privot import Count, Vault
    >>> hospitals = [
    ...     Vault(np.zeros((patients, 2)), clip=1.0, adjacency="add-remove", budget=(1.0, 1e-6))
    ...     for patients in (40, 300, 60)
    ... ]
    >>> federation = Federation(hospitals)
    >>> release = federation.release(Count(epsilon=1.0, delta=1e-6), purpose="how many patients there are")
    >>> bool(abs(release.value["estimate"] - 400) < 60), release.guarantee.epsilon() <= 1.0
    (True, True)
    >>> [round(vault.remaining(), 1) for vault in hospitals]
    [0.0, 0.0, 0.0]
    """

    @declared(vaults="list", collusion="whole number")
    def __init__(self, vaults: Sequence[Vault], collusion: int = 1) -> None:
        self._vaults, self._collusion = tuple(vaults), collusion
        check_shares(len(self._vaults), collusion)
        if not all(isinstance(vault, Vault) for vault in self._vaults):
            raise UsageError("A federation is made of vaults, one for each party.")
        books = [vault.ledger for vault in self._vaults if vault.ledger is not None]
        # a release of both moves by both, and one budget would be charged as for two releases, which is less
        if len(set(map(id, self._vaults))) < len(self._vaults) or len(set(books)) < len(books):
            raise UsageError("Every party has a vault, and a ledger, of its own: one of these is there twice.")
        first, kind = self._vaults[0].facts, self._vaults[0].kind.to_params()
        if any(vault.facts != first or vault.kind.to_params() != kind for vault in self._vaults):
            raise UsageError(
                "What is public about the parties' records differs: state the same schema for all of them."
            )

    @property
    def facts(self) -> Facts:
        """What everybody may know about the records of every party."""
        return self._vaults[0].facts

    @property
    def kind(self) -> Kind:
        """What is public about what the records are."""
        return self._vaults[0].kind

    @property
    def ledger(self) -> str | None:
        """A name of all ledgers that pay; None where one of the budgets is in memory."""
        books = [vault.ledger for vault in self._vaults]
        known = sorted(book for book in books if book is not None)
        return hashlib.sha256("\n".join(known).encode()).hexdigest() if len(known) == len(books) else None

    def charges(self, mark: str) -> int:
        """How many charges carry `mark` in their purpose, at the party that has most of them."""
        return max((vault.charges(mark) for vault in self._vaults), key=int)

    def remaining(self) -> float:
        """The least that is left to a party, as `Vault.remaining` says it."""
        return min(vault.remaining() for vault in self._vaults)

    def check(self, event: Event, *, purpose: str) -> None:
        """Refuse what does not fit the budget of every party; nothing is charged."""
        for vault in self._vaults:
            vault.check(event, purpose=purpose)

    @declared(mechanism="mechanism")
    def release(
        self, mechanism: Identified, *, purpose: str, allow_unproven: bool = False, delta: float | None = None
    ) -> Release:
        """Run `mechanism` once over the records of all parties, after charging each of them for it.

        Parameters and returns are those of `Vault.release`. What one party's budget does not cover, and what many
        cannot make together, is refused before any party pays.
        """
        facts = self.facts
        check_shareable(mechanism, facts)
        mechanism.needs.check(facts)
        self.check(facts.cost(mechanism.event(facts)), purpose=purpose)
        keys = [Ed25519PrivateKey.generate() for _ in self._vaults]
        coordinator = Ed25519PrivateKey.generate()
        job = SharedJob(secrets.token_hex(32), tuple(map(public_name, keys)), public_name(coordinator), self._collusion)
        channel = LocalSums(job, coordinator)

        def part(place: int) -> Release:
            memory = RoundMemory(Path(folder) / str(place), job.digest())
            try:
                return self._vaults[place].release_shared(
                    mechanism,
                    SumParty(job, keys[place], memory, channel),
                    purpose=purpose,
                    allow_unproven=allow_unproven,
                    delta=delta,
                )
            finally:
                memory.close()

        with TemporaryDirectory(prefix="privot-parties-") as folder:
            # every party has the same, or there is none
            release = channel.run(part)[0]
        held = release.guarantee
        return replace(release, guarantee=replace(held, assumptions=(*held.assumptions, ONE_PROCESS)))

    def repeats(self, mechanism: Mechanism) -> bool:
        """No: what parties keep of a release goes with the process."""
        return False

    def forget_sums(self) -> None:
        """Remove the sums of finished partitions that are kept for a release which is on disk now."""
        for vault in self._vaults:
            vault.forget_sums()

    def stream(self, *given: object, **more: object) -> NoReturn:
        """Refused: many parties make one release together, and no stream of them."""
        raise UsageError(
            "Many parties cannot train together, nor make several releases for one charge: release a table, an "
            "embedding, a sketch, counts or a mean."
        )

    reserve = stream

    def __repr__(self) -> str:
        return f"<Federation of {len(self._vaults)} parties, of which {self._collusion} may collude>"
