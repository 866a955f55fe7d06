"""Noise that can be made again from a kept secret, for one release that a crash must not lose; it may not keep it.

A charge that is on disk while its release is not would be a budget lost. With this noise the release is a function of
the secret and of what is released, so it can be computed again, the same, and is still one release.
"""

from __future__ import annotations

import hashlib
import hmac

from privot.errors import UsageError
from privot.guarantee import Standing
from privot.noise.keystream import KEY_BYTES
from privot.noise.noise_source import CountedNoise, SystemNoise


class KeptNoise(CountedNoise):
    """Noise under the keys HMAC-SHA-256(`secret`, `about` ‖ 0), HMAC-SHA-256(`secret`, `about` ‖ 1), …

    `secret` holds 32 bytes of the operating system's entropy; `about` names everything the release depends on (records,
    mechanism, event). Formal guarantees: those of `SystemNoise`, against all who do not know the secret; for different
    `about` the noise is independent, for the same it is the same, so asking again shows nothing new. `add_noise` binds
    it to the very value as well: whatever makes another value of the same question (another library or processor that
    rounds differently) gets independent noise too, because two values under one noise would show their difference.
    """

    def __init__(self, secret: bytes, about: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
            raise UsageError(f"The secret must be {KEY_BYTES} bytes of the operating system's entropy.")
        super().__init__()
        self._secret = hmac.digest(secret, b"privot kept noise" + about, hashlib.sha256)

    @property
    def standing(self) -> Standing:
        """PROVEN: nobody without the secret can recompute this noise."""
        return Standing.PROVEN

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee that rests on this noise takes for granted, in words."""
        return (
            *SystemNoise().assumptions,
            "the secret that lets the noise be made again after a crash stayed with the records and was then destroyed",
        )

    def bound_to(self, value: bytes) -> KeptNoise:
        """The noise of one value, to the last bit; the next call is of another noise even for the same value."""
        return KeptNoise(self._key(), b" of a value " + value)

    def _key(self) -> bytes:
        return hmac.digest(self._secret, self._next_number(), hashlib.sha256)


def mark_of(secret: bytes, about: bytes) -> str:
    """What a ledger remembers a release by: 32 hexadecimal digits that nobody can link to the noise."""
    return hmac.digest(secret, b"privot mark" + about, hashlib.sha256).hex()[:32]
