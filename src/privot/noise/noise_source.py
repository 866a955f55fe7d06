"""Where privacy noise comes from: the operating system, or a seed in tests; it may not see what it hides.

Every draw is cut into chunks, and every chunk is the keystream of a key of its own that is used once and
dropped. A source therefore keeps no stream that a forked process, a second thread or a restored machine
image could repeat: the only state is the kernel's.
"""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.common import arguments
from privot.common.arguments import Shape
from privot.common.devices import usable_cores
from privot.errors import UsageError
from privot.guarantee import Standing
from privot.noise import chacha, discrete_gaussian, normals, record_sampling
from privot.noise.keystream import KEY_BYTES, Keystream

if TYPE_CHECKING:
    import torch

_WORDS_PER_KEY = 1 << 17
_MAX_THREADS = 8


class NoiseSource(Protocol):
    """What a vault and its mechanisms ask of the noise."""

    @property
    def standing(self) -> Standing:
        """PROVEN if the noise is secret, UNPROVEN if anybody could recompute it."""
        ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee that rests on this noise takes for granted, in words."""
        ...

    def normal(self, shape: Shape, sigma: float) -> NDArray[np.float64]:
        """Independent N(0, σ²) variates."""
        ...

    def normal_tensor(self, shape: Shape, sigma: float, device: torch.device | str, dtype: torch.dtype) -> torch.Tensor:
        """Independent N(0, σ²) variates as a float32 or float64 tensor, made on `device` if that is CUDA."""
        ...

    def discrete_gaussian(self, sigma_squared: Fraction | float, size: Shape) -> NDArray[np.int64]:
        """Independent integers with P(x) ∝ exp(−x²/2σ²), exact, for scalars released outside training."""
        ...

    def uniform_bits(self, count: int) -> NDArray[np.uint64]:
        """Independent words, uniform on {0, …, 2⁶⁴ − 1}."""
        ...

    def integers(self, bound: int, count: int) -> NDArray[np.int64]:
        """Independent integers, uniform on {0, …, bound − 1}."""
        ...

    def sample_without_replacement(self, records: int, batch: int) -> NDArray[np.int64]:
        """A uniformly random ordered tuple of `batch` distinct indices below `records`."""
        ...

    def poisson_sample(self, records: int, rate: float) -> NDArray[np.int64]:
        """Indices below `records`, rising, each there independently with probability `rate`."""
        ...


class KeyedNoise(ABC):
    """Everything that can be drawn, given a supply of keys."""

    @abstractmethod
    def _key(self) -> bytes:
        """A key of `KEY_BYTES` bytes that was never handed out before."""

    def normal(self, shape: Shape, sigma: float) -> NDArray[np.float64]:
        """Independent N(0, σ²) variates as float64; see `privot.noise.normals` for what they withstand."""
        lengths, scale = arguments.shape(shape), arguments.sigma(sigma)
        count = int(np.prod(lengths, dtype=object))
        out = np.empty(count + count % 2)
        chunks = [out[start : start + normals.CHUNK] for start in range(0, out.size, normals.CHUNK)]
        # keys are taken here, in order, so that what a seed gives does not depend on the number of threads
        keys = [self._key() for _ in chunks]

        def fill(key: bytes, chunk: NDArray[np.float64]) -> None:
            normals.fill_normal(key, scale, chunk)

        if len(chunks) > 1:
            # a pool kept between calls would lose its threads in a forked process, and block it for ever
            with ThreadPoolExecutor(min(len(chunks), _MAX_THREADS, usable_cores())) as pool:
                list(pool.map(fill, keys, chunks))
        else:
            for key, chunk in zip(keys, chunks, strict=True):
                fill(key, chunk)
        return out[:count].reshape(lengths)

    def normal_tensor(self, shape: Shape, sigma: float, device: torch.device | str, dtype: torch.dtype) -> torch.Tensor:
        """Independent N(0, σ²) variates as a float32 or float64 tensor, rounded to `dtype` last.

        On a CUDA device they are made there, with no copy to or from the host; for any other device they
        are made by `normal`. While a CUDA graph is captured the call is refused: a replay would repeat the
        noise, and noise that is known protects nobody. For the same reason torch.compile may not trace it: it
        runs outside the compiled code, or is refused where everything must be compiled.
        """
        import torch

        if is_captured():
            raise UsageError(
                "Noise drawn inside a CUDA graph, a trace or a compiled function would be repeated by every replay: "
                "draw it outside and copy it into the graph's input."
            )
        where = torch.device(device)
        lengths, scale = arguments.shape(shape), arguments.sigma(sigma, str(dtype).removeprefix("torch."))
        if where.type != "cuda":
            return torch.from_numpy(self.normal(lengths, scale)).to(dtype).to(where)
        count = int(np.prod(lengths, dtype=object))
        out = torch.empty(count, dtype=dtype, device=where)
        with torch.no_grad():
            for start in range(0, count, chacha.CHUNK):
                part = out[start : start + chacha.CHUNK]
                part.copy_(chacha.normal_chunk(self._key(), scale, part.numel(), where))
        return out.reshape(lengths)

    def discrete_gaussian(self, sigma_squared: Fraction | float, size: Shape) -> NDArray[np.int64]:
        """Independent integers with P(x) ∝ exp(−x²/2σ²), exact: no floating-point number takes part.

        σ² is taken as the exact rational it is; a float is one too. About 10⁴ draws a second.
        """
        lengths, parameter = arguments.shape(size), arguments.sigma_squared(sigma_squared)
        draws = discrete_gaussian.discrete_gaussian(self.uniform_bits, parameter, int(np.prod(lengths, dtype=object)))
        return np.array(draws, dtype=np.int64).reshape(lengths)

    def uniform_bits(self, count: int) -> NDArray[np.uint64]:
        """`count` independent words, uniform on {0, …, 2⁶⁴ − 1}."""
        out = np.empty(arguments.whole("The number of words", count, 0), dtype=np.uint64)
        for start in range(0, out.size, _WORDS_PER_KEY):
            part = out[start : start + _WORDS_PER_KEY]
            part[:] = Keystream(self._key(), part.size).words(part.size)
        return out

    def integers(self, bound: int, count: int) -> NDArray[np.int64]:
        """`count` independent integers, exactly uniform on {0, …, bound − 1}."""
        return record_sampling.below(
            self.uniform_bits,
            arguments.whole("The bound", bound, 1),
            arguments.whole("The number of integers", count, 0),
        )

    def sample_without_replacement(self, records: int, batch: int) -> NDArray[np.int64]:
        """A uniformly random ordered tuple of `batch` distinct indices below `records`."""
        records, batch = arguments.whole("records", records, 1), arguments.whole("batch", batch, 1)
        if batch > records:
            raise UsageError(f"A batch of {batch} cannot be drawn without replacement from {records} records.")
        return record_sampling.without_replacement(self.uniform_bits, records, batch)

    def poisson_sample(self, records: int, rate: float) -> NDArray[np.int64]:
        """Indices below `records`, rising, each there independently with probability `rate` (less < 2⁻⁶⁴)."""
        return record_sampling.poisson(self.uniform_bits, arguments.whole("records", records, 0), arguments.rate(rate))

    def __reduce__(self) -> NoReturn:
        raise UsageError(f"{type(self).__name__} cannot be copied or pickled: make a new one where it is needed.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class CountedNoise(KeyedNoise):
    """Noise whose keys are told apart by a number that is never handed out twice, also not to two threads at once."""

    def __init__(self) -> None:
        self._drawn = 0
        self._lock = threading.Lock()

    def _next_number(self) -> bytes:
        """0, 1, 2, … as eight bytes."""
        with self._lock:
            number, self._drawn = self._drawn, self._drawn + 1
        return number.to_bytes(8, "big")


class SystemNoise(KeyedNoise):
    """Noise from the operating system's entropy: every chunk is a keystream under a new key from the kernel.

    Formal guarantees:
      * a privacy claim that rests on this noise is computational: it holds against all who cannot predict
        the kernel's generator or tell AES-256-CTR (CPU) and ChaCha20 (GPU) keystreams from uniform bits;
      * given uniform bits, the samplers and the discrete Gaussian are exact; `normal` and `normal_tensor` are
        floating-point, hardened as `privot.noise.normals` describes, not exact.

    Safe to share between threads and forked processes: it holds no state at all.
    """

    @property
    def standing(self) -> Standing:
        """PROVEN: nobody can recompute this noise."""
        return Standing.PROVEN

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee that rests on this noise takes for granted, in words."""
        return (
            "the operating system's entropy is secret, and AES-256 and ChaCha20 keystreams "
            "cannot be told from uniform bits",
            "normal variates are dithered floating-point sums of three Box–Muller terms, not real numbers",
        )

    def _key(self) -> bytes:
        return os.urandom(KEY_BYTES)


class SeededNoise(CountedNoise):
    """Noise that repeats itself, FOR TESTS ONLY: an attacker who knows the seed can subtract it.

    The same code as `SystemNoise` with keys SHA-256(seed ‖ 0), SHA-256(seed ‖ 1), …; its standing is
    UNPROVEN, and with it that of everything it touches. A forked process repeats what its parent draws.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = arguments.whole("The seed", seed, 0).to_bytes(8, "big")

    @property
    def standing(self) -> Standing:
        """UNPROVEN: anybody who knows the seed can recompute this noise."""
        return Standing.UNPROVEN

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee that rests on this noise takes for granted, in words."""
        return ("the noise came from a seed, for a test: an attacker who knows the seed can remove it",)

    def _key(self) -> bytes:
        return hashlib.sha256(b"privot seeded noise" + self._seed + self._next_number()).digest()


def is_captured() -> bool:
    """Whether a CUDA graph, a trace or a compiler captures operations now: each replay would repeat the same noise."""
    import torch

    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    tracing = torch.jit.is_tracing() or torch.compiler.is_compiling()  # type: ignore[attr-defined,no-untyped-call]
    return bool((started and torch.cuda.is_current_stream_capturing()) or tracing)
