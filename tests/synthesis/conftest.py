"""Small jobs that finish in a second."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from synthesis_samples import rules, toy

from privot.synthesis import Synthesizer
from privot.vault import Vault
from synthesis_asked import flat


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def vault() -> Vault:
    x, y = toy()
    return Vault(x, y, classes=2, clip=1.0, adjacency="add-remove", budget=(10.0, 1e-5))


@pytest.fixture
def small() -> Any:
    def make(**changes: Any) -> Synthesizer:
        return Synthesizer(
            **flat(**{"epsilon": 5.0, "delta": 1e-5, "rules": rules(), "seed": 1, "device": "cpu", **changes})
        )

    return make
