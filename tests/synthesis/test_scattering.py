"""Scattering features are exact, row by row, and are what another implementation of wavelets gives."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from privot.errors import DataError, UsageError
from privot.mechanisms.exact_sums import MARGIN, try_map
from privot.mechanisms.gradients.linear_head import bounded
from privot.synthesis.neural.features import scattering
from privot.synthesis.neural.features.scattering import (
    LENGTH,
    OFFSET,
    Scattering,
    ScatteringClassifier,
    can_scatter,
    cell_for,
)

COLOUR = (16, 18, 3)
SPECIAL = [0.0, -0.0, 1.0, 0.5, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 1.0 - 2.0**-53, 2.0**-17]


def rows(count: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def made(shape: tuple[int, ...] = COLOUR, cell: int = 4) -> Scattering:
    """A map with constants, measured on random rows."""
    plain = Scattering(shape, cell)
    return plain.standardised(rows(20, plain.dim, 9).float(), 0.0, 1.0)


def plain_scattering(image: np.ndarray, cell: int) -> np.ndarray:
    """S of one image (height, width, colours) by SciPy, folded: no grid, no unfolding, other loops."""
    wavelets, offsets = [], np.arange(-3, 4)
    for k in range(8):
        t = k * math.pi / 8
        a = math.cos(t) * offsets[None, :] + math.sin(t) * offsets[:, None]
        b = -math.sin(t) * offsets[None, :] + math.cos(t) * offsets[:, None]
        envelope = np.exp(-(a * a + b * b / 4) / (2 * 0.64))
        psi = envelope * np.exp(0.75j * math.pi * a)
        psi = psi - envelope * psi.sum() / envelope.sum()
        wavelets.append(psi / np.abs(psi).sum())

    def moduli(u: np.ndarray) -> list[np.ndarray]:
        # "mirror" reflects without repeating the border
        real = [ndimage.correlate(u, psi.real, mode="mirror") for psi in wavelets]
        imaginary = [ndimage.correlate(u, psi.imag, mode="mirror") for psi in wavelets]
        return [np.hypot(r, i) for r, i in zip(real, imaginary, strict=True)]

    def halved(u: np.ndarray) -> np.ndarray:
        h, w = u.shape[0] // 2, u.shape[1] // 2
        return u[: 2 * h, : 2 * w].reshape(h, 2, w, 2).mean(axis=(1, 3))

    def averaged(u: np.ndarray, side: int) -> np.ndarray:
        h, w = u.shape[0] // side, u.shape[1] // side
        return u[: h * side, : w * side].reshape(h, side, w, side).mean(axis=(1, 3))

    def all_averages(picture: np.ndarray) -> np.ndarray:
        colours = [picture[..., c] for c in range(picture.shape[2])]
        if len(colours) == 3:
            r, g, b = colours
            colours = [(r + 2 * g + b) / 4, (r - b) / 2, (2 * g - r - b) / 4]
        first = [moduli(u) for u in colours]
        second = [moduli(halved(u)) for u in colours]
        both = [[moduli(halved(v)) for v in u] for u in first]
        out = [averaged(u, cell) for u in colours]
        out += [averaged(v, cell) for u in first for v in u]
        out += [averaged(v, cell // 2) for u in second for v in u]
        out += [averaged(w, cell // 2) for u in both for v in u for w in v]
        return np.stack(out)

    height, width = (side // cell * cell for side in image.shape[:2])
    assert (height, width) == image.shape[:2], "the mirror image of a cut image is another cut"
    both_ways = all_averages(image) + all_averages(image[:, ::-1])
    across = width // cell
    return both_ways[:, :, : -(-across // 2)]


@pytest.mark.parametrize(
    ("shape", "cell"), [((16, 16), 4), ((16, 24, 3), 4), ((3, 16, 20), 4), ((16, 32, 1), 8), ((3, 24, 16), 4)]
)
def test_averages_are_those_of_another_implementation(shape: tuple[int, ...], cell: int) -> None:
    held = Scattering(shape, cell)
    x = rows(2, held.dim, 1)
    found = held.averages(x)
    for row, picture in zip(found.numpy(), held.axes.pictures(x).permute(0, 2, 3, 1).numpy(), strict=True):
        np.testing.assert_allclose(row, plain_scattering(picture, cell), atol=3e-5)
    assert held.features(x).shape == (2, held.size)
    assert (held.features(x)[:, -1] == OFFSET).all()
    assert torch.allclose(held.averages(x.float()).double(), found, atol=1e-4)


@pytest.mark.slow
def test_features_of_a_row_are_the_same_to_the_last_bit_in_any_company() -> None:
    held = made()
    x = rows(70, held.dim, 2) * 3.0 - 1.0
    whole = held.features(x)
    order = torch.randperm(70, generator=torch.Generator().manual_seed(3))
    assert torch.equal(held.features(x[order]), whole[order])
    assert torch.equal(torch.cat([held.features(row[None]) for row in x[:9]]), whole[:9])
    held._at_once = 7
    assert torch.equal(held.features(x), whole)
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            assert torch.equal(held.features(x), whole)
    finally:
        torch.set_num_threads(threads)
    try_map(held, torch.device("cpu"))
    assert held.features(x[:0]).shape == (0, held.size)


@pytest.mark.parametrize("what", ["random", "ones", "stripes"])
def test_products_of_filters_are_exact(what: str) -> None:
    """Before they are put on a grid, which would hide what is rounded: against whole numbers of 64 bits."""
    x = torch.round(rows(3, 20 * 20, 4).view(3, 1, 20, 20) * 2.0**19)
    if what == "ones":
        x = torch.full_like(x, 2.0**19)
    elif what == "stripes":
        x = (torch.arange(20) % 2 * 2.0**19 * torch.ones(3, 1, 20, 20)).double()
    filters = torch.from_numpy(scattering._wavelets().copy())
    whole = (filters * 2.0**24).to(torch.int64)
    assert torch.equal(whole.double() * 2.0**-24, filters)
    patches = x.to(torch.int64).unfold(2, 7, 1).unfold(3, 7, 1).reshape(3, 14 * 14, 49)
    want = torch.einsum("nps,fs->nfp", patches, whole.view(16, 49)).view(3, 16, 14, 14)
    found = scattering._answers(x * 2.0**-18, filters) * 2.0**42
    assert torch.equal(found.to(torch.int64), want)
    assert torch.equal(found, torch.round(found))


def test_moduli_lie_on_their_grid_and_stay_small() -> None:
    """What the next layer's exact sums rest on; stripes of the wavelets' own frequency answer the most."""
    down, across = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    stripes = [torch.sin(2.356 * (across * math.cos(t) + down * math.sin(t))) > 0 for t in np.arange(8) * math.pi / 8]
    x = torch.cat([torch.stack(stripes)[:, None].double(), rows(8, 256).view(8, 1, 16, 16).round()])
    found = scattering._moduli(2.0 * x - 1.0, True)
    assert torch.equal(found, torch.round(found * 2.0**18) * 2.0**-18)
    assert 0.5 < float(found.max()) <= 1.001
    half = scattering._halved(found, True)
    assert torch.equal(half, torch.round(half * 2.0**18) * 2.0**-18)


def test_records_meet_no_convolution_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a one may sum in any way, by Fourier transforms too, and differently beside other rows."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError

    held = made((16, 16))
    monkeypatch.setattr(torch.nn.functional, "conv2d", refuse)
    held.features(rows(2, 256))
    with pytest.raises(AssertionError):
        held.features(rows(2, 256).float())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 255), st.sampled_from(SPECIAL)), max_size=12))
def test_extreme_rows_stay_by_themselves(changes: list[tuple[int, int, float]]) -> None:
    held = made((16, 16))
    x = rows(4, 256, 5)
    for row, column, value in changes:
        x[row, column] = value
    g = bounded(held.features(x))
    assert torch.equal(torch.cat([bounded(held.features(row[None])) for row in x]), g)
    assert torch.equal(bounded(held.features(x.flip(0))).flip(0), g)
    unknown = torch.isnan(x).any(dim=1)
    assert (g[unknown] == 0.0).all()
    assert (g[~unknown].square().sum(dim=1).sqrt() > 0.99).all()
    assert (g.square().sum(dim=1).sqrt() <= 1.0 - 0.99 * MARGIN).all()


def test_a_mirror_image_has_the_same_features() -> None:
    """Up to the rounding of the wavelets, which are mirror images of each other only up to theirs."""
    held = made((16, 24, 3))
    x = rows(3, held.dim, 6)
    mirrored = x.view(3, 16, 24, 3).flip(2).reshape(3, -1)
    assert float((held.features(mirrored) - held.features(x)).abs().max()) < 1e-3
    upside_down = x.view(3, 16, 24, 3).flip(1).reshape(3, -1)
    assert float((held.features(upside_down) - held.features(x)).abs().max()) > 0.1


def test_samples_standardise_features_so_that_nearly_all_are_bounded() -> None:
    plain = Scattering(COLOUR, 4, low=-1.0, high=3.0)
    # images of many brightnesses, contrasts and colours
    x = (rows(60, plain.dim, 7).view(60, -1, 3) * rows(60, 3, 8)[:, None]).flatten(1)
    held = plain.standardised(4.0 * x.float() - 1.0, 0.0, 1.0)
    assert (held.low, held.high) == (0.0, 1.0)
    phi = held.features(x)
    norms = phi[:, :-1].square().sum(dim=1).sqrt()
    assert float(norms.square().mean().sqrt()) == pytest.approx(LENGTH, rel=0.02)
    channels = phi[:, :-1].view(60, held.channels, -1)
    assert float(channels.mean(dim=(0, 2)).abs().max()) < 1e-2
    # brightness counts twice as much as each difference of colour, and one wavelet twice as much as two
    widths = channels.std(dim=(0, 2))
    shares = np.repeat([1.0, 0.5, 0.5, *[1.0, 0.5, 0.5] * 2, 0.5, 0.25, 0.25], [1] * 3 + [8] * 6 + [64] * 3)
    np.testing.assert_allclose(widths / widths[0], shares, rtol=0.02)
    # samples that are all alike still give finite features
    flat = plain.standardised(torch.full((5, plain.dim), 0.5), 0.0, 1.0)
    assert torch.isfinite(flat.features(x)).all()


def test_a_scattering_is_read_back_to_the_last_bit() -> None:
    held = made()
    again = Scattering.from_tensors(json.loads(json.dumps(held.to_dict())), held.tensors())
    x = rows(5, held.dim)
    assert torch.equal(again.features(x), held.features(x))
    with pytest.raises(DataError, match="not the one"):
        Scattering.from_tensors(held.to_dict(), {**held.tensors(), "scale": 2.0 * held.tensors()["scale"]})
    with pytest.raises(DataError, match="not a scattering"):
        Scattering.from_tensors(held.to_dict(), {})
    with pytest.raises(DataError, match="not a scattering"):
        Scattering.from_tensors({**held.to_dict(), "cell": 5}, held.tensors())
    tuned = ScatteringClassifier(held, np.random.default_rng(0).standard_normal((held.size, 4)))
    read = ScatteringClassifier.from_tensors(json.loads(json.dumps(tuned.to_dict())), tuned.tensors())
    assert torch.equal(read.scores(x), tuned.scores(x))
    assert torch.allclose(tuned.scores(x), held.features(x) @ torch.from_numpy(tuned.weights))
    assert (read.dim, read.classes) == (held.dim, 4)
    with pytest.raises(DataError, match="not the one"):
        ScatteringClassifier.from_tensors(tuned.to_dict(), {**tuned.tensors(), "weights": torch.zeros(held.size, 4)})
    with pytest.raises(DataError, match="not a classifier"):
        ScatteringClassifier.from_tensors(tuned.to_dict(), held.tensors())


@pytest.mark.parametrize(
    "bad",
    [
        {"shape": (15, 16)},
        {"shape": (4096, 4096, 3)},
        {"cell": 2},
        {"cell": 6},
        {"cell": 32},
        {"center": np.zeros(5)},
        {"scale": np.full(81, np.nan)},
        {"scale": np.full(81, 1e9)},
        {"low": 1.0},
    ],
)
def test_a_scattering_that_cannot_be_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Scattering(**{"shape": (16, 16), "cell": 4, **bad})


def test_weights_that_do_not_fit_are_refused() -> None:
    held = Scattering((16, 16), 4)
    for weights in (np.zeros((held.size - 1, 3)), np.zeros(held.size), np.full((held.size, 3), np.nan)):
        with pytest.raises(UsageError, match="finite numbers"):
            ScatteringClassifier(held, weights)


@pytest.mark.parametrize(
    ("shape", "most", "cell", "size"),
    [
        ((32, 32, 3), 8192, 4, 7777),
        ((32, 32, 3), 2048, 8, 1945),
        ((64, 64, 3), 8192, 8, 7777),
        ((3, 256, 200), 8192, 32, 5833),
        ((28, 28), 8192, 4, 2269),
        ((32, 32, 3), 7776, 4, 7777),
        ((32, 32, 3), 7775, 8, 1945),
    ],
)
def test_cells_grow_with_the_image(shape: tuple[int, ...], most: int, cell: int, size: int) -> None:
    assert cell_for(shape, most) == cell
    held = Scattering(shape, cell)
    assert held.size == size
    assert held.features(torch.zeros(1, held.dim)).shape == (1, size)
    assert can_scatter(shape, most)


def test_images_without_a_scattering_are_told_apart() -> None:
    assert not can_scatter((15, 32, 3), 8192)
    assert not can_scatter((4096, 4096, 3), 8192)
    assert not can_scatter((32, 32, 3), 100)
