"""Files of tensors: what is written is read, and equal tensors and facts make equal bytes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import torch
from safetensors.torch import load

from privot.jobs.tensor_files import read_tensors, write_tensors

TENSORS = {
    "b": torch.arange(3.0),
    "é": torch.ones(2, 2, dtype=torch.float64),
    "a": torch.arange(5),
    "bits": torch.tensor([True, False, True]),
    "bytes": torch.arange(3, dtype=torch.uint8),
    "turned": torch.arange(6.0).view(2, 3).t(),
    "one": torch.tensor(2.5, dtype=torch.float16),
    "none": torch.zeros(0, 3, dtype=torch.int32),
}
FACTS = {"text": 'ü\n"', "number": 1}


def test_equal_tensors_and_facts_make_equal_bytes_that_are_read_back(tmp_path: Path) -> None:
    made = set()
    for number in range(10):
        write_tensors(tmp_path / str(number), TENSORS, FACTS)
        made.add((tmp_path / str(number)).read_bytes())
    assert len(made) == 1
    # the format, as the library that defines it reads it
    theirs = load(made.pop())
    assert all(torch.equal(theirs[name], tensor) for name, tensor in TENSORS.items())
    tensors, facts = read_tensors(tmp_path / "0")
    assert facts == FACTS
    assert set(tensors) == set(TENSORS)
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_tensors_are_written_without_a_copy_of_them(tmp_path: Path) -> None:
    weights = torch.ones(2_000_000)
    tracemalloc.start()
    write_tensors(tmp_path / "weights", {"weights": weights}, {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * weights.nbytes
