"""Public families of transformations from source records to the target's style; they see source records only.

A transformation T_θ has few parameters, so that one noisy release of the target determines them: `transformation_fit`
finds the θ for which the transformed source has the released mean embedding. T_θ keeps a record's class, so labels
stay valid.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from privot.common.image_axes import image_axes

_APPEARANCE = 4
"""Blur, thickness, gamma and contrast."""
SPREADS = (0.2, 0.2, 0.2, 0.2, 0.1, 0.1, 0.3, 0.5, 0.4, 0.2)
"""Public spreads of the affine map and of appearance before a fit: wide enough for most handwriting."""
_ELASTIC = 0.04
"""How far a random bend moves its control points, as a share of half the image's side, beyond the fit, in training."""
_KNOTS = 5


class Transformation(nn.Module):
    """T_θ(x; ξ) with ξ ~ N(0, I): parameters are the means and spreads of what is drawn for every record anew.

    `forward` takes records in [0, 1] as rows and ξ of shape (rows, `draws`). `wide` stretches the spreads and `bend`
    distorts at random, so that a classifier tolerates more than was fitted. An unfitted transformation is a public
    augmentation. `weights` say how much more frequent each class is in the target than in the source.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.shares = nn.Parameter(torch.zeros(classes))

    @abstractmethod
    def draws(self, bend: bool) -> int:
        """The number of standard normal numbers per record."""

    @abstractmethod
    def forward(self, unit: Tensor, drawn: Tensor, wide: float = 1.0, bend: bool = False) -> Tensor:
        """(rows, columns) → (rows, columns), in [0, 1]."""

    def standardise(self, unit: Tensor) -> None:
        """Compute statistics of the *source* records, where the family needs any."""

    def weights(self, labels: Tensor) -> Tensor:
        """e^v_y, proportional to the frequency of class y in the target relative to the source."""
        # by a product: the gradient of an indexed read cannot be recorded everywhere
        ones = labels[:, None] == torch.arange(len(self.shares), device=labels.device)
        return ones.to(self.shares) @ self.shares.clamp(-3.0, 3.0).exp()

    def prior(self) -> Tensor:
        """How far the parameters are from doing nothing, squared; keeps them from following noise."""
        return self.shares.square().sum()


class Warp(Transformation):
    """Images are rotated, scaled, sheared and shifted, then blurred, thickened and brightened.

    Six numbers of an affine map of the plane and four of appearance are drawn for every image from a normal law. Its
    mean follows the image's own moments (centre, widths, slant, mass, standardised on the source), so that a style that
    fills its frame or stands upright can be reached: p ~ N(mean + B·s(x), spread²), 80 numbers in all.
    """

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__(classes)
        self.axes = image_axes(shape)
        self.start: Tensor
        self.centre: Tensor
        self.width: Tensor
        self.down: Tensor
        self.across: Tensor
        self.mean = nn.Parameter(torch.zeros(6 + _APPEARANCE))
        self.register_buffer("start", torch.tensor(SPREADS).log())
        self.spread = nn.Parameter(torch.tensor(SPREADS).log())
        self.follow = nn.Parameter(torch.zeros(6, 6 + _APPEARANCE))
        self.register_buffer("centre", torch.zeros(6))
        self.register_buffer("width", torch.ones(6))
        # a bend is linear in its knots: two products of small matrices, where the device's own kernel takes ten times
        # as long
        self.register_buffer("down", _bicubic(self.axes.height), persistent=False)
        self.register_buffer("across", _bicubic(self.axes.width), persistent=False)

    def draws(self, bend: bool) -> int:
        """Ten for the map and appearance, and two per knot of a bend."""
        return 6 + _APPEARANCE + (2 * _KNOTS**2 if bend else 0)

    def standardise(self, unit: Tensor) -> None:
        """Take the moments' own mean and spread from *source* records, which are public."""
        found = self._moments(self.axes.pictures(unit))
        self.centre = found.mean(dim=0)
        self.width = found.std(dim=0).clamp(min=1e-6)

    def forward(self, unit: Tensor, drawn: Tensor, wide: float = 1.0, bend: bool = False) -> Tensor:
        """(rows, columns) → (rows, columns), in [0, 1]."""
        image, count = self.axes.pictures(unit), len(self.mean)
        found = self.mean + wide * self.spread.exp() * drawn[:, :count]
        found = found + ((self._moments(image) - self.centre) / self.width) @ self.follow
        bends = drawn[:, count:].reshape(-1, 2, _KNOTS, _KNOTS) if bend else None
        made = self._appearance(self._move(image, found[:, :6], bends), found[:, 6:, None, None, None])
        return self.axes.rows(made)

    @staticmethod
    def _moments(image: Tensor) -> Tensor:
        """Centre (2), widths (2), slant and mass of every image, of shape (rows, 6)."""
        ink = image.mean(dim=1)
        across = torch.linspace(-1.0, 1.0, ink.shape[2], device=ink.device)
        down = torch.linspace(-1.0, 1.0, ink.shape[1], device=ink.device)
        mass = ink.sum(dim=(1, 2)).clamp(min=1e-3)
        x, y = (ink.sum(dim=1) @ across) / mass, (ink.sum(dim=2) @ down) / mass
        from_x, from_y = across - x[:, None], down - y[:, None]
        wide = (ink.sum(dim=1) * from_x.square()).sum(dim=1) / mass
        tall = (ink.sum(dim=2) * from_y.square()).sum(dim=1) / mass
        slant = ((ink * from_x[:, None, :]).sum(dim=2) * from_y).sum(dim=1) / mass
        # a root at 0 has no finite slope
        return torch.stack([x, y, wide.clamp(min=1e-6).sqrt(), tall.clamp(min=1e-6).sqrt(), slant, mass], dim=1)

    def _move(self, image: Tensor, affine: Tensor, bends: Tensor | None) -> Tensor:
        turned = torch.eye(2, device=image.device) + affine[:, :4].view(-1, 2, 2)
        theta = torch.cat([turned, affine[:, 4:, None]], dim=2)
        grid = functional.affine_grid(theta, list(image.shape), align_corners=False)
        if bends is not None:
            far = self.down @ (_ELASTIC * bends) @ self.across.T
            grid = grid + far.permute(0, 2, 3, 1)
        return functional.grid_sample(image, grid, align_corners=False)

    @staticmethod
    def _appearance(image: Tensor, drawn: Tensor) -> Tensor:
        blur, thick, gamma, contrast = (drawn[:, i] for i in range(_APPEARANCE))
        soft = functional.avg_pool2d(functional.pad(image, (1, 1, 1, 1)), 3, 1)
        image = image + (soft - image) * blur.clamp(-0.6, 1.0)
        wider, thinner = functional.max_pool2d(image, 3, 1, 1), -functional.max_pool2d(-image, 3, 1, 1)
        thick = thick.clamp(-1.0, 1.0)
        image = image + (wider - image) * thick.clamp(min=0.0) + (thinner - image) * (-thick).clamp(min=0.0)
        # a power at 0 has no finite slope
        image = image.clamp(1e-3, 1.0) ** gamma.clamp(-2.0, 2.0).exp() * contrast.clamp(-2.0, 2.0).exp()
        return image.clamp(0.0, 1.0)

    def prior(self) -> Tensor:
        """‖v‖² + ‖mean‖² + ‖B‖² + ‖log spread − its start‖²: with an uninformative release the augmentation stays."""
        moved = (self.spread - self.start).square().sum()
        return super().prior() + self.mean.square().sum() + self.follow.square().sum() + moved


def _bicubic(size: int) -> Tensor:
    """The matrix (size, knots) that takes values at knots to bicubic values between them, ends included."""
    knots = torch.eye(_KNOTS, dtype=torch.float64)[None, :, :, None]
    made: Tensor = functional.interpolate(knots, size=[size, 1], mode="bicubic", align_corners=True)
    return made[0, :, :, 0].T.contiguous().float()


class Scaling(Transformation):
    """Every column is scaled and shifted: x ↦ x·e^a + b, with a small jitter when training; 2·columns numbers.

    That many could follow the noise of a release, so `prior` pulls them towards doing nothing.
    """

    def __init__(self, columns: int, classes: int) -> None:
        super().__init__(classes)
        self.scale = nn.Parameter(torch.zeros(columns))
        self.shift = nn.Parameter(torch.zeros(columns))

    def draws(self, bend: bool) -> int:
        """How many normals a record needs: one per column."""
        return len(self.scale) if bend else 0

    def forward(self, unit: Tensor, drawn: Tensor, wide: float = 1.0, bend: bool = False) -> Tensor:
        """(rows, columns) → (rows, columns), in [0, 1]."""
        made = unit * self.scale.clamp(-3.0, 3.0).exp() + self.shift
        if bend:
            made = made * (0.05 * drawn).exp()
        return made.clamp(0.0, 1.0)

    def prior(self) -> Tensor:
        """‖v‖² + ‖a‖² + ‖b‖²: a column at the edge of [0, 1] moves by b what it would move by a."""
        return super().prior() + self.scale.square().sum() + self.shift.square().sum()


def transformation(shape: Sequence[int] | None, columns: int, classes: int) -> Transformation:
    """The family for images of `shape`, or for vectors."""
    return Scaling(columns, classes) if shape is None else Warp(shape, classes)
