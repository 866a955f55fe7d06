"""A party's part in all sums of one release: it makes questions of what a mechanism asks, and answers by a channel."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from privot.errors import ConvergenceError, PrivotError, UsageError
from privot.federation.secure_sum.round_memory import RoundMemory
from privot.federation.secure_sum.rounds import Attempt, Question, SharedJob, commitments_of
from privot.noise import NoiseSource
from privot.noise.shared_noise import SharedNoise

LARGEST_QUESTION = 1 << 24
"""The numbers of one question; what asks for more is asked in several."""
ATTEMPTS = 100
"""Attempts at one sum before a party gives up."""
Whole = NDArray[np.int64]
Words = NDArray[np.uint64]


class SumChannel(Protocol):
    """Carries messages to the coordinator and back; it is untrusted, and every wait in it has an end."""

    def offers(self, question: Question, offer: bytes) -> Sequence[bytes]:
        """Hand over this party's offer; the offers of all parties for this attempt."""
        ...

    def total(self, question: Question, answer: bytes) -> bytes | None:
        """Hand over this party's answer; the coordinator's message of the total, or None for a new attempt."""
        ...


class SumParty:
    """Asks and answers the sums of one release, one after another; it serves one call of `Vault.release_shared`.

    A question is bound to all that went before it: the job, the release, what is asked of the records, every total so
    far. So parties whose mechanisms ask for different things (other columns, other versions, other totals shown to
    them) find out before they send anything.
    """

    failure: PrivotError | None

    def __init__(self, job: SharedJob, key: Ed25519PrivateKey, memory: RoundMemory, channel: SumChannel) -> None:
        if memory.job != job.digest():
            raise UsageError("The memory is of another job, or of other parties.")
        self._job, self._key, self._memory, self._channel = job, key, memory, channel
        self.job, self.salt, self.failure = job.digest(), memory.salt, None
        self._number, self._before = 0, bytes.fromhex(self.job)
        self._commitment: str | None = None

    def begin(self, release: bytes, secret: bytes, own: NoiseSource) -> SharedNoise:
        """The noise of the one release that this party serves: shares drawn from `own`, added up with the others.

        `release` is everything that all parties must agree on; `secret` stands for everything that this party's shares
        follow from, its records included, and is sent as a commitment only.
        """
        if self._commitment is not None:
            raise UsageError("A party of a sum serves one release: make another job for another one.")
        self._commitment = hashlib.sha256(b"privot commitment of a party" + secret).hexdigest()
        self._memory.bind(self._commitment)
        self.about(release)
        return SharedNoise(own, len(self._job.parties), self._job.collusion, self.ask, self.about)

    def end(self) -> None:
        """Find out whether all parties were shown the same totals; what it costs is one more round, without numbers."""
        self.about(b"end")
        self._sum(np.zeros(1, dtype=np.uint64))

    def about(self, asked: bytes) -> None:
        """Bind the next question to what is asked of the records; the same at every party."""
        self._before = hashlib.sha256(self._before + b"about" + hashlib.sha256(asked).digest()).digest()

    def ask(self, described: tuple[float, float, tuple[int, ...]], make: Callable[[bytes], Whole]) -> Whole:
        """The total over all parties of what `make` returns here, in shape."""
        sigma, grid, shape = described
        self.about(f"{float(sigma).hex()} {float(grid).hex()} {shape}".encode())
        share = np.ascontiguousarray(make(self._before), dtype=np.int64).reshape(-1).view(np.uint64)
        parts = [self._sum(share[k : k + LARGEST_QUESTION]) for k in range(0, share.size, LARGEST_QUESTION)]
        return np.concatenate([np.empty(0, dtype=np.uint64), *parts]).view(np.int64).reshape(shape)

    def _sum(self, share: Words) -> Words:
        try:
            return self._answered(share)
        except PrivotError as error:
            # without the frames of the old one, which hold this party's numbers
            self.failure = type(error)(*error.args)
            raise

    def _answered(self, share: Words) -> Words:
        assert self._commitment is not None
        digest = hashlib.sha256(self._before + b"question").hexdigest()
        question = Question(self._number, digest, share.size)
        self._memory.answer(question.number, question.digest, share.tobytes())
        for _ in range(ATTEMPTS):
            attempt = Attempt(self._job, question, self._key, self._commitment)
            offers = tuple(self._channel.offers(question, attempt.offer()))
            self._memory.hold(commitments_of(self._job, question, offers))
            message = self._channel.total(question, attempt.answer(offers, share))
            if message is None:
                continue
            total = attempt.read_total(message, offers)
            self._number += 1
            self._before = hashlib.sha256(self._before + bytes.fromhex(digest) + total.tobytes()).digest()
            return total
        raise ConvergenceError(f"{ATTEMPTS} attempts at one sum have failed: run the job again, which costs nothing.")
