"""Bounded features of a scattering: exact row by row, of norm at most 1, and the same again from a dictionary."""

from __future__ import annotations

import json
import math
import sys
import types
from typing import Any

import numpy as np
import pytest
import torch

from privot.errors import DataError, UsageError
from privot.mechanisms.exact_sums import try_map
from privot.synthesis.neural.features.class_means import class_means
from privot.synthesis.neural.features.fourier import feature_map
from privot.synthesis.neural.features.photographs import photograph_channels
from privot.synthesis.neural.features.scattered import MOST, Scattered
from privot.synthesis.neural.features.scattering import Scattering, channels_of

SHAPE, DIM = (16, 16, 3), 768
SPECIAL = [0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324]


def made(**given: Any) -> Scattered:
    return Scattered(SHAPE, 12, [0.5, 0.7], **{"seed": 3, **given})


def rows(count: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def odd_rows() -> torch.Tensor:
    x = rows(len(SPECIAL) + 3, 1)
    for place, value in enumerate(SPECIAL):
        x[place, place * 7] = value
    x[-3:] = torch.tensor([[0.0], [1e300], [-math.inf]]).double()
    return x


def test_codes_of_a_row_are_the_same_in_any_company() -> None:
    held, x = made(), torch.cat([odd_rows(), rows(5, 2)])
    together, order = held.codes(x), torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    assert torch.equal(together, torch.cat([held.codes(row[None]) for row in x]))
    assert torch.equal(held.codes(x[order]), together[order])
    assert torch.equal(held.codes(torch.cat([x, odd_rows()]))[: len(x)], together)
    try_map(held, "cpu")


def test_norms_are_at_most_one_and_a_row_without_a_number_has_no_code() -> None:
    held, x = made(), torch.cat([odd_rows(), rows(20, 2)])
    phi = held.features(x)
    # without rounding: squares of doubles as fractions would take long, so with some bits to spare
    assert float((phi.to(torch.float64).numpy().astype(np.longdouble) ** 2).sum(axis=1).max()) <= 1.0
    codes = held.codes(x)
    assert float(codes[SPECIAL.index(math.nan)].abs().max()) == 0.0
    norms = torch.linalg.vector_norm(codes, dim=1)
    # nearly every image: also those of noise
    assert bool((norms[-20:] > 0.99).all())
    assert float(torch.linalg.vector_norm(phi[-20:], dim=1).min()) > 0.99


def test_codes_are_those_of_the_scattering_with_constants_of_photographs() -> None:
    held, x = made(low=0.0, high=255.0), rows(4, 5) * 255.0
    means, widths = photograph_channels(3)
    assert means.shape == widths.shape == (channels_of(3),)
    plain = Scattering(SHAPE, held.map.cell, low=0.0, high=255.0).averages(x).numpy()
    off = (plain - np.rint(means * 2**30)[:, None, None] / 2**30) / widths[:, None, None]
    weights = np.concatenate(
        [np.repeat(np.array([1.0, 0.5, 0.5]) * w, n) for n, w in ((1, 1), (8, 1), (8, 1), (64, 0.5))]
    )
    seen = (off * weights[:, None, None]).reshape(4, -1)
    found = held.map.features(x).numpy()[:, :-1]
    # in proportion, the same for all
    factor = (found * seen).sum() / (seen * seen).sum()
    np.testing.assert_allclose(found, factor * seen, atol=1e-5)
    assert held.map.size - 1 <= MOST
    wide, lone = photograph_channels(3), photograph_channels(1)
    assert np.array_equal(lone[0][:17], np.concatenate([wide[0][:1], wide[0][3:11], wide[0][27:35]]))


def test_samples_in_float32_have_nearly_these_features_and_slopes() -> None:
    # faint noise: of strong noise a mechanism cuts single numbers besides
    held, x = made(), 0.45 + 0.1 * rows(3, 6)
    assert torch.allclose(held.features(x.float()).double(), held.features(x), atol=5e-3)
    flat = torch.full((1, DIM), 0.4, requires_grad=True)
    held.features(flat).square().sum().backward()
    assert flat.grad is not None
    assert bool(torch.isfinite(flat.grad).all())


def test_a_map_comes_back_from_its_dictionary_or_is_refused() -> None:
    held = made(low=[0.0] * DIM, high=[1.0] * DIM, share=0.3)
    fields = json.loads(json.dumps(held.to_dict()))
    again = feature_map(fields)
    assert isinstance(again, Scattered)
    assert again.to_dict() == held.to_dict()
    assert again.exact_bytes() == held.exact_bytes()
    assert torch.equal(again.features(rows(2)), held.features(rows(2)))
    for name, wrong in [("scattering", "0" * 64), ("share", 1.0), ("frequencies", 0), ("shape", [4, 4, 3])]:
        with pytest.raises(DataError):
            feature_map({**fields, name: wrong})
    assert made(seed=4).exact_bytes() != made().exact_bytes()
    with pytest.raises(UsageError, match="between 0 and 1"):
        made(share=0.0)


def test_means_on_a_gpu_turn_the_centred_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of a GPU is replaced by its formula; what is left is the constant that centring takes out."""
    from privot.synthesis.neural.features import class_means as module

    stand_in: Any = types.ModuleType("fourier_cuda")

    def mean_phases(x: torch.Tensor, angles: torch.Tensor, classes: int) -> torch.Tensor:
        phases = (x.half().double() @ angles.double()).view(classes, len(x) // classes, -1)
        return torch.cat([phases.cos().mean(dim=1), phases.sin().mean(dim=1)], dim=1)

    stand_in.mean_phases = mean_phases
    monkeypatch.setitem(sys.modules, "privot.synthesis.neural.features.fourier_cuda", stand_in)
    held, x = made(), rows(8, 7).float()
    codes, (a, b) = held.codes(x), held.weights
    found = b * module._centred_means(held.fourier, codes, 2)
    wanted = class_means(held, x, 2)
    assert torch.allclose(found.float(), wanted[:, held.map.size :], atol=2e-3)
    assert torch.allclose(a * codes.view(2, 4, -1).mean(dim=1), wanted[:, : held.map.size], atol=1e-6)
