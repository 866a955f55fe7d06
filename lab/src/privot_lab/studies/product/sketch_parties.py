"""Parties around one set of images, and the public designs that their sketches are built with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom

from privot.federation import Sketch, sketch
from privot.mechanisms import SketchDesign
from privot.vault import Vault
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun

Array = NDArray[np.float64]
Labelled = tuple[Array, NDArray[np.int64]]
DELTA = 1e-5
PUBLIC_ROWS = 2000
CLIP = 14.0
"""Half the diagonal of the cube of 784 pixels in [0, 1]: about its middle nothing is clipped."""


def other_set(base: str) -> str:
    """The set that plays another domain."""
    return "fashion_mnist" if base == "mnist" else "mnist"


def parties(run: StudyRun, base: str, n: int, seed: int) -> dict[str, Array]:
    """Twenty kinds of party around one set, n records each: class mixes, noise, dimming, shifts, other sets."""
    g = np.random.default_rng(seed)
    x, y, _ = images(run, base)
    other, small = images(run, other_set(base))[0], images(run, "usps")[0]

    def some(rows: Array, k: int) -> Array:
        return np.asarray(rows[g.choice(len(rows), k, replace=len(rows) < k)])

    def mix(classes: list[int], share: float) -> Array:
        k = round(share * n)
        return np.concatenate([some(x[np.isin(y, classes)], k), some(x[~np.isin(y, classes)], n - k)])

    def noisy(deviation: float, share: float = 1.0) -> Array:
        out, k = some(x, n).copy(), int(share * n)
        out[:k] += deviation * g.standard_normal((k, out.shape[1]))
        return out

    def shifted(pixels: int) -> Array:
        return np.roll(some(x, n).reshape(-1, 28, 28), pixels, 2).reshape(n, -1)

    def usps() -> Array:
        grown = [np.pad(zoom(row.reshape(16, 16), 20 / 16, order=1), 4) for row in some(small, n)]
        return np.asarray(np.clip(np.stack(grown), 0.0, 1.0).reshape(n, -1))

    inverted = some(x, n).copy()
    inverted[: n // 10] = 1.0 - inverted[: n // 10]
    return {
        "reference": some(x, n),
        "same": some(x, n),
        "tilt 20 %": mix([0, 1], 0.36),
        "classes 0-4": mix([0, 1, 2, 3, 4], 1.0),
        "classes 5-9": mix([5, 6, 7, 8, 9], 1.0),
        "two classes": mix([3, 8], 1.0),
        "80 % one class": mix([1], 0.8),
        "noise 0.1": noisy(0.1),
        "noise 0.2": noisy(0.2),
        "noise 0.35": noisy(0.35),
        "5 % noise 1": noisy(1.0, 0.05),
        "20 % noise 0.5": noisy(0.5, 0.2),
        "dimmed 0.8": some(x, n) * 0.8,
        "dimmed 0.5": some(x, n) * 0.5,
        "shift 1": shifted(1),
        "shift 3": shifted(3),
        "10 % inverted": inverted,
        "other set": some(other, n),
        "20 % other set": np.concatenate([some(x, n - n // 5), some(other, n // 5)]),
        "usps": usps(),
    }


def designs(run: StudyRun, base: str, seed: int = 1) -> dict[str, SketchDesign]:
    """Around public rows of the domain (the test part, never a party's), around another domain's, and around none."""
    return {
        "in-domain": SketchDesign.around(images(run, base, "test")[0][:PUBLIC_ROWS], seed=seed),
        "other domain": SketchDesign.around(images(run, other_set(base), "test")[0][:PUBLIC_ROWS], seed=seed),
        "none": SketchDesign.box(784, 0.0, 1.0, seed=seed),
    }


def vault(x: Array, epsilon: float) -> Vault:
    """Records with a budget for one release."""
    return Vault(x, clip=CLIP, adjacency="replace-one", budget=(epsilon, DELTA))


def labelled_parties(base: Labelled, other: Labelled, n: int, seed: int, classes: int = 10) -> dict[str, Labelled]:
    """Fourteen kinds of labelled party: flipped, permuted and merged labels, class mixes, noise, another set."""
    g = np.random.default_rng(seed)
    x, y = base

    def some(of: Any, k: int = n) -> NDArray[np.int64]:
        where = np.flatnonzero(of)
        return np.asarray(where[g.choice(len(where), k, replace=len(where) < k)])

    out: dict[str, Labelled] = {}
    for name, of in (("reference", y >= 0), ("same", y >= 0), ("classes 0-4", y < 5), ("classes 5-9", y >= 5)):
        i = some(of)
        out[name] = x[i], y[i]
    for share in (0.1, 0.3, 0.6):
        i = some(y >= 0)
        labels = y[i].copy()
        k = int(share * n)
        labels[:k] = g.integers(0, classes, k)
        out[f"{100 * share:g} % flipped"] = x[i], labels
    i = some(y >= 0)
    out["permuted"] = x[i], (y[i] + 3) % classes
    i = some(y >= 0)
    out["odd and even"] = x[i], y[i] % 2
    for deviation in (0.2, 0.4):
        i = some(y >= 0)
        out[f"noise {deviation:g}"] = x[i] + deviation * g.standard_normal(x[i].shape), y[i]
    i = some(y >= 0)
    out["dimmed"] = x[i] * 0.6, y[i]
    i = np.r_[some(y == 1, n // 2), some(y != 1, n - n // 2)]
    out["half one class"] = x[i], y[i]
    pick = g.choice(len(other[0]), n, replace=False)
    out["other set"] = other[0][pick], other[1][pick]
    return out


def labelled_sketch(x: Array, y: NDArray[np.int64], epsilon: float, design: SketchDesign) -> Sketch:
    """A labelled sketch at (ε, 1e-5) under replace-one."""
    held = Vault(x, y, classes=design.classes, clip=1.0, adjacency="replace-one", budget=(epsilon, DELTA))
    return sketch(held, epsilon=epsilon, delta=DELTA, design=design)
