"""What a party answers a request with, as signed bytes that name the request: a sketch, interpolants or a refusal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.errors import DataError
from privot.federation.coordination.requests import MAX_QUESTIONS, Request
from privot.federation.sketches.signed_sketch import Sketch, same_design
from privot.federation.wire.messages import Array, Interpolant, decode_any, encode
from privot.federation.wire.signing import open_sealed, seal
from privot.guarantee import Standing
from privot.mechanisms.sketching.private_sketch import design_facts

LONGEST_REASON = 300


@dataclass(frozen=True, eq=False)
class Answer:
    """To the request whose bytes have the SHA-256 `request`: one of a signed sketch file, interpolants, a `refusal`."""

    request: str
    sketch: bytes | None = None
    interpolants: tuple[Interpolant, ...] = ()
    refusal: str | None = None
    kind: ClassVar[str] = "answer"

    def sealed(self, key: Ed25519PrivateKey) -> bytes:
        """The message as it travels, signed by the party."""
        facts: dict[str, Any] = {"request": self.request, "refusal": self.refusal}
        said = ("distance", "t", "p", "number")
        facts["interpolants"] = [{name: getattr(i, name) for name in said} for i in self.interpolants]
        arrays = {f"points{k}": i.points for k, i in enumerate(self.interpolants)}
        return seal(encode(self.kind, facts, arrays, {} if self.sketch is None else {"sketch": self.sketch}), key)

    @classmethod
    def opened(cls, data: bytes, party: str) -> Answer:
        """The answer, if it is in order and `party` (a public key) signed it."""
        sealed = open_sealed(data, "The answer")
        if sealed.signer != party:
            raise DataError(f"The answer is signed by {sealed.signer[:16]}…, not by the party that was asked.")
        axes = {f"points{k}": 2 for k in range(MAX_QUESTIONS)}
        facts, arrays, files = decode_any(sealed.payload, cls.kind, axes, ("sketch",))
        try:
            request, refusal, listed = (facts.pop(name) for name in ("request", "refusal", "interpolants"))
            whole = not facts and isinstance(listed, list) and isinstance(request, str)
            whole = whole and (refusal is None or (isinstance(refusal, str) and refusal.isprintable()))
            whole = whole and (refusal is not None) + bool(listed) + bool(files) == 1
            if not whole or set(arrays) != {f"points{k}" for k in range(len(listed))}:
                raise ValueError
            points = [_interpolant(arrays[f"points{k}"], said) for k, said in enumerate(listed)]
        except (KeyError, TypeError, ValueError):
            raise DataError("The answer holds neither a sketch, nor interpolants, nor a refusal.") from None
        return cls(request, files.get("sketch"), tuple(points), None if refusal is None else refusal[:LONGEST_REASON])


def digest(request: bytes) -> str:
    """What an answer names its request by."""
    return hashlib.sha256(request).hexdigest()


def checked(data: bytes, asked: Request, sent: bytes) -> Answer:
    """A party's answer to `asked`, sent as `sent`; refuses what answers another question or lies about it."""
    answer = Answer.opened(data, asked.party)
    if answer.request != digest(sent):
        raise DataError("The answer is to another request than the one that was sent.")
    if answer.refusal is not None:
        return answer
    if asked.order is not None:
        if answer.sketch is None:
            raise DataError("The party was asked for a sketch and sent something else.")
        sketch_in(answer.sketch, asked)
    else:
        if len(answer.interpolants) != len(asked.questions):
            raise DataError(f"The party answered {len(answer.interpolants)} of {len(asked.questions)} questions.")
        for interpolant, question in zip(answer.interpolants, asked.questions, strict=True):
            interpolant.check_answers(question)
    return answer


def sketch_in(data: bytes, asked: Request) -> Sketch:
    """The signed sketch, if it is the one that was ordered: its party, design and adjacency, and at no higher cost."""
    order = asked.order
    assert order is not None
    sealed = open_sealed(data, "The sketch")
    if sealed.signer != asked.party:
        raise DataError("The sketch is signed by somebody else than the party that was asked.")
    found = Sketch.from_bytes(sealed.payload, sealed.signer)
    g = found.guarantee
    if found.public["design"] != order.design.digest() or g.adjacency is not order.adjacency:
        raise DataError("The sketch has another design or adjacency than was ordered.")
    # how all sketches are read is taken from what one of them states: it may not lie about that
    widths = {name: width for name, width in order.design.widths.items() if width}
    shaped = {name: len(block) for name, block in found.value.items()} == widths
    if not shaped or not same_design(found.public, design_facts(order.design)):
        raise DataError("The sketch states another design than was ordered, under the name of the one that was.")
    if g.standing is not Standing.PROVEN:
        raise DataError(f"The sketch stands as {g.standing}: only proven ones are accepted.")
    if g.epsilon(order.delta) > order.epsilon * (1 + 1e-9):
        raise DataError("The sketch cost its party more than was ordered.")
    return found


def _interpolant(points: Array, said: Any) -> Interpolant:
    if not isinstance(said, dict) or set(said) != {"distance", "t", "p", "number"}:
        raise ValueError
    return Interpolant(points, said["distance"], said["t"], said["p"], said["number"])
