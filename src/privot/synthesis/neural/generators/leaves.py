"""Pictures of dead leaves: discs and boxes that cover each other, under waves; no record and no photograph made them.

What classifiers learn from an image depends on edges, grounds, shades and textures at many sizes, which photographs
share with pictures of leaves that fell on each other (Lee, Mumford & Huang 2001). Networks that learn from such
pictures alone see photographs well (Baradad et al. 2021). So where noise hides what images look like, these
pictures are better to learn from than what a generator makes of the noise: a labeller that was tuned on records gives
them their labels, and a released mean gives them their light.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from privot.errors import UsageError
from privot.synthesis.neural.generators.generator import register
from privot.synthesis.neural.generators.image_generators import PictureGenerator

LEAVES, WAVES = 32, 12
"""The most leaves of a picture, and its waves."""
_OF_LEAF, _OF_WAVE, _OF_PICTURE = 12, 4, 8
NUMBERS = LEAVES * _OF_LEAF + WAVES * _OF_WAVE + _OF_PICTURE
"""Standard normal numbers that a picture is made from."""
_FEWEST = 4
_RADIUS, _STEEP, _LARGEST = (0.03, 0.047), 1.5, 0.62
"""Radii, in sides of the picture, have a tail like r⁻¹·⁵: there are details of every size."""
_BOXES, _OUTSIDE, _FLATTEST = 0.4, 0.12, 0.35
"""The share of boxes, how far centres lie outside, in sides, and the least ratio of the axes."""
_COLOUR, _SHADE, _GROUND = 0.09, 0.25, (0.18, 0.45, 0.2)
"""Standard deviations: of a leaf's colour from grey, of its shading, and of the ground, how much of it is
colour, and its shading."""
_WAVE = (0.01, 0.08)
"""The least amplitude of the waves, and how much more at most."""
_DARKEST = 0.02
"""Values are kept that far from black and white, so that light can change them."""

_MOST_VALUES = 2**24
"""The most values of a picture: 64 MB."""


def leaves(z: torch.Tensor, height: int, width: int, channels: int) -> torch.Tensor:
    """Pictures with values in [0, 1] from standard normal numbers.

    Parameters
    ----------
    z
        (rows, NUMBERS).
    height, width, channels
        The size of a picture; with one channel it is grey.

    Returns
    -------
    torch.Tensor
        (rows, channels, height, width).

    Examples
    --------
    >>> made = leaves(torch.randn(2, NUMBERS, generator=torch.Generator().manual_seed(0)), 16, 16, 3)
    >>> tuple(made.shape), bool((made >= 0).all() and (made <= 1).all())
    ((2, 3, 16, 16), True)
    """
    of_leaves, of_waves = z[:, : LEAVES * _OF_LEAF], z[:, LEAVES * _OF_LEAF : -_OF_PICTURE]
    rest = z[:, -_OF_PICTURE:]
    side = min(height, width)
    down, across = (((torch.arange(n, device=z.device) + 0.5) / side).to(z) for n in (height, width))
    place = down[:, None], across[None, :]
    ground = 0.5 + _GROUND[0] * rest[:, :channels]
    grey = ground.mean(dim=1, keepdim=True)
    ground = grey + _GROUND[1] * (ground - grey)
    slope = _GROUND[2] * (rest[:, 3, None, None] * (place[0] - 0.5) + rest[:, 4, None, None] * (place[1] - 0.5))
    picture = ground[:, :, None, None] + slope[:, None]
    number = _FEWEST + (LEAVES - _FEWEST) * _uniform(rest[:, 5])
    _lay(picture, of_leaves.reshape(len(z), LEAVES, _OF_LEAF), number, place, side)
    waves = _waves(of_waves.reshape(len(z), WAVES, _OF_WAVE), _uniform(rest[:, 6]), place, side)
    amplitude = _WAVE[0] + _WAVE[1] * _uniform(rest[:, 7])
    return torch.clamp(picture + amplitude[:, None, None, None] * waves[:, None], 0.0, 1.0)


def _lay(
    picture: torch.Tensor, z: torch.Tensor, number: torch.Tensor, place: tuple[torch.Tensor, torch.Tensor], side: int
) -> None:
    """Lay the leaves on the picture, one after the other, in place; borders are one pixel wide."""
    u = _uniform(z)
    # Pareto's law by its quantiles; the largest quantile keeps the power finite
    tail = (1.0 - u[:, :, 0]).clamp(min=1e-3).pow(-1.0 / _STEEP) - 1.0
    radius = (_RADIUS[0] + _RADIUS[1] * tail).clamp(max=_LARGEST)
    x, y = (u[:, :, n] * (1.0 + 2.0 * _OUTSIDE) - _OUTSIDE for n in (1, 2))
    flat, angle = _FLATTEST + (1.0 - _FLATTEST) * u[:, :, 3], math.pi * u[:, :, 4]
    cos, sin = torch.cos(angle) / radius, torch.sin(angle) / radius
    box, bright = u[:, :, 5] < _BOXES, 0.05 + 0.9 * u[:, :, 6]
    colour = bright[:, :, None] + _COLOUR * z[:, :, 7 : 7 + picture.shape[1]]
    shade = _SHADE * z[:, :, 10:] * (radius / (radius + 0.06))[:, :, None]
    down, across = place
    for n in range(z.shape[1]):

        def at(values: torch.Tensor, n: int = n) -> torch.Tensor:
            return values[:, n, None, None]

        # coordinates along the leaf's axes, in radii: sums of a row and a column
        along = at(cos) * (across - at(x)) + at(sin) * (down - at(y))
        beside = (at(cos) * (down - at(y)) - at(sin) * (across - at(x))) / at(flat)
        disc = torch.sqrt(along.square() + beside.square() + 1e-9) - 1.0
        corner = torch.maximum(along.abs(), beside.abs()) - 0.8
        outside = torch.where(at(box), corner, disc) * (side * at(radius))
        covered = (0.5 - outside).clamp_(0.0, 1.0) * (n < number)[:, None, None]
        shaded = shade[:, n, 0, None, None] * along + shade[:, n, 1, None, None] * (at(flat) * beside)
        own = (colour[:, n, :, None, None] + shaded[:, None]).clamp_(0.0, 1.0)
        picture.lerp_(own, covered[:, None])


def _waves(
    z: torch.Tensor, steepness: torch.Tensor, place: tuple[torch.Tensor, torch.Tensor], side: int
) -> torch.Tensor:
    """Waves in all directions whose amplitudes fall like f⁻ᵖ, p from 0.2 to 1; standard deviation 1."""
    u = _uniform(z)
    frequency = torch.exp(math.log(side / 2.0) * u[:, :, 0])
    turned, phase = 2.0 * math.pi * u[:, :, 1], 2.0 * math.pi * u[:, :, 2]
    height = frequency.pow(-(0.2 + 0.8 * steepness)[:, None]) * z[:, :, 3]
    x, y = (2.0 * math.pi * frequency * part for part in (torch.cos(turned), torch.sin(turned)))
    down, across = place
    out = z.new_zeros(len(z), down.shape[0], across.shape[1])
    for n in range(z.shape[1]):
        inner = x[:, n, None, None] * across + (y[:, n, None, None] * down + phase[:, n, None, None])
        out.addcmul_(height[:, n, None, None].expand_as(inner), torch.cos(inner))
    return out / out.std(dim=(1, 2), keepdim=True).clamp(min=1e-3)


def _uniform(z: torch.Tensor) -> torch.Tensor:
    """Φ(z)."""
    return 0.5 * torch.erfc(-z / math.sqrt(2.0))


@register("leaves")
class LeavesGenerator(PictureGenerator):
    """x = head(e^g·logit(l) + b): pictures l of leaves under a light that a small network makes of z and the class.

    The light, g and b for every channel, has `grid` × `grid` values that are interpolated: so few that they show what
    a class has in common, its colours and where it is bright, and hardly the noise of a release.
    """

    shows_class = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.own, self.grid, hidden = (int(config[name]) for name in ("own", "grid", "hidden"))
        if self.channels not in (1, 3) or self.drawn != self.own + NUMBERS or min(self.own, self.grid, hidden) < 1:
            raise UsageError(f"Pictures of leaves have 1 or 3 channels and take {NUMBERS} latent numbers besides own.")
        # no weight depends on the size of a picture, so nothing else would tell a wrong one
        side = min(self.height, self.width)
        if self.height * self.width * self.channels != self.dim or self.dim > _MOST_VALUES or side < max(2, self.grid):
            raise UsageError(
                f"Pictures of leaves have as many values as columns, at most {_MOST_VALUES}, and sides of at least 2 "
                "pixels and of the grid of their light."
            )
        self.light = nn.Sequential(
            nn.Linear(self.own + self.classes, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, (1 + self.channels) * self.grid**2),
        )
        last = self.light[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            # training begins with hardly any light, so with the pictures as they are
            last.weight.mul_(0.1)
            last.bias.zero_()

    def picture(self, code: torch.Tensor) -> torch.Tensor:
        """(rows, channels, height, width) before the head."""
        # without gradients, since nothing in it is learned, and in full precision
        with torch.no_grad(), torch.autocast(code.device.type, enabled=False):
            made = leaves(code[:, self.own : self.drawn].float(), self.height, self.width, self.channels)
            made = torch.logit(made.clamp_(_DARKEST, 1.0 - _DARKEST))
        light = self.light(torch.cat([code[:, : self.own], code[:, self.drawn :]], dim=1)).float()
        light = light.view(-1, 1 + self.channels, self.grid, self.grid)
        light = nn.functional.interpolate(light, size=made.shape[2:], mode="bilinear", align_corners=False)
        return made * torch.exp(light[:, :1].clamp(-2.0, 2.0)) + light[:, 1:]
