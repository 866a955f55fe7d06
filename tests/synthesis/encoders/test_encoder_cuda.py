"""Public encoders on a GPU: the bits of the processor, in any company. It runs only where there is a GPU."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from encoder_networks import DIM, SHAPE, Grouped, honest, named, saved
from torch import nn

from privot.synthesis import PublicEncoder
from privot.synthesis.neural.encoders import exact_arithmetic as exact
from privot.synthesis.neural.features.encoder_codes import EncoderCodes
from privot.synthesis.neural.features.encoder_features import EncoderFeatures

if not torch.cuda.is_available():
    pytest.skip("There is no CUDA device here.", allow_module_level=True)


@pytest.mark.parametrize("module", [honest(), Grouped().eval()], ids=named)
def test_a_gpu_encodes_as_the_processor_does(module: nn.Module, tmp_path: Path) -> None:
    features = EncoderFeatures(PublicEncoder(saved(module, tmp_path), size=12), SHAPE, 4, [0.5], 1)
    x = torch.rand(300, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[7], x[8], x[9], x[10, 3] = 0.0, 1.0, 5e-324, math.nan
    with torch.no_grad():
        wanted = features.codes(x)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
        assert torch.equal(features.codes(x.cuda()).cpu(), wanted)
        assert torch.equal(features.codes(x[order].cuda()).cpu(), wanted[order])
        assert torch.equal(torch.cat([features.codes(row[None].cuda()).cpu() for row in x[:20]]), wanted[:20])
        # what labels are tuned on
        centred = EncoderCodes(features.encoder, SHAPE).centred(x[:6].float(), 0.0, 1.0)
        assert torch.equal(centred.features(x.cuda()).cpu(), centred.features(x))


def test_roots_and_quotients_of_a_gpu_are_the_nearest_numbers() -> None:
    x = torch.rand(100_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 10.0
    assert torch.equal(exact.root(x.cuda()).cpu(), exact.root(x))
    assert torch.equal(exact.divided(x.cuda(), 6.0).cpu(), x / 6.0)
