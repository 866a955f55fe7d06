"""The answer to a request: one release, paid for once by the target's holder, signed; read back as untrusted input."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.accounting import account, read_guarantee
from privot.accounting.events import Gaussian, event_from_dict
from privot.adaptation.adaptation_request import AdaptationRequest
from privot.common.files import lock_folder, private_folder, write_whole
from privot.errors import DataError
from privot.federation.wire.messages import MAX_BYTES, decode, encode
from privot.federation.wire.signing import open_sealed, seal
from privot.guarantee import Guarantee, Standing
from privot.jobs.paid_question import Question
from privot.jobs.run import Plan, Run
from privot.mechanisms.mechanism import refuse_unit
from privot.opening import read_bytes
from privot.release import Release
from privot.vault import Vault

KIND = "adaptation answer"
SUFFIX = ".release"
_ELSEWHERE = (
    "the party that answered has the records and the noise that the answer states: a signature shows which key signed "
    "it, not that"
)


@dataclass(frozen=True)
class Answered:
    """The bytes of an answer, the release in it, and whether it was paid for just now."""

    content: bytes
    release: Release
    paid: bool


def check_asked(request: AdaptationRequest, vault: Vault) -> None:
    """Refuse records whose public facts differ from those in the request, and a vault that protects a unit."""
    refuse_unit(vault.facts, "An answer")
    for name in ("records", "dim"):
        asked, held = getattr(request.facts, name), getattr(vault.facts, name)
        if asked != held:
            what = "records" if name == "records" else "columns"
            raise DataError(f"The request expects {asked} {what}, got {held}: nothing was paid.")


def stored(request: AdaptationRequest, folder: Path, data: str) -> Path:
    """The path of the answer for these records, whether it exists or not."""
    return folder / f"{request.digest()[:32]}-{data[:16]}{SUFFIX}"


def answer_once(
    request: AdaptationRequest, vault: Vault, folder: Path, data: str, key: Ed25519PrivateKey | None = None
) -> Answered:
    """The answer in `folder`, or a new one, charged to the vault's ledger before it is made.

    `data` is the ledger's name for the records: other records get another answer. The order on disk is that of a
    party's sketches: secret → charge → file → secret removed. Without a `key` one is made, used once and forgotten.
    """
    check_asked(request, vault)
    private_folder(folder)
    lock = lock_folder(folder, "party")
    try:
        path = stored(request, folder, data)
        question = Question(folder, path.stem, lambda: {"sigma": request.sigma})
        if path.exists():
            content = read_bytes(path, most=MAX_BYTES, inside=folder)
            release = read_answer(content, request)[0]
            question.remove()
            return Answered(content, release, False)
        purpose = f"answer to the request {request.digest()[:16]}"
        run = Run(question, lambda: vault, vault.charges, plan=Plan(purpose, request.delta))
        release, _ = run.release(lambda: request.mechanism(question.chosen["sigma"]))
        content = seal(to_bytes(release, request), Ed25519PrivateKey.generate() if key is None else key)
        write_whole(path, content)
        question.remove()
        return Answered(content, read_answer(content, request)[0], True)
    finally:
        os.close(lock)


def to_bytes(release: Release, request: AdaptationRequest) -> bytes:
    """The unsigned message: the digest of the request, the guarantee and the noisy sums; the rest follows from them."""
    if not isinstance(release.value, Mapping):
        raise DataError("This release is not a mean embedding.")
    facts = {"request": request.digest(), "guarantee": release.guarantee.to_dict()}
    return encode(KIND, facts, {name: np.asarray(release.value[name]) for name in ("sums", "counts")})


def read_answer(data: bytes, request: AdaptationRequest, trusted: tuple[str, ...] | None = None) -> tuple[Release, str]:
    """(release, public key of the signer) of an answer to this request; its guarantee is counted anew.

    With `trusted`, the signer must be one of these keys.
    """
    sealed = open_sealed(data, "The answer")
    if trusted is not None and sealed.signer not in trusted:
        raise DataError(f"The answer is signed by {sealed.signer[:16]}…, which is not among the trusted keys.")
    facts, arrays = decode(sealed.payload, KIND, {"sums": 2, "counts": 1})
    if set(facts) != {"request", "guarantee"}:
        raise DataError("An answer must hold its request and its guarantee, and nothing else.")
    if facts["request"] != request.digest():
        raise DataError("This is the answer to another request: get the answer to the request of this job.")
    try:
        stated = Guarantee.from_dict(facts["guarantee"])
        # before it is counted: counting a stranger's events could take very long
        event = event_from_dict(dict(stated.events[0])) if len(stated.events) == 1 else None
    except DataError:
        raise
    except Exception:
        raise DataError("The guarantee inside the answer cannot be read.") from None
    if not isinstance(event, Gaussian) or stated.standing is not Standing.PROVEN or stated.at_delta != request.delta:
        raise DataError("The guarantee inside the answer is not that of the requested release.")
    mechanism = request.mechanism(event.sigma)
    if event != mechanism.event(request.facts):
        raise DataError("The guarantee inside the answer is not that of the requested release.")
    read_guarantee(json.dumps(facts["guarantee"]))
    # the line above refuses numbers that are too small; a stranger's own text does not go into our reports
    guarantee = account(event, request.delta)
    guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, _ELSEWHERE))
    if arrays["sums"].shape != (1, mechanism.features.size) or arrays["counts"].shape != (1,):
        raise DataError("The sums inside the answer do not fit the map of the request.")
    return Release(arrays, guarantee, mechanism.public(request.facts, event.sigma)), sealed.signer
