"""Masks that cancel in a sum over all parties: X25519, HKDF-SHA256 and ChaCha20; it sees no record and sends nothing.

For one attempt at one sum every party makes a fresh X25519 key. Each pair (p, q) then shares a secret that nobody else
can compute, from which HKDF makes a ChaCha20 key and that a stream of 64-bit words. The one of the two whose name comes
first adds the stream to its numbers, the other subtracts it, modulo 2⁶⁴; so all masks cancel in the sum over all
parties, and in no sum over fewer (Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine
learning", section 4, without the part that reveals masks of parties who left: a sum that misses a party says nothing).

Formal guarantee. Against the coordinator and all parties but two honest ones, in one attempt: what the honest parties
send are numbers that cannot be told from uniform ones with the same sum, as long as X25519's decisional Diffie-Hellman
problem (with HKDF as its extractor) and ChaCha20 hold. The HKDF is salted with the transcript, the digest of everything
the attempt is about, so parties who were shown different things share no masks and their sum is noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from privot.errors import DataError, UsageError

KEY_BYTES = 32
_INFO = b"privot secure sum, mask of two parties, version 1"
_CHUNK = 1 << 20

Words = NDArray[np.uint64]


class MaskKey:
    """A party's key for one attempt: it masks once, and cannot be copied, written down or used again."""

    def __init__(self) -> None:
        self._key: X25519PrivateKey | None = X25519PrivateKey.generate()
        self.public: bytes = self._key.public_key().public_bytes_raw()

    def mask(self, words: Words, own: str, keys: Mapping[str, bytes], transcript: bytes) -> Words:
        """`words` plus the masks of party `own` with all others in `keys` (name → public mask key); only once.

        Names are the public keys that were pinned. The `transcript` is the digest of everything that all parties must
        agree on.
        """
        if self._key is None:
            raise UsageError("A mask key masks once: take a new one for another attempt.")
        if len(keys) < 2 or keys.get(own) != self.public or len(set(keys.values())) != len(keys):
            raise DataError("A sum needs a mask key of its own from every party.")
        key, self._key = self._key, None
        out = words.astype(np.uint64)
        for name, public in sorted(keys.items()):
            if name == own:
                continue
            # a key is used for one stream, so its nonce may be 0
            secret = _secret(key, (own, self.public), (name, public), transcript)
            stream = Cipher(algorithms.ChaCha20(secret, bytes(16)), mode=None).encryptor()
            for start in range(0, out.size, _CHUNK):
                part = out[start : start + _CHUNK]
                pad = np.frombuffer(stream.update(bytes(8 * part.size)), dtype="<u8")
                if own < name:
                    part += pad
                else:
                    part -= pad
        return out

    def __reduce__(self) -> NoReturn:
        raise UsageError("A mask key cannot be copied or pickled: two parties under one key would share their masks.")

    def __repr__(self) -> str:
        return f"MaskKey({'used' if self._key is None else 'unused'})"


def _secret(key: X25519PrivateKey, own: tuple[str, bytes], other: tuple[str, bytes], transcript: bytes) -> bytes:
    """The key of a pair's stream.

    X25519 gives one shared secret for a public key and for others that differ from it by a point of small order, so the
    secret alone would let a party offer a key that shares the masks of somebody else. The names and public keys of the
    two are part of what is derived, as RFC 7748 (section 6.1) recommends.
    """
    try:
        shared = key.exchange(X25519PublicKey.from_public_bytes(other[1]))
    except ValueError:  # not 32 bytes, or a point of small order, of which everybody knows the secret
        raise DataError(f"The mask key of party {other[0][:16]}… is not a key: end this job.") from None
    pair = b"".join(name.encode() + public for name, public in sorted((own, other)))
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=transcript, info=_INFO + pair).derive(shared)


def add_words(all_words: list[Words]) -> Words:
    """The sum modulo 2⁶⁴ of words of one shape."""
    total = np.zeros_like(all_words[0])
    for words in all_words:
        total += words
    return total
