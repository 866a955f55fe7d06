"""Train on synthetic, test on real: logistic regression, a two-layer perceptron, a small convolutional network.

The set-up is that of DP-Sinkhorn's table 1 (Cao et al. 2021). Early stopping uses a hold-out of the *synthetic* data;
the real test set is used once, at the end.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from privot.common.cuda_graphs import adam, cosine, recorded, set_rate
from privot.common.declared import declared
from privot.common.image_axes import image_axes
from privot.errors import DataError, UsageError

HELD_OUT = 0.1
PATIENCE = 8
MAX_CLASSES = 10_000
_ROWS = 4096


@dataclass(frozen=True)
class Recipe:
    """How one kind of classifier is trained."""

    build: Callable[[int, int, tuple[int, ...] | None], nn.Module]
    learning_rate: float
    epochs: int
    decay: float = 0.0
    images: bool = False


def _logreg(dim: int, classes: int, shape: tuple[int, ...] | None) -> nn.Module:
    return nn.Linear(dim, classes)


def _mlp(dim: int, classes: int, shape: tuple[int, ...] | None) -> nn.Module:
    return nn.Sequential(nn.Linear(dim, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, classes))


class Convolutional(nn.Module):
    """Two convolutions with pooling and one hidden layer."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.axes = image_axes(shape)
        height, width, channels, _ = self.axes
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.3),
            nn.Linear(64 * (height // 4) * (width // 4), 128), nn.ReLU(), nn.Linear(128, classes),
        )  # fmt: skip

    def convolutions(self) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Weights and biases of both convolutions; each is followed by a ReLU and pooling by 2."""
        state = {name: t.double().cpu().numpy() for name, t in self.layers.state_dict().items()}
        return [(state[f"{i}.weight"], state[f"{i}.bias"]) for i in (0, 3)]

    def flat(self, x: torch.Tensor) -> torch.Tensor:
        """The output of the convolutions, (rows, channels · positions), for flat images."""
        pictures, front = self.axes.pictures(x), self.layers[:7]
        return torch.cat([front(pictures[s : s + _ROWS]) for s in range(0, len(x), _ROWS)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of shape (rows, classes) from flat images."""
        out: torch.Tensor = self.layers(self.axes.pictures(x))
        return out


def _cnn(dim: int, classes: int, shape: tuple[int, ...] | None) -> nn.Module:
    if shape is None or min(image_axes(shape)[:2]) < 4 or int(np.prod(shape)) != dim:
        raise UsageError("A convolutional classifier needs images of at least 4 × 4: give their shape.")
    return Convolutional(shape, classes)


CLASSIFIERS = {
    "logreg": Recipe(_logreg, 1e-2, 20, decay=1e-5),
    "mlp": Recipe(_mlp, 1e-3, 40),
    "cnn": Recipe(_cnn, 1e-3, 30, images=True),
}


@declared(name="word")
def score(
    name: str,
    x: NDArray[Any],
    y: NDArray[Any],
    x_test: NDArray[Any],
    y_test: NDArray[Any],
    *,
    shape: Sequence[int] | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> float:
    """Test accuracy of a classifier that is trained on synthetic records.

    Parameters
    ----------
    name
        The classifier: "logreg", "mlp" or "cnn".
    x, y
        Synthetic records (n, …), at least 20, and labels (n,), whole numbers from 0.
    x_test, y_test
        Real test records with as many values each, and their labels.
    shape
        Shape of an image; "cnn" needs it.
    device, seed
        Where and from which seed the classifier is trained.

    Returns
    -------
    float
        The share of test records that are classified correctly. It is as confidential as the test set.

    Raises
    ------
    UsageError
        If the classifier is unknown, or "cnn" lacks a shape.
    DataError
        If sizes or labels do not fit.
    """
    given = predicted(name, x, y, x_test, y_test, shape=shape, device=device, seed=seed)
    return float(np.mean(given == np.asarray(y_test)))


def confusion(y_test: NDArray[Any], given: NDArray[np.int64]) -> list[list[int]]:
    """How many records of each class (rows) were given each label (columns); as confidential as the test set.

    >>> confusion(np.array([0, 1, 1]), np.array([0, 0, 1]))
    [[1, 0], [1, 1]]
    """
    y_test = np.asarray(y_test).astype(np.int64)
    classes = int(max(y_test.max(), given.max())) + 1
    counts = np.bincount(y_test * classes + given, minlength=classes * classes).reshape(classes, classes)
    return [[int(v) for v in row] for row in counts]


def predicted(
    name: str,
    x: NDArray[Any],
    y: NDArray[Any],
    x_test: NDArray[Any],
    y_test: NDArray[Any],
    *,
    shape: Sequence[int] | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> NDArray[np.int64]:
    """The labels that a classifier trained on synthetic records gives to test records; parameters as for `score`.

    `y_test` is checked and says how many classes there are; the classifier does not see it.
    """
    if name not in CLASSIFIERS:
        raise UsageError(f"Unknown classifier {name!r}: use one of {', '.join(CLASSIFIERS)}.")
    x, y, x_test, y_test = (np.asarray(a) for a in (x, y, x_test, y_test))
    x, x_test = x.reshape(len(x), -1), x_test.reshape(len(x_test), -1)
    if x.shape[1] != x_test.shape[1]:
        raise DataError(f"Synthetic records have {x.shape[1]} values and test records {x_test.shape[1]}.")
    if len(x) < 20:
        raise DataError(f"Expected at least 20 synthetic records to train on, got {len(x)}.")
    for side, given in (("synthetic", y), ("test", y_test)):
        if given.min() < 0 or given.max() >= MAX_CLASSES or not np.array_equal(given, np.floor(given)):
            raise DataError(f"The {side} labels must be whole numbers from 0 to {MAX_CLASSES - 1}: renumber them.")
    if not np.isin(y_test, y).any():
        raise DataError("Test and synthetic records have no label in common: number the classes alike.")
    y, y_test = y.astype(np.int64), y_test.astype(np.int64)
    classes = int(max(y.max(), y_test.max())) + 1
    # one scale for both sides, from the synthetic side only
    low, high = float(x.min()), float(x.max())
    span = high - low if high > low else 1.0
    inputs, labels = _tensors((x - low) / span, y, device)
    model = fitted(name, inputs, labels, classes, shape=shape, seed=seed)
    return _labels(model, _tensors((x_test - low) / span, y_test, device)[0])


def fitted(
    name: str, x: torch.Tensor, y: torch.Tensor, classes: int, *, shape: Sequence[int] | None = None, seed: int = 0
) -> nn.Module:
    """A classifier trained on rows `x` in [0, 1] and their labels, on their device; in evaluation mode."""
    recipe, device = CLASSIFIERS[name], x.device
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        model = recipe.build(x.shape[1], classes, None if shape is None else tuple(shape)).to(device)
        order = torch.randperm(len(x)).to(device)
        held = max(1, int(HELD_OUT * len(x)))
        best = _fit(model, recipe, x, y, order[held:], order[:held])
    model.load_state_dict(best)
    return model.eval()


def _tensors(x: NDArray[Any], y: NDArray[Any], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.as_tensor(np.ascontiguousarray(x, dtype=np.float32), device=device)
    return inputs, torch.as_tensor(np.asarray(y, dtype=np.int64), device=device)


def _fit(
    model: nn.Module,
    recipe: Recipe,
    x: torch.Tensor,
    y: torch.Tensor,
    used: torch.Tensor,
    held: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """The weights with the lowest loss on the synthetic hold-out."""
    batch = max(32, min(512, len(used) // 20))
    steps = max(1, len(used) // batch)
    optimizer = adam(model, recipe.learning_rate, weight_decay=recipe.decay)
    # every batch has the same size, so that a step can be recorded on a GPU
    part = used[:batch].clone()

    def work() -> None:
        nn.functional.cross_entropy(model(x[part]), y[part]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    model.train()
    take = recorded(model, optimizer, work)
    best, least, stale = copy.deepcopy(model.state_dict()), math.inf, 0
    for epoch in range(recipe.epochs):
        model.train()
        order = used[torch.randperm(len(used), device=used.device)]
        for step in range(steps):
            set_rate(optimizer, cosine(recipe.learning_rate, epoch * steps + step, recipe.epochs * steps))
            part.copy_(order[step * batch : (step + 1) * batch])
            take()
        # the loss, not the accuracy: a small hold-out has many ties
        model.eval()
        with torch.no_grad():
            reached = float(nn.functional.cross_entropy(model(x[held]), y[held]))
        if reached < least:
            best, least, stale = copy.deepcopy(model.state_dict()), reached, 0
        else:
            stale += 1
            if stale >= PATIENCE:
                break
    return best


def _labels(model: nn.Module, x: torch.Tensor) -> NDArray[np.int64]:
    model.eval()
    with torch.no_grad():
        parts = [model(x[start : start + _ROWS]).argmax(1).cpu() for start in range(0, len(x), _ROWS)]
    labels: NDArray[np.int64] = torch.cat(parts).numpy()
    return labels
