"""Parties and coordinator as threads of one process, for simulations and tests; messages are those of real parties."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.errors import ConvergenceError
from privot.federation.secure_sum.rounds import Question, SharedJob, add_up

T = TypeVar("T")
PATIENCE = 600.0
"""Seconds that a party waits for the others of one attempt."""


class LocalSums:
    """A coordinator in memory: the channel of all parties of one job, each in a thread of its own.

    A party that fails calls `stop`, which ends the wait of all others.
    """

    def __init__(self, job: SharedJob, key: Ed25519PrivateKey, patience: float = PATIENCE) -> None:
        self._job, self._key = job, key
        self._offers, self._answers = _Gathering(len(job.parties), patience), _Gathering(len(job.parties), patience)
        self._totals: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def offers(self, question: Question, offer: bytes) -> Sequence[bytes]:
        """The offers of all parties, once all of them have come."""
        return self._offers.all(question.number, offer)

    def total(self, question: Question, answer: bytes) -> bytes:
        """The signed total, once all answers have come."""
        answers = self._answers.all(question.number, answer)
        with self._lock:
            if question.number not in self._totals:
                offers = self._offers.held(question.number)
                self._totals[question.number] = add_up(self._job, question, offers, answers, self._key)[1]
            return self._totals[question.number]

    def run(self, part: Callable[[int], T]) -> list[T]:
        """What `part`(place) returns at every party, all of them at once; the first failure ends all, and is raised."""
        places = range(len(self._job.parties))
        out: dict[int, T] = {}
        failed: list[BaseException] = []

        def play(place: int) -> None:
            try:
                out[place] = part(place)
            except BaseException as error:
                failed.append(error)
                self.stop()

        threads = [threading.Thread(target=play, args=(place,), name=f"party {place}") for place in places]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            self.stop()
            raise
        if failed:
            raise failed[0]
        return [out[place] for place in places]

    def stop(self) -> None:
        """End every wait: a party has failed, and without it there is no sum."""
        self._offers.stop()
        self._answers.stop()


class _Gathering:
    """Waits, round by round, until every party has handed over a message."""

    def __init__(self, parties: int, patience: float) -> None:
        self._parties, self._patience = parties, patience
        self._held: dict[int, list[bytes]] = {}
        self._stopped = False
        self._changed = threading.Condition()

    def all(self, number: int, message: bytes) -> list[bytes]:
        with self._changed:
            self._held.setdefault(number, []).append(message)
            self._changed.notify_all()
            came = self._changed.wait_for(lambda: self._stopped or self._full(number), self._patience)
            if not self._full(number):
                why = "another party failed" if came else f"others did not answer in {self._patience:g} s"
                raise ConvergenceError(f"The sum was not made: {why}. Nothing was learned; run the job again.")
            return list(self._held[number])

    def held(self, number: int) -> list[bytes]:
        with self._changed:
            return list(self._held[number])

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _full(self, number: int) -> bool:
        return len(self._held.get(number, ())) >= self._parties
