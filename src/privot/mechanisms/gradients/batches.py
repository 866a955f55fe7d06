"""Samples and noise of one step after another in fixed shapes, prepared for many steps at once; nothing leaves it.

Both are drawn from the noise source ahead of time, each number for one step only: a device that waits for the host at
every step would be idle most of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from privot.accounting.sampling import Sampling
from privot.mechanisms.mechanism import Records
from privot.noise import NoiseSource

if TYPE_CHECKING:
    import torch

STEPS_AHEAD = 64
"""Samples drawn at once for a GPU, as one copy to it."""
NORMALS_AHEAD = 1 << 22
"""Normals drawn at once on a GPU: what two keys give serves many steps."""

Scale = tuple[float, float]


class Batches:
    """Samples in a fixed shape, from records that lie on the device for as long as this does.

    Records are scaled from their public range to [−1, 1] and clamped there; NaN counts as 0. A sample
    takes `room` rows: those it does not fill are a public row of zeros with weight 0, so no record takes part
    unsampled, and what exceeds the room is cut off. A step has `each` samples, drawn one after another.
    """

    def __init__(
        self,
        records: Records,
        noise: NoiseSource,
        sampling: Sampling,
        *,
        room: int,
        steps: int,
        each: int = 1,
        span: Scale,
        labels: bool,
        device: str,
    ) -> None:
        import torch

        low, high = span
        # scaled where they lie: on the host it would take longer than a block of steps
        held = torch.from_numpy(records.rows()).to(device, copy=True)
        held.sub_(low).mul_(2.0 / (high - low)).sub_(1.0).nan_to_num_(nan=0.0).clamp_(-1.0, 1.0)
        self.rows = torch.zeros(len(held) + 1, held.shape[1], dtype=torch.float32, device=device)
        """(records + 1, columns), the last one the row of zeros."""
        self.rows[:-1] = held
        marks = records.labels() if labels else np.zeros(records.count, dtype=np.int64)
        self.marks = torch.from_numpy(np.append(marks, 0)).to(device)
        self._draw: Callable[[], np.ndarray[tuple[int], np.dtype[np.int64]]]
        self._draw = lambda: sampling.draw(noise, records.count)
        self._size, self._device, self._left = (each, room), device, steps
        self._ahead = STEPS_AHEAD if device == "cuda" else 1
        self._held: list[torch.Tensor] = []

    def take(self) -> torch.Tensor:
        """Which rows the next step's samples have, (each, room), the row of zeros where one has none."""
        import torch

        if not self._held:
            # no more than steps were paid for
            ahead = max(1, min(self._ahead, self._left))
            places = np.full((ahead, *self._size), len(self.rows) - 1, dtype=np.int64)
            for line in places.reshape(-1, self._size[1]):
                drawn = self._draw()[: self._size[1]]
                line[: len(drawn)] = drawn
            self._held = list(torch.from_numpy(places).to(self._device))
            self._held.reverse()
        self._left -= 1
        return self._held.pop()

    def rows_at(self, where: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(rows, labels, weights) of samples; the same operations whatever they are."""
        there = (where < len(self.rows) - 1).to(self.rows.dtype)
        return self.rows[where], self.marks[where], there


class Normals:
    """Noise for one step after another, each number of it handed out once."""

    def __init__(self, noise: NoiseSource, shape: tuple[int, ...], sigma: float, device: str) -> None:
        self._noise, self._shape, self._sigma, self._device = noise, shape, sigma, device
        self._ahead = max(1, NORMALS_AHEAD // max(1, int(np.prod(shape)))) if device == "cuda" else 1
        self._held: list[torch.Tensor] = []

    def take(self) -> torch.Tensor:
        """Noise of one step, float64."""
        import torch

        if not self._held:
            drawn = self._noise.normal_tensor((self._ahead, *self._shape), self._sigma, self._device, torch.float64)
            self._held = list(drawn)
        return self._held.pop()
