"""What a source promises beside its numbers: standing, secrecy, safety in forks and threads, refusals."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import torch

from privot.errors import UsageError
from privot.guarantee import Standing
from privot.noise import NoiseSource, SeededNoise, SystemNoise, noise_source

AnySource = SystemNoise | SeededNoise
SOURCES: list[Callable[[], AnySource]] = [SystemNoise, lambda: SeededNoise(1)]


def test_standing() -> None:
    system: NoiseSource = SystemNoise()
    seeded: NoiseSource = SeededNoise(0)
    assert system.standing is Standing.PROVEN
    assert seeded.standing is Standing.UNPROVEN
    assert all(system.assumptions)
    assert "seed" in seeded.assumptions[0]
    with pytest.raises(AttributeError):
        seeded.standing = Standing.PROVEN  # type: ignore[misc]


@pytest.mark.parametrize("make", SOURCES)
def test_successive_draws_differ(make: Callable[[], AnySource]) -> None:
    noise = make()
    assert not np.any(noise.normal(100, 1.0) == noise.normal(100, 1.0))
    assert not np.any(noise.uniform_bits(100) == noise.uniform_bits(100))
    chunks = noise.normal((3, 1 << 16), 1.0)
    assert not np.any(chunks[0] == chunks[1])
    words = noise.uniform_bits(3 << 17).reshape(3, -1)
    assert not np.any(words[0] == words[1])


def everything(noise: AnySource) -> list[np.ndarray]:
    return [
        noise.normal((3, 5), 2.0),
        noise.normal(100_001, 2.0),
        noise.normal_tensor(7, 2.0, "cpu", torch.float32).numpy(),
        noise.discrete_gaussian(Fraction(9, 4), 20),
        noise.uniform_bits(9),
        noise.integers(1000, 9),
        noise.sample_without_replacement(1000, 10),
        noise.poisson_sample(1000, 0.1),
    ]


def same(left: list[np.ndarray], right: list[np.ndarray]) -> list[bool]:
    return [np.array_equal(a, b) for a, b in zip(left, right, strict=True)]


def test_seeded_noise_repeats_and_system_noise_does_not() -> None:
    assert all(same(everything(SeededNoise(5)), everything(SeededNoise(5))))
    assert not any(same(everything(SeededNoise(5)), everything(SeededNoise(6))))
    assert not any(same(everything(SystemNoise()), everything(SystemNoise())))


def test_threads_do_not_change_what_a_seed_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for cores in (1, 4):
        monkeypatch.setattr(noise_source, "usable_cores", lambda cores=cores: cores)
        drawn.append(SeededNoise(3).normal(400_001, 1.0))
    np.testing.assert_array_equal(drawn[0], drawn[1])


def test_threads_never_share_a_key() -> None:
    noise = SeededNoise(2)
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: noise._key(), range(4000)))
    assert len(set(keys)) == len(keys)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_process_draws_something_else() -> None:
    noise = SystemNoise()
    noise.normal(200_000, 1.0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # many enough for the thread pool, whose threads a fork would have lost
        os.write(writer, noise.normal(200_000, 1.0)[:64].tobytes() + noise.uniform_bits(8).tobytes())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        theirs = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert len(theirs) == 576
    ours = noise.normal(200_000, 1.0)[:64].tobytes() + noise.uniform_bits(8).tobytes()
    assert not np.any(np.frombuffer(ours, np.uint64) == np.frombuffer(theirs, np.uint64))


@pytest.mark.parametrize("make", SOURCES)
def test_no_copy_no_pickle_no_key_in_repr(make: Callable[[], AnySource]) -> None:
    noise = make()
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UsageError, match="cannot be copied or pickled"):
            duplicate(noise)
    assert repr(noise) == f"{type(noise).__name__}()"


def test_system_noise_holds_no_state() -> None:
    assert vars(SystemNoise()) == {}


@pytest.mark.parametrize("shape", [0, 1, 2, 3, (), (0, 4), (2, 3, 5), (np.int64(4), 2), [2, 2], 65_537])
def test_shapes(shape: object) -> None:
    expected = np.empty(shape).shape  # type: ignore[call-overload]
    drawn = SystemNoise().normal(shape, 1.0)  # type: ignore[arg-type]
    assert drawn.shape == expected
    assert drawn.dtype == np.float64
    assert drawn.flags.c_contiguous
    assert np.all(np.isfinite(drawn))
    assert not np.any(drawn == 0.0)
    assert SystemNoise().normal_tensor(shape, 1.0, "cpu", torch.float32).shape == expected  # type: ignore[arg-type]


REFUSED: dict[str, Callable[[AnySource], object]] = {
    "sigma 0": lambda n: n.normal(3, 0.0),
    "sigma negative": lambda n: n.normal(3, -1.0),
    "sigma nan": lambda n: n.normal(3, float("nan")),
    "sigma inf": lambda n: n.normal(3, float("inf")),
    "sigma too small": lambda n: n.normal(3, 1e-200),
    "sigma too large": lambda n: n.normal(3, 10**400),
    "sigma text": lambda n: n.normal(3, "1"),  # type: ignore[arg-type]
    "sigma bool": lambda n: n.normal(3, True),
    "shape negative": lambda n: n.normal(-1, 1.0),
    "shape float": lambda n: n.normal(2.0, 1.0),  # type: ignore[arg-type]
    "shape bool": lambda n: n.normal((True, 2), 1.0),
    "float32 underflow": lambda n: n.normal_tensor(3, 1e-40, "cpu", torch.float32),
    "half precision": lambda n: n.normal_tensor(3, 1.0, "cpu", torch.float16),
    "integer tensor": lambda n: n.normal_tensor(3, 1.0, "cpu", torch.int64),
    "discrete 0": lambda n: n.discrete_gaussian(0, 1),
    "discrete negative": lambda n: n.discrete_gaussian(Fraction(-1, 2), 1),
    "discrete nan": lambda n: n.discrete_gaussian(float("nan"), 1),
    "discrete too large": lambda n: n.discrete_gaussian(2**100 + 1, 1),
    "discrete bool": lambda n: n.discrete_gaussian(True, 1),
    "batch too large": lambda n: n.sample_without_replacement(5, 6),
    "batch 0": lambda n: n.sample_without_replacement(5, 0),
    "no records": lambda n: n.sample_without_replacement(0, 0),
    "rate 0": lambda n: n.poisson_sample(5, 0.0),
    "rate above 1": lambda n: n.poisson_sample(5, 1.0000001),
    "rate nan": lambda n: n.poisson_sample(5, float("nan")),
    "records negative": lambda n: n.poisson_sample(-1, 0.5),
    "bits negative": lambda n: n.uniform_bits(-1),
    "bound 0": lambda n: n.integers(0, 1),
    "seed text": lambda n: SeededNoise("x"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what: str) -> None:
    with pytest.raises(UsageError, match=r"\.$"):
        REFUSED[what](SystemNoise())


@pytest.mark.parametrize(
    "probe", ["torch.cuda.is_current_stream_capturing", "torch.compiler.is_compiling", "torch.jit.is_tracing"]
)
def test_noise_is_refused_where_a_replay_would_repeat_it(probe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: "cuda" in probe)
    monkeypatch.setattr(probe, lambda: True)
    for device in ("cpu", "cuda"):
        with pytest.raises(UsageError, match="replay"):
            SystemNoise().normal_tensor(3, 1.0, device, torch.float32)


def test_everything_but_tensors_works_without_torch() -> None:
    program = (
        "import sys; import privot.noise; assert 'torch' not in sys.modules; sys.modules['torch'] = None;"
        "n = privot.noise.SystemNoise(); n.normal(200_000, 1.0); n.discrete_gaussian(1, 2);"
        "n.sample_without_replacement(9, 3); n.poisson_sample(9, 0.5)"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
