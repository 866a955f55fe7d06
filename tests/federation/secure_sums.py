"""Parties that add up in threads, for tests of the secure sum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.federation.secure_sum.local_sums import LocalSums
from privot.federation.secure_sum.party import SumParty
from privot.federation.secure_sum.round_memory import RoundMemory
from privot.federation.secure_sum.rounds import SharedJob
from privot.federation.wire.signing import public_name
from privot.noise import SystemNoise
from privot.noise.kept_noise import KeptNoise
from privot.noise.shared_noise import SharedNoise

JOB = hashlib.sha256(b"a job").hexdigest()


class Room:
    """m parties and a coordinator, with keys and folders."""

    def __init__(self, folder: Path, parties: int = 3, collusion: int = 1, job: str = JOB) -> None:
        self.folder = folder
        self.keys = [Ed25519PrivateKey.generate() for _ in range(parties)]
        self.coordinator = Ed25519PrivateKey.generate()
        names = tuple(public_name(key) for key in self.keys)
        self.job = SharedJob(job, names, public_name(self.coordinator), collusion)

    def run(self, work: Callable[[int, SharedNoise], Any], noises: Sequence[Any]) -> list[Any]:
        """What `work`(place, noise) returns at every party, all of them at once; the first failure is raised.

        A party's noise is one of `noises`, or for None noise that follows from its salt, as in a vault.
        """
        channel = LocalSums(self.job, self.coordinator, patience=60.0)

        def play(place: int) -> Any:
            memory = RoundMemory(self.folder / str(place), self.job.digest())
            try:
                party = SumParty(self.job, self.keys[place], memory, channel)
                own = noises[place] or KeptNoise(memory.salt, b"a release")
                return work(place, party.begin(b"a release", memory.salt, own))
            finally:
                memory.close()

        return channel.run(play)


class NoNoise(SystemNoise):
    """Adds nothing: with it a sum over parties can be compared with one vault's, bit by bit."""

    def normal(self, shape: Any, sigma: float) -> np.ndarray:
        """Zeros."""
        return np.zeros(shape)
