"""One sum over many parties, from fresh keys to the total: what a party says, and what the coordinator adds up.

    party → coordinator     a mask key for this attempt, signed            (`Attempt.offer`)
    coordinator → parties   the mask keys of all parties, as they came
    party → coordinator     its numbers under all masks, signed            (`Attempt.answer`)
    coordinator → parties   the total, signed                              (`add_up`, `read_total`)

Everything that the parties must agree on is in the transcript: the job, the number of the round, the question, and who
takes part under which mask key. Masks depend on it, so whoever was shown something else adds noise and not numbers. All
or nothing: if a party is missing, the coordinator has learned nothing, and asks all of them for a new attempt.

Who takes part is what each party pinned, out of band; the coordinator's word for it counts nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.errors import DataError, UsageError
from privot.federation.secure_sum.masking import KEY_BYTES, MaskKey, Words, add_words
from privot.federation.wire.messages import decode_any, encode
from privot.federation.wire.signing import open_sealed, public_name, seal
from privot.noise.shared_noise import check_shares

OFFER, ANSWER, TOTAL = "sum-key", "sum-share", "sum-total"
_KEY, _WORDS, _COMMITMENT = "key", "words", "commitment"
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class SharedJob:
    """Who adds up what: `job` is the digest of the signed job that every party checked against its policy.

    `parties` are the public keys that this party pinned (hexadecimal), its own among them; `coordinator` is the public
    key of whoever adds up. The coordinator is not a party, and at most `collusion` parties pool what they know with it.
    """

    job: str
    parties: tuple[str, ...]
    coordinator: str
    collusion: int = 1

    def __post_init__(self) -> None:
        check_shares(len(self.parties), self.collusion)
        if len(set(self.parties)) != len(self.parties) or self.coordinator in self.parties:
            raise UsageError("Every party of a sum has a key of its own, and the coordinator another one.")
        if not all(is_digest(name) for name in (*self.parties, self.coordinator, self.job)):
            raise UsageError("Parties are named by their public keys and a job by its digest: 64 hexadecimal digits.")

    def digest(self) -> str:
        """The digest of all of it, in one order of the parties."""
        return _digest({"job": self.job, "parties": sorted(self.parties), "by": self.coordinator, "t": self.collusion})


@dataclass(frozen=True)
class Question:
    """The question of one round: its number, the digest of what is asked, and how many numbers answer it."""

    number: int
    digest: str
    count: int

    def facts(self, job: SharedJob) -> dict[str, Any]:
        """What every message of this round says it is about."""
        return {"job": job.digest(), "number": self.number, "question": self.digest, "count": self.count}


@dataclass
class Attempt:
    """A party's side of one attempt at one sum; its mask key is used once, whatever comes."""

    job: SharedJob
    question: Question
    key: Ed25519PrivateKey
    commitment: str
    _mask: MaskKey = field(default_factory=MaskKey, repr=False)

    def offer(self) -> bytes:
        """This party's mask key for this attempt and its commitment for the whole job, signed."""
        facts = {**self.question.facts(self.job), _COMMITMENT: self.commitment}
        return seal(encode(OFFER, facts, {}, {_KEY: self._mask.public}), self.key)

    def answer(self, offers: Sequence[bytes], words: Words) -> bytes:
        """`words` under the masks with every other party, signed; `offers` are those of all parties, in any order."""
        if words.shape != (self.question.count,):
            raise UsageError(f"The question asks for {self.question.count} numbers, not for {words.size}.")
        held = read_offers(self.job, self.question, offers)
        keys = {name: offer.key for name, offer in held.items()}
        own = public_name(self.key)
        if keys.get(own) != self._mask.public:
            raise DataError("The coordinator shows another mask key for this party than it sent: end this job.")
        transcript = transcript_of(self.job, self.question, held)
        masked = self._mask.mask(words, own, keys, transcript)
        facts = {**self.question.facts(self.job), "transcript": transcript.hex()}
        return seal(encode(ANSWER, facts, {}, {_WORDS: masked.astype("<u8").tobytes()}), self.key)

    def read_total(self, message: bytes, offers: Sequence[bytes]) -> Words:
        """The total that the coordinator signed for this attempt."""
        transcript = transcript_of(self.job, self.question, read_offers(self.job, self.question, offers))
        signer, words = _read_words(message, TOTAL, self.job, self.question, transcript)
        if signer != self.job.coordinator:
            raise DataError("The total is not signed by this job's coordinator: do not use it.")
        return words


@dataclass(frozen=True)
class Offer:
    """What a party brings to an attempt: a mask key, and what its noise in this job follows from, as a digest."""

    key: bytes
    commitment: str


def read_offers(job: SharedJob, question: Question, offers: Sequence[bytes]) -> dict[str, Offer]:
    """The offer of every party; refuses a set of messages that is not one of each pinned party about this question.

    Raises `DataError`, and says whose message it is.
    """
    held: dict[str, Offer] = {}
    for message in offers:
        signed = open_sealed(message, "A message of the sum")
        if signed.signer not in job.parties:
            raise DataError(f"{signed.signer[:16]}… is not one of the parties that were pinned for this job.")
        if signed.signer in held:
            raise DataError(f"Party {signed.signer[:16]}… sent two mask keys for one attempt: end this job.")
        facts, _, files = decode_any(signed.payload, OFFER, {}, (_KEY,))
        commitment = facts.pop(_COMMITMENT, None)
        _check_facts(facts, question.facts(job), signed.signer)
        if len(files.get(_KEY, b"")) != KEY_BYTES or not is_digest(commitment):
            raise DataError(f"Party {signed.signer[:16]}… sent no mask key, or no commitment.")
        held[signed.signer] = Offer(files[_KEY], commitment)
    missing = sorted(set(job.parties) - set(held))
    if missing:
        raise DataError(f"The sum misses {len(missing)} of {len(job.parties)} parties, {missing[0][:16]}… first.")
    if len({offer.key for offer in held.values()}) != len(held):
        raise DataError("Two parties sent the same mask key: end this job.")
    return held


def commitments_of(job: SharedJob, question: Question, offers: Sequence[bytes]) -> dict[str, str]:
    """What every party's noise in this job follows from, as digests."""
    return {name: offer.commitment for name, offer in read_offers(job, question, offers).items()}


def transcript_of(job: SharedJob, question: Question, held: Mapping[str, Offer]) -> bytes:
    """The digest of all that the parties of an attempt agree on."""
    brought = {name: [offer.key.hex(), offer.commitment] for name, offer in held.items()}
    return bytes.fromhex(_digest({**question.facts(job), "offers": brought}))


def is_digest(text: object) -> bool:
    """Whether `text` is a digest or a public key as it is written: 64 hexadecimal digits."""
    return isinstance(text, str) and len(text) == 64 and set(text) <= _HEX


def add_up(
    job: SharedJob, question: Question, offers: Sequence[bytes], answers: Sequence[bytes], key: Ed25519PrivateKey
) -> tuple[Words, bytes]:
    """(the total, the coordinator's signed message of it), from one answer of every party.

    Raises `DataError` where an answer is missing, doubled, or of another attempt; nothing is learned from the others.
    """
    transcript = transcript_of(job, question, read_offers(job, question, offers))
    given: dict[str, Words] = {}
    for message in answers:
        signer, words = _read_words(message, ANSWER, job, question, transcript)
        if signer not in job.parties or signer in given:
            raise DataError(f"{signer[:16]}… is not a party of this job, or answered twice.")
        given[signer] = words
    missing = sorted(set(job.parties) - set(given))
    if missing:
        raise DataError(
            f"The sum misses {len(missing)} of {len(job.parties)} parties, {missing[0][:16]}… first: nothing was "
            "learned; ask all of them for a new attempt."
        )
    total = add_words(list(given.values()))
    facts = {**question.facts(job), "transcript": transcript.hex()}
    return total, seal(encode(TOTAL, facts, {}, {_WORDS: total.astype("<u8").tobytes()}), key)


def _read_words(message: bytes, kind: str, job: SharedJob, question: Question, transcript: bytes) -> tuple[str, Words]:
    signed = open_sealed(message, "A message of the sum")
    facts, _, files = decode_any(signed.payload, kind, {}, (_WORDS,))
    _check_facts(facts, {**question.facts(job), "transcript": transcript.hex()}, signed.signer)
    body = files.get(_WORDS, b"")
    if len(body) != 8 * question.count:
        raise DataError(f"Party {signed.signer[:16]}… sent {len(body) // 8} numbers where {question.count} were asked.")
    return signed.signer, np.frombuffer(body, dtype="<u8").astype(np.uint64)


def _check_facts(found: Mapping[str, Any], expected: Mapping[str, Any], signer: str) -> None:
    for name, value in expected.items():
        # types too: True is not 1 here
        if type(found.get(name)) is not type(value) or found[name] != value:
            what = {"job": "job", "number": "round", "count": "question", "transcript": "attempt"}.get(name, name)
            raise DataError(f"Party {signer[:16]}… answers another {what} than this one: end this job.")
    if set(found) != set(expected):
        raise DataError(f"Party {signer[:16]}… sent more than a sum needs: end this job.")


def _digest(held: Mapping[str, Any]) -> str:
    return hashlib.sha256(b"privot secure sum 1\n" + json.dumps(held, sort_keys=True).encode()).hexdigest()
