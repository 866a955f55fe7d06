"""The pairs of domains: fonts, digits, letters, clothes, features; arrays only, with their sizes stated.

Pairs of letters and of clothes are for choosing settings; the others are shown. Of letters, source and target have no
font in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError, brief
from privot.opening.archives import read_arrays
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun

Array = NDArray[Any]
SIDE = 28
SHOWN = ("fonts-mnist", "fonts-usps", "usps-mnist", "mnist-usps", "mnist-digits8")
CHOOSING = (
    "letters-hand", "letters-ink", "letters-few", "letters-small", "letters-counts", "clothes-shade", "clothes-blur",
)  # fmt: skip
DIM = "digits-dim"
"""Built-in digits, and the same with less contrast: for a run without any data set."""
_OFFICE = ("amazon", "caltech10", "dslr", "webcam")
OFFICE = tuple(f"office-{a}-{b}" for a in _OFFICE for b in _OFFICE if a != b)


@dataclass(frozen=True)
class Pair:
    """Rows in [0, 1] and labels of source, target and test; the target's labels are for baselines only."""

    source: Array
    source_labels: Array
    target: Array
    target_labels: Array
    test: Array
    test_labels: Array
    shape: tuple[int, int] | None = (SIDE, SIDE)


def resized(x: Array) -> Array:
    """Images in [0, 1] at 28 × 28, as rows."""
    import torch

    image = torch.from_numpy(np.asarray(x, dtype=np.float32))[:, None]
    if image.shape[-1] != SIDE:
        image = torch.nn.functional.interpolate(image, size=SIDE, mode="bilinear", align_corners=False)
    return image.clamp(0.0, 1.0).reshape(len(x), -1).numpy()


def known(run: StudyRun, name: str) -> tuple[Array, Array, Array, Array]:
    """Training rows and labels, test rows and labels, at 28 × 28; of digits 500 are for tests."""
    if name == "digits":
        x, y = (np.concatenate([images(run, name, part)[k] for part in ("train", "test")]) for k in (0, 1))
        x = resized(x.reshape(-1, 8, 8))
        return x[:1297], y[:1297], x[1297:], y[1297:]
    (x, y, shape), (u, v, _) = images(run, name), images(run, name, "test")
    return resized(x.reshape(-1, *shape)), y, resized(u.reshape(-1, *shape)), v


def fonts(run: StudyRun, name: str) -> tuple[Array, Array, Array]:
    """Images, labels and faces of `font_images`."""
    held = read_arrays(run.data(name), ("x", "y", "font"))
    return resized(held["x"] / 255.0), held["y"].astype(np.int64), held["font"]


def warped(x: Array, seed: int, spreads: tuple[float, ...]) -> Array:
    """Every image turned, bent and shaded at random, with spreads of their own."""
    import torch

    from privot.adaptation.alignment.transformations import Warp

    random, warp, rows = torch.Generator().manual_seed(seed), Warp((SIDE, SIDE), 1), torch.from_numpy(x)
    with torch.no_grad():
        warp.spread.copy_(torch.tensor(spreads).log())
        parts = [
            warp(part, torch.randn(len(part), warp.draws(True), generator=random), 1.0, True)
            for part in torch.split(rows, 4096)
        ]
    return torch.cat(parts).numpy()


def cut_to_ink(x: Array) -> Array:
    """Cut to the ink, 16 × 16, and enlarged again: as USPS was made."""
    import torch

    made = []
    for image in x.reshape(-1, SIDE, SIDE):
        down, across = np.where(image > 0.2)
        if len(down) < 4:
            down, across = np.array([4, 23]), np.array([4, 23])
        part = torch.from_numpy(image[down.min() : down.max() + 1, across.min() : across.max() + 1])[None, None]
        part = torch.nn.functional.interpolate(part, size=(14, 12), mode="area")
        made.append(torch.nn.functional.pad(part, (2, 2, 1, 1))[0, 0].numpy())
    return resized(np.stack(made))


def counted(x: Array) -> Array:
    """Cut to the ink, 32 pixels high, black and white, ink counted in squares of 4: as scikit-learn's digits were made.

    The proportions stay, and what is wider than high is 32 wide; rows of 8 × 8 in [0, 1].
    """
    import torch

    made = []
    for image in x.reshape(-1, SIDE, SIDE):
        down, across = np.where(image > 0.2)
        if len(down) < 4:
            down, across = np.array([4, 23]), np.array([4, 23])
        part = torch.from_numpy(image[down.min() : down.max() + 1, across.min() : across.max() + 1])[None, None]
        high, wide = part.shape[2:]
        scale = 32.0 / max(high, wide)
        size = (min(32, max(1, round(high * scale))), min(32, max(1, round(wide * scale))))
        part = torch.nn.functional.interpolate(part, size=size, mode="bilinear", align_corners=False)
        top, left = (32 - size[0]) // 2, (32 - size[1]) // 2
        whole = torch.nn.functional.pad(part, (left, 32 - size[1] - left, top, 32 - size[0] - top))
        made.append(torch.nn.functional.avg_pool2d((whole > 0.5).float(), 4).reshape(-1).numpy())
    return np.stack(made)


HAND = (0.2, 0.2, 0.25, 0.2, 0.05, 0.05, 0.3, 0.6, 0.2, 0.1)
INK = (0.15, 0.15, 0.2, 0.15, 0.02, 0.02, 0.3, 0.6, 0.2, 0.1)
SHADE = (0.15, 0.15, 0.2, 0.15, 0.1, 0.1, 0.1, 0.1, 0.3, 0.2)


def office(run: StudyRun, name: str, seed: int) -> Pair:
    """Roots of histograms' shares; a half of the target, drawn from the seed, is held out for the test."""
    _, a, b = name.split("-")

    def rows(domain: str) -> tuple[Array, Array]:
        held = read_arrays(run.data("office_caltech"), (f"{domain}_x", f"{domain}_y"))
        x, y = held[f"{domain}_x"].astype(np.float64), held[f"{domain}_y"].astype(np.int64)
        return np.sqrt(x / np.maximum(x.sum(axis=1, keepdims=True), 1e-12)), y

    (sx, sy), (tx, ty) = rows(a), rows(b)
    order, half = np.random.default_rng(seed).permutation(len(tx)), len(tx) // 2
    aligned, tested = order[:half], order[half:]
    return Pair(sx, sy, tx[aligned], ty[aligned], tx[tested], ty[tested], None)


def _small(x: Array, y: Array, t: Array, ty: Array, same: bool) -> Pair:
    """Ten capitals; 1,300 target records as scikit-learn's digits were made, the source the `same` or both large."""
    x, y = x[y < 10], y[y < 10]
    t, ty = counted(warped(t[ty < 10], 3, INK)), ty[ty < 10]
    few, rest = slice(0, 1300), slice(1300, 5300)
    if same:
        return Pair(counted(x), y, t[few], ty[few], t[rest], ty[rest], (8, 8))
    large = resized(t.reshape(-1, 8, 8))
    return Pair(x, y, large[few], ty[few], large[rest], ty[rest])


def pair_of(run: StudyRun, name: str, seed: int) -> Pair:
    """The arrays of a pair; of MNIST as the target of fonts, 10,000 records drawn from the seed."""
    if name in OFFICE:
        return office(run, name, seed)
    if name == "mnist-digits8":
        from sklearn.datasets import load_digits

        x, y, _, _ = known(run, "mnist")
        t, ty = load_digits(return_X_y=True)
        t = (t / 16.0).astype(np.float32)
        return Pair(counted(x), y, t[:1297], ty[:1297], t[1297:], ty[1297:], (8, 8))
    if name in CHOOSING[:5]:
        x, y, font = fonts(run, "font_capitals")
        order = np.random.default_rng(1).permutation(int(font.max()) + 1)
        ours = np.isin(font, order[: len(order) // 3])
        chosen = np.random.default_rng(2).permutation(int((~ours).sum()))
        t, ty = x[~ours][chosen], y[~ours][chosen]
        if name in ("letters-counts", "letters-small"):
            return _small(x[ours], y[ours], t, ty, name == "letters-counts")
        t = warped(t, 3, HAND) if name == "letters-hand" else cut_to_ink(warped(t, 3, INK))
        records = 1300 if name == "letters-few" else 10_000
        return Pair(x[ours], y[ours], t[:records], ty[:records], t[-4000:], ty[-4000:])
    if name in CHOOSING[5:]:
        x, y, test, labels = known(run, "fashion_mnist")

        def changed(rows: Array, seed: int) -> Array:
            if name == "clothes-shade":
                return warped(rows, seed, SHADE)
            import torch

            image = torch.from_numpy(rows.reshape(-1, 1, SIDE, SIDE))
            for _ in range(2):
                image = torch.nn.functional.avg_pool2d(image, 3, 1, 1)
            image = torch.nn.functional.interpolate(0.7 * image, size=22, mode="area")
            return torch.nn.functional.pad(image, (3, 3, 3, 3)).reshape(len(rows), -1).numpy()

        n = 10_000
        return Pair(x[:n], y[:n], changed(x[n : 2 * n], 3), y[n : 2 * n], changed(test[:4000], 4), labels[:4000])
    if name not in (*SHOWN, DIM):
        raise UsageError(f"There is no pair of domains {brief(name)}: use one of {', '.join((*SHOWN, *CHOOSING))}.")
    a, b = name.split("-")
    sx, sy = fonts(run, "font_digits")[:2] if a == "fonts" else known(run, a)[:2]
    if name == DIM:
        return Pair(sx, sy, 0.2 + 0.6 * sx, sy, 0.2 + 0.6 * known(run, a)[2], known(run, a)[3])
    tx, ty, ex, ey = known(run, b)
    if a == "fonts" and b == "mnist":
        some = np.random.default_rng(seed).permutation(len(tx))[:10_000]
        tx, ty = tx[some], ty[some]
    return Pair(sx, sy, tx, ty, ex, ey)
