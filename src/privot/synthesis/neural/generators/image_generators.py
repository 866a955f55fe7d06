"""Generators for images besides the plain ones of `generator`, some as in papers; they never see a record."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from privot.common.image_axes import image_axes
from privot.errors import UsageError
from privot.synthesis.neural.generators.fused_layers import (
    DoubledReLU,
    FewMaps,
    FewMapsTwice,
    FromPoint,
    NormedReLU,
    ToMaps,
)
from privot.synthesis.neural.generators.generator import Single, one_hot, register

AFFINE = 6
"""Numbers of an affine map of the plane."""
_EASED = 0.3
"""The share of a training in which the warp grows from 0: with the full warp from the start, images can collapse."""


_DRAWN = (16, 8)
"""Maps at full size, before and after the convolution between them."""


class PictureGenerator(Single):
    """Makes (rows, channels, height, width) and lays it out in the order of the records' public `shape`.

    With `warp` > 0 the image then goes through an affine map of the plane: the pixel at p is taken from Ap + t,
    A = I + `warp`·E and t = 0.3·`warp` of the sides times s, E and s standard normal: six numbers of z. Objects in
    images are rotated, slanted and shifted; this is known beforehand and need not be learned from a noisy release.
    In training the warp grows from 0 (`ease`), or is left out (`warped` "sampling").
    """

    spread: torch.Tensor

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.axes = image_axes(config["shape"])
        self.height, self.width, self.channels, _ = self.axes
        self.warp, self.warped = float(config.get("warp", 0.0)), str(config.get("warped", "always"))
        self.drawn = self.latent - (AFFINE if self.warp else 0)
        """Numbers of z that the image is made from."""
        if not 0.0 <= self.warp < math.inf or (self.warp and self.drawn < 1):
            raise UsageError(
                f"warp must be 0 or more and needs over {AFFINE} latent numbers, got {self.warp:g} and {self.latent}."
            )
        if self.warped not in ("always", "sampling"):
            raise UsageError(f"warped must be always or sampling, got {self.warped!r}.")
        # half a side is 1 in the map's units, hence 0.6 for 0.3 of a side
        self.register_buffer("spread", self.warp * torch.tensor([1.0, 1.0, 0.6]), persistent=False)
        self._grown = 1.0

    @abstractmethod
    def picture(self, code: torch.Tensor) -> torch.Tensor:
        """(rows, channels, ≥ height, ≥ width) from [z; one-hot]."""

    def body(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The numbers before the head, (rows, dim)."""
        image = self.picture(torch.cat([z, one_hot(labels, self.classes, z)], dim=1))
        return self.axes.rows(image[:, :, : self.height, : self.width])

    def ease(self, share: float) -> None:
        """Let the warp grow; in place, since a recorded step reads it there."""
        grown = min(1.0, share / _EASED)
        if self.warp and grown != self._grown:
            self.spread.copy_(grown * self.warp * self.spread.new_tensor([1.0, 1.0, 0.6]))
            self._grown = grown

    def forward(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(rows, dim) in [0, 1] from z of shape (rows, latent) and labels of shape (rows,)."""
        made = super().forward(z[:, : self.drawn], labels)
        if not self.warp or (self.training and self.warped == "sampling"):
            return made
        image = self.axes.pictures(made)
        step = self.spread * z[:, self.drawn :].float().view(-1, 2, 3)
        with torch.autocast(z.device.type, enabled=False):
            grid = nn.functional.affine_grid(torch.eye(2, 3, device=z.device) + step, list(image.shape), False)
            moved = nn.functional.grid_sample(image.float(), grid, padding_mode="border", align_corners=False)
        return self.axes.rows(moved).to(made.dtype)


@register("dcgan")
class DeepConvolutional(PictureGenerator):
    """Four transposed convolutions with batch normalisation (Radford et al. 2016), as in DP-Sinkhorn for 28×28.

    1×1 → ⌈h/4⌉ → ⌈h/4⌉ (3×3) → twice → four times that, `channels` falling by half; the class is one-hot beside z. The
    head's sigmoid on [0, 1] is the paper's tanh on [−1, 1] with the argument halved.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        wide = int(config["channels"])
        start = (-(-self.height // 4), -(-self.width // 4))
        # placeholders for earlier ReLU layers, so that weights saved before keep their numbers
        after = nn.Identity()
        self.layers = nn.Sequential(
            FromPoint(self.drawn + self.classes, wide, start),
            NormedReLU(wide),
            after,
            nn.ConvTranspose2d(wide, wide // 2, 3, 1, 1, bias=False),
            NormedReLU(wide // 2),
            after,
            nn.ConvTranspose2d(wide // 2, wide // 4, 4, 2, 1, bias=False),
            NormedReLU(wide // 4),
            after,
            FewMapsTwice(wide // 4, self.channels),
        )

    def picture(self, code: torch.Tensor) -> torch.Tensor:
        """(rows, channels, height, width)."""
        out: torch.Tensor = self.layers(code[:, :, None, None])
        return out


@register("mapped")
class MappedGenerator(PictureGenerator):
    """z and the class go through a small network first (Karras et al. 2019), then up to half the size, then twice that.

    A map of ⌈h/2^`doublings`⌉ with `channels` maps is doubled by transposed convolutions, halving the maps each time.
    No wide layer runs at full size: the last doubling interpolates a few maps and applies two small convolutions
    (`last` "resized"; Odena et al. 2016), or rearranges the maps of one convolution, four per channel (Shi et al.
    2016), which leaves a pattern of single pixels.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        hidden, doublings, wide = (int(config[name]) for name in ("hidden", "doublings", "channels"))
        code = self.drawn + self.classes
        self.start = (-(-self.height // 2**doublings), -(-self.width // 2**doublings))
        self.mapping = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.project = ToMaps(hidden + self.classes, wide, self.start)
        self.wide = wide
        # a placeholder for an earlier ReLU layer, so that weights saved before keep their numbers
        after = nn.Identity()
        layers: list[nn.Module] = [NormedReLU(wide), after]
        for _ in range(doublings - 1):
            layers += [nn.ConvTranspose2d(wide, wide // 2, 4, 2, 1, bias=False), NormedReLU(wide // 2), after]
            wide //= 2
        layers += [nn.Conv2d(wide, wide, 3, padding=1, bias=False), NormedReLU(wide), after]
        kind = config.get("last", "rearranged")
        if kind == "resized":
            layers += [FewMaps(wide, _DRAWN[0], 3), DoubledReLU(), after, FewMaps(*_DRAWN, 3), nn.ReLU()]
            layers += [FewMaps(_DRAWN[1], self.channels, 3)]
        elif kind == "rearranged":
            layers += [FewMaps(wide, 4 * self.channels, 5), nn.PixelShuffle(2)]
        else:
            raise UsageError(f"last must be resized or rearranged, got {kind!r}.")
        self.layers = nn.Sequential(*layers)

    def picture(self, code: torch.Tensor) -> torch.Tensor:
        """(rows, channels, ≥ height, ≥ width)."""
        out: torch.Tensor = self.layers(self.project(torch.cat([self.mapping(code), code[:, self.drawn :]], dim=1)))
        return out


class _Residual(nn.Module):
    """x ↦ up(x) + conv(relu(bn(conv(up(relu(bn(x)))))): a block of BigGAN's generator (Brock et al. 2019)."""

    def __init__(self, narrow: int, wide: int) -> None:
        super().__init__()
        self.before, self.after = nn.BatchNorm2d(narrow), nn.BatchNorm2d(wide)
        self.first = nn.Conv2d(narrow, wide, 3, padding=1)
        self.second = nn.Conv2d(wide, wide, 3, padding=1)
        self.skip = nn.Conv2d(narrow, wide, 1)
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.first(self.up(torch.relu(self.before(x))))
        out: torch.Tensor = self.second(torch.relu(self.after(inner))) + self.skip(self.up(x))
        return out


@register("residual")
class ResidualGenerator(PictureGenerator):
    """Residual blocks, each doubling the map from 4×4, as in DP-Sinkhorn for 32×32 colour.

    Three blocks of three convolutions (their skips included), the projection, the last normalised convolution: with 32
    rows twelve layers of weights in all.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.wide = int(config["channels"])
        side, doublings = 4, 0
        while side < max(self.height, self.width):
            side, doublings = 2 * side, doublings + 1
        self.project = nn.Linear(self.drawn + self.classes, self.wide * 16)
        self.blocks = nn.Sequential(*(_Residual(self.wide, self.wide) for _ in range(doublings)))
        self.finish = nn.Sequential(
            nn.BatchNorm2d(self.wide), nn.ReLU(), nn.Conv2d(self.wide, self.channels, 3, padding=1)
        )

    def picture(self, code: torch.Tensor) -> torch.Tensor:
        """(rows, channels, side, side), side the power of two at or above the image's."""
        out: torch.Tensor = self.finish(self.blocks(self.project(code).view(-1, self.wide, 4, 4)))
        return out


@register("upsampling")
class UpsamplingGenerator(PictureGenerator):
    """The generator of DP-SWD's Table 3 (Rakotomamonjy & Ralaivola 2021), which is DP-MERF's.

    FC 20 – 200, batch normalisation, FC 200 – 784, batch normalisation, as 16 maps of 7×7 (⌈h/4⌉ in general), twice up
    by 2 and convolved 5×5, to 8 maps with a ReLU and then to the image, with the head's sigmoid. A ReLU stands after
    each normalisation, without which the two layers would be one.
    """

    maps = 16

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.start = (-(-self.height // 4), -(-self.width // 4))
        inner = self.maps * self.start[0] * self.start[1]
        self.dense = nn.Sequential(
            nn.Linear(self.drawn + self.classes, 200),
            nn.BatchNorm1d(200),
            nn.ReLU(),
            nn.Linear(200, inner),
            nn.BatchNorm1d(inner),
            nn.ReLU(),
        )
        self.layers = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(self.maps, 8, 5, padding=2),
            nn.ReLU(),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(8, self.channels, 5, padding=2),
        )

    def picture(self, code: torch.Tensor) -> torch.Tensor:
        """(rows, channels, ≥ height, ≥ width)."""
        out: torch.Tensor = self.layers(self.dense(code).view(-1, self.maps, *self.start))
        return out


@register("affine")
class AffineGenerator(Single):
    """x' = head(γ·b_c + W_c z): one image per class that varies in `latent` directions; for few records, much noise.

    Only parameters that many points share average out the noise in a gradient. Here all points of a class share b_c
    directly. γ = 50 makes b_c, which has to move far, that much faster than W_c.
    """

    gain = 50.0

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.level = nn.Parameter(torch.zeros(self.classes, self.dim))
        self.ways = nn.Parameter(0.1 * torch.randn(self.classes, self.latent, self.dim))

    def body(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The numbers before the head, (rows, dim)."""
        return self.gain * self.level[labels] + torch.einsum("bi,bij->bj", z, self.ways[labels])
