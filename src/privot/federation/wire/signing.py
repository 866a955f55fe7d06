"""Ed25519 keys in files, and the signed envelope of a message. It does not look at what it signs."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from privot.common.files import write_key, write_whole
from privot.errors import DataError
from privot.federation.wire.messages import MAX_BYTES
from privot.opening import parse_json, read_bytes, read_text
from privot.opening.archives import Archive

ENVELOPE_VERSION = 1
MAX_KEY = 1 << 16
"""Largest size of a key file in bytes."""
PAYLOAD, SEAL = "payload.npz", "signature.json"
_CONTEXT = b"privot sketch envelope 1\n"
"""Signed together with the payload, so that a signature made for another purpose is never valid here."""


@dataclass(frozen=True)
class SignedMessage:
    """A payload whose signature was checked, and the signer's public key (hexadecimal)."""

    payload: bytes
    signer: str


def make_key(path: str | Path) -> Ed25519PrivateKey:
    """Make a private key in `path`, readable by its owner only, and write its public key to `path`.pub."""
    path = Path(path)
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_key(path, text)
    write_whole(Path(f"{path}.pub"), f"{public_name(key)}\n".encode(), mode=0o644)
    return key


def read_key(path: str | Path) -> Ed25519PrivateKey:
    """The private key in `path`."""
    try:
        key = serialization.load_pem_private_key(read_bytes(path, most=MAX_KEY), password=None)
    except FileNotFoundError:
        raise DataError(f"There is no key file {str(path)!r}.") from None
    except Exception:  # no error quotes the bytes of a key
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise DataError(f"{str(path)!r} is not an Ed25519 private key in PEM.")
    return key


def read_public(path: str | Path) -> str:
    """The public key (hexadecimal) in a `.pub` file."""
    try:
        text = read_text(path, most=MAX_KEY).strip().lower()
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except FileNotFoundError:
        raise DataError(f"There is no key file {str(path)!r}.") from None
    except ValueError:  # also a file that is too long
        raise DataError(f"{str(path)!r} is not a public key: expected 64 hexadecimal digits.") from None
    return text


def public_name(key: Ed25519PrivateKey) -> str:
    """The public key as 64 hexadecimal digits."""
    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()


def seal(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """The envelope: the payload, the signer's public key, and the signature."""
    out = io.BytesIO()
    head = {
        "version": ENVELOPE_VERSION,
        "algorithm": "ed25519",
        "public_key": public_name(key),
        "signature": key.sign(_CONTEXT + payload).hex(),
    }
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(SEAL), json.dumps(head, sort_keys=True))
        archive.writestr(zipfile.ZipInfo(PAYLOAD), payload)
    return out.getvalue()


def open_sealed(data: bytes, what: str = "The sketch") -> SignedMessage:
    """The payload and its signer; raises `DataError` unless the signature is valid. `what` names it in errors."""
    if len(data) > MAX_BYTES:
        raise DataError(f"{what} has {len(data)} bytes: at most {MAX_BYTES} are accepted.")
    try:
        archive = Archive(io.BytesIO(data), "envelope", stored=True)
        if sorted(archive.names) != [PAYLOAD, SEAL]:
            raise ValueError
        head, payload = parse_json(archive.read(SEAL)), archive.read(PAYLOAD)
        version = head["version"]
    except Exception:  # a damaged file can raise nearly anything
        raise DataError(f"{what} is damaged, or was not written by privot.") from None
    if version != ENVELOPE_VERSION:
        raise DataError(f"{what} has version {str(version)[:20]!r}; this version reads {ENVELOPE_VERSION}.")
    try:
        signer = str(head["public_key"]).lower()
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer)).verify(
            bytes.fromhex(head["signature"]), _CONTEXT + payload
        )
    except (InvalidSignature, KeyError, ValueError, TypeError):
        raise DataError(f"{what} has no valid signature: it was changed after it was signed.") from None
    return SignedMessage(payload, signer)
