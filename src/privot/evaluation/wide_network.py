"""A convolutional network of about a million weights, for colour images: train on synthetic, test on real.

Six convolutions with batch norm, flips and shifts of the images, stochastic gradients with one cycle of the learning
rate (Smith & Topin 2018). The number of epochs is fixed and nothing is chosen by the test set, which is used once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from privot.common.image_axes import Axes, image_axes
from privot.errors import DataError, UsageError

EPOCHS, BATCH, RATE = 15, 500, 0.1
_SHIFT = 2
"""Pixels by which images are shifted in training."""
_ROWS = 1000


class WideNetwork(nn.Module):
    """(rows, classes) from pictures (rows, channels, height, width) with values in [−1, 1]."""

    def __init__(self, channels: int, classes: int, width: int = 64) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> list[nn.Module]:
            convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
            return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

        self.layers = nn.Sequential(
            *block(channels, width), *block(width, width), nn.MaxPool2d(2),
            *block(width, 2 * width), *block(2 * width, 2 * width), nn.MaxPool2d(2),
            *block(2 * width, 4 * width), nn.Dropout2d(0.1), *block(4 * width, 3 * width),
            nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(3 * width, classes),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        out: torch.Tensor = self.layers(x)
        return out


def wide_score(
    x: NDArray[Any],
    y: NDArray[Any],
    x_test: NDArray[Any],
    y_test: NDArray[Any],
    *,
    shape: Sequence[int],
    span: tuple[float, float] = (0.0, 1.0),
    epochs: int = EPOCHS,
    width: int = 64,
    device: str = "cpu",
    seed: int = 0,
) -> float:
    """Test accuracy of the network after training on synthetic images.

    Parameters
    ----------
    x, y
        Flat synthetic images (n, pixels), at least 20, and labels 0, 1, ….
    x_test, y_test
        Real test images and their labels.
    shape
        Shape of an image, at least 8 × 8.
    span
        The values of black and white.
    epochs, width
        Passes over the synthetic images, and channels of the first layer; 64 make 1,000,650 weights for ten classes.
    device, seed
        Where and from which seed it is trained; half of the precision on a GPU.

    Returns
    -------
    float
        The share of test images that are classified correctly. It is as confidential as the test set.

    Examples
    --------
    >>> dice = np.random.default_rng(0)
    >>> y = np.arange(120) % 2
    >>> x = np.clip(0.3 + 0.4 * y[:, None] + 0.1 * dice.standard_normal((120, 64)), 0, 1)
    >>> wide_score(x[:60], y[:60], x[60:], y[60:], shape=(8, 8), epochs=10, width=4) > 0.9
    True
    """
    axes = image_axes(shape)
    if min(axes[:2]) < 8:
        raise UsageError("The wide network needs images of at least 8 × 8.")
    if not span[0] < span[1]:
        raise UsageError(f"The range of the images must rise, got {span[0]:g} to {span[1]:g}.")
    if len(x) < 20 or len(x) != len(y) or len(x_test) != len(y_test) or len(x_test) == 0:
        raise DataError("The wide network needs at least 20 synthetic images and one test image, each with a label.")
    classes = int(max(np.max(y), np.max(y_test))) + 1
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if device.startswith("cuda") else []):
        torch.manual_seed(seed)
        network = WideNetwork(axes.channels, classes, width).to(device)
        labels = torch.as_tensor(np.asarray(y, dtype=np.int64), device=device)
        _train(network, _pictures(x, axes, span, device), labels, epochs)
    network.eval()
    with torch.no_grad():
        tests = _pictures(x_test, axes, span, device)
        given = torch.cat([network(tests[at : at + _ROWS]).argmax(1) for at in range(0, len(tests), _ROWS)])
    return float(np.mean(given.cpu().numpy() == np.asarray(y_test)))


def _pictures(x: NDArray[Any], axes: Axes, span: tuple[float, float], device: str) -> torch.Tensor:
    rows = torch.as_tensor(np.asarray(x, dtype=np.float32).reshape(len(x), -1), device=device)
    return axes.pictures(2.0 * (rows - span[0]) / (span[1] - span[0]) - 1.0).contiguous()


def _train(network: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
    batch = max(1, min(BATCH, len(x) // 10))
    steps = len(x) // batch
    optimizer = torch.optim.SGD(network.parameters(), RATE, momentum=0.9, weight_decay=5e-4, nesterov=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=max(2, epochs * steps), pct_start=0.2)
    network.train()
    for _ in range(epochs):
        order = torch.randperm(len(x), device=x.device)
        for step in range(steps):
            at = order[step * batch : (step + 1) * batch]
            part = x[at]
            flip = torch.rand(len(part), 1, 1, 1, device=x.device) < 0.5
            part = _shifted(torch.where(flip, part.flip(3), part))
            with torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
                scores = network(part).float()
            loss = nn.functional.cross_entropy(scores, y[at], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            plan.step()


def _shifted(part: torch.Tensor) -> torch.Tensor:
    """All images of a batch by the same few pixels, their borders mirrored."""
    height, width = part.shape[2:]
    down, across = (int(v) for v in torch.randint(0, 2 * _SHIFT + 1, (2,)))
    framed = nn.functional.pad(part, (_SHIFT,) * 4, mode="reflect")
    return framed[:, :, down : down + height, across : across + width]
