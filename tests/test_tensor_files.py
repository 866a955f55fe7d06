"""Files of tensors: what is written is read, and equal tensors and facts make equal bytes."""

from __future__ import annotations

from pathlib import Path

import torch

from privot.jobs.tensor_files import read_tensors, write_tensors

TENSORS = {"b": torch.arange(3.0), "é": torch.ones(2, 2, dtype=torch.float64), "a": torch.arange(5)}
FACTS = {"text": 'ü\n"', "number": 1}


def test_equal_tensors_and_facts_make_equal_bytes_that_are_read_back(tmp_path: Path) -> None:
    made = set()
    for number in range(10):
        write_tensors(tmp_path / str(number), TENSORS, FACTS)
        made.add((tmp_path / str(number)).read_bytes())
    assert len(made) == 1
    tensors, facts = read_tensors(tmp_path / "0")
    assert facts == FACTS
    assert set(tensors) == set(TENSORS)
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
