"""Both ciphers against their standards and against OpenSSL, word for word."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from privot.errors import UsageError
from privot.noise import chacha
from privot.noise.chacha import chacha20_words
from privot.noise.keystream import Keystream


def test_keystream_is_aes_of_the_counter() -> None:
    key = os.urandom(32)
    counters = b"".join(n.to_bytes(16, "big") for n in range(300))
    expected = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(counters)
    stream = Keystream(key, 256)
    drawn = [stream.words(count).copy() for count in (256, 2, 0, 256, 86)]
    assert np.concatenate(drawn).tobytes() == expected


def test_aes_256_counter_mode_known_answer() -> None:
    # FIPS 197, appendix C.3: the same cipher with a 256-bit key, reached through counter mode
    key, block = bytes(range(32)), bytes.fromhex("00112233445566778899aabbccddeeff")
    encryptor = Cipher(algorithms.AES(key), modes.CTR(block)).encryptor()
    assert encryptor.update(bytes(16)).hex() == "8ea2b7ca516745bfeafc49904b496089"


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))]


def chacha_bytes(key: bytes, nonce: bytes, counter: int, blocks: int, device: str = "cpu") -> bytes:
    """The tensor keystream in the byte order of the RFC."""
    words = chacha20_words(key, nonce, counter, blocks, device).cpu()
    return words.t().contiguous().numpy().astype("<i4").tobytes()


def test_chacha20_block_of_rfc_8439_section_2_3_2() -> None:
    expected = (
        "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3"
        " 466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2"
    )
    words = chacha20_words(bytes(range(32)), bytes.fromhex("000000090000004a00000000"), 1, 1, "cpu")
    assert " ".join(f"{word & 0xFFFFFFFF:08x}" for word in words[:, 0].tolist()) == expected


def test_chacha20_all_zero_key_of_rfc_8439_appendix_a_1() -> None:
    first = chacha_bytes(bytes(32), bytes(12), 0, 1)
    assert first[:16].hex() == "76b8e0ada0f13d90405d6ae55386bd28"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("counter", [0, 7, 2**31 - 5, 2**32 - 1000])
def test_chacha20_equals_openssl(counter: int, device: str) -> None:
    key, nonce, blocks = os.urandom(32), os.urandom(12), 1000
    cipher = Cipher(algorithms.ChaCha20(key, counter.to_bytes(4, "little") + nonce), None)
    assert chacha_bytes(key, nonce, counter, blocks, device) == cipher.encryptor().update(bytes(64 * blocks))


@pytest.mark.parametrize(("counter", "blocks"), [(2**32, 1), (2**32 - 1, 2), (-1, 1), (0, 0)])
def test_chacha20_counter_never_wraps(counter: int, blocks: int) -> None:
    with pytest.raises(UsageError, match="blocks per key"):
        chacha20_words(bytes(32), bytes(12), counter, blocks, "cpu")


@pytest.mark.parametrize("kind", ["right", "wrong", "failing", "absent"])
def test_one_launch_is_used_only_where_it_finds_the_example_of_the_rfc(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise was paid for when it is first drawn: what cannot be compiled falls back, and so does what is wrong."""

    def words_of(first: torch.Tensor, counter: int, blocks: int) -> torch.Tensor:
        if kind == "failing":
            raise RuntimeError("no compiler")
        key, nonce = first.flatten()[4:12], first.flatten()[13:]
        found = chacha20_words(key.numpy().tobytes(), nonce.numpy().tobytes(), counter, blocks, "cpu")
        return found + 1 if kind == "wrong" else found

    monkeypatch.setattr(chacha, "find_spec", lambda name: None if kind == "absent" else name)
    monkeypatch.setitem(sys.modules, "privot.noise.chacha_cuda", SimpleNamespace(words_of=words_of))
    chacha._fused.cache_clear()
    try:
        assert chacha._fused(torch.device("cpu")) is (kind == "right")
    finally:
        chacha._fused.cache_clear()
