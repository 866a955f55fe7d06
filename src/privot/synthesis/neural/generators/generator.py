"""Generators: from a latent vector and a class to a record scaled to [0, 1]; they never see a record.

Each is built from a plain dictionary (`kind` and sizes), so that weights and a small JSON file are all it takes to
draw samples again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from privot.common.image_axes import image_axes
from privot.errors import DataError, UsageError

Segment = tuple[int, int, str]
"""(start, stop, "interval" or "categorical"): how a stretch of the output is brought to [0, 1]."""

_KINDS: dict[str, Callable[..., Generator]] = {}


class Generator(nn.Module, ABC):
    """Makes a record from z ~ N(0, I) of length `latent` and a class; labels are 0 where there are no classes."""

    warp = 0.0
    """How far samples are warped at random; 0 for most generators."""
    members = 1
    """The number of generators trained side by side (`Several`); 1 for most."""
    shows_class = True
    """Whether a sample looks like the class that it was asked for; False where a labeller has to say what it is."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.config = dict(config)
        self.latent = int(config["latent"])
        self.classes = int(config["classes"])
        self.dim = int(config["dim"])
        if min(self.latent, self.classes, self.dim) < 1:
            raise UsageError("A generator has at least one latent number, one class and one column.")
        self.segments = checked_segments(config["segments"], self.dim)

    @abstractmethod
    def forward(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(rows, dim) in [0, 1] from z of shape (rows, latent) and labels of shape (rows,)."""

    def ease(self, share: float) -> None:
        """Called before every step with the share of the training that is done; most generators ignore it."""


class Single(Generator):
    """x' = head(body(z, class))."""

    def forward(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(rows, dim) in [0, 1] from z of shape (rows, latent) and labels of shape (rows,)."""
        return apply_head(self.body(z, labels).to(z.dtype), self.segments)

    @abstractmethod
    def body(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The numbers before the head, (rows, dim)."""


def register(kind: str) -> Callable[[type[Generator]], type[Generator]]:
    """Register a kind of generator for `build`."""

    def keep(cls: type[Generator]) -> type[Generator]:
        _KINDS[kind] = cls
        return cls

    return keep


def build(config: Mapping[str, Any]) -> Generator:
    """The generator that `config` describes, its weights freshly drawn from torch's global state."""
    try:
        return _KINDS[config["kind"]](config)
    except UsageError as error:
        raise DataError(str(error)) from None
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:  # PyTorch's for a negative size
        raise DataError(f"This does not describe a generator ({type(error).__name__}).") from None


def checked_segments(segments: Sequence[Sequence[Any]], dim: int) -> list[Segment]:
    """`segments`, if they cover 0 … dim without gaps."""
    out = [(int(start), int(stop), str(kind)) for start, stop, kind in segments]
    ends = [0, *(stop for _, stop, _ in out)]
    fits = all(start == end and start < stop for (start, stop, _), end in zip(out, ends[:-1], strict=True))
    if not fits or ends[-1] != dim or not all(kind in ("interval", "categorical") for _, _, kind in out):
        raise UsageError(f"Segments must cover {dim} columns in order, each interval or categorical.")
    return out


def apply_head(raw: torch.Tensor, segments: Sequence[Segment]) -> torch.Tensor:
    """A sigmoid on intervals, a softmax on categories."""
    if len(segments) == 1 and segments[0][2] == "interval":
        return torch.sigmoid(raw)
    parts = [
        torch.sigmoid(raw[:, start:stop]) if kind == "interval" else torch.softmax(raw[:, start:stop], dim=1)
        for start, stop, kind in segments
    ]
    return torch.cat(parts, dim=1)


@register("mlp")
class VectorGenerator(Single):
    """Fully connected layers with batch normalisation; the class is one-hot beside z."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        layers: list[nn.Module] = []
        width = self.latent + self.classes
        for hidden in config["hidden"]:
            layers += [nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
            width = hidden
        self.layers = nn.Sequential(*layers, nn.Linear(width, self.dim))

    def body(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The numbers before the head, (rows, dim)."""
        out: torch.Tensor = self.layers(torch.cat([z, one_hot(labels, self.classes, z)], dim=1))
        return out


@register("deconv")
class ImageGenerator(Single):
    """Transposed convolutions from a small map to (height, width, channels), cropped to the public shape.

    `shape` is that of one record: (h, w), (h, w, c) or (c, h, w). Each of `doublings` layers doubles the map.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.axes = image_axes(config["shape"])
        self.height, self.width, self.channels, _ = self.axes
        doublings, wide = int(config["doublings"]), int(config["channels"])
        scale = 2**doublings
        self.start = (-(-self.height // scale), -(-self.width // scale))
        self.wide = wide
        self.project = nn.Linear(self.latent + self.classes, wide * self.start[0] * self.start[1])
        layers: list[nn.Module] = [nn.BatchNorm2d(wide), nn.ReLU()]
        for _ in range(doublings):
            layers += [nn.ConvTranspose2d(wide, wide // 2, 4, 2, 1), nn.BatchNorm2d(wide // 2), nn.ReLU()]
            wide //= 2
        self.layers = nn.Sequential(*layers, nn.Conv2d(wide, self.channels, 5, padding=2))

    def body(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The numbers before the head, (rows, dim), in the order of the records."""
        small = self.project(torch.cat([z, one_hot(labels, self.classes, z)], dim=1))
        image = self.layers(small.view(-1, self.wide, *self.start))[:, :, : self.height, : self.width]
        return self.axes.rows(image)


@register("several")
class Several(Generator):
    """`members` generators of kind `of`, each trained by itself; every sample is one of theirs, drawn at random.

    Each generator fits the noise in a release differently, so a mixture of several depends less on one fit. The last
    number of z selects the member that makes a sample: number ⌊members·Φ(z)⌋. In training, rows come class by class,
    and within a class member by member, in equal numbers.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.members = int(config["members"])
        if self.members < 1 or config["of"] == "several":
            raise UsageError(
                "The kind several needs at least one member, and no member may itself be of the kind several."
            )
        self.each = nn.ModuleList(build({**config, "kind": config["of"]}) for _ in range(self.members))
        self.warp, self.shows_class = self._all()[0].warp, self._all()[0].shows_class
        self.latent += 1

    def _all(self) -> list[Generator]:
        return [member for member in self.each if isinstance(member, Generator)]

    def ease(self, share: float) -> None:
        """Passed on to all members."""
        for member in self._all():
            member.ease(share)

    def forward(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(rows, dim) in [0, 1] from z of shape (rows, latent) and labels of shape (rows,)."""
        own = z[:, :-1]
        if self.training:
            # a fixed order of rows, since a step is recorded
            rows = len(z) // (self.classes * self.members)
            order = (self.classes, self.members, rows, -1)
            sides = zip(own.view(order).unbind(1), labels.view(order[:3]).unbind(1), self._all(), strict=True)
            made = [g(a.flatten(0, 1), b.flatten()).reshape(self.classes, rows, self.dim) for a, b, g in sides]
            return torch.stack(made, dim=1).view(-1, self.dim)
        whose = (self.members * torch.special.ndtr(z[:, -1].double())).long().clamp(max=self.members - 1)
        out = own.new_empty(len(own), self.dim)
        for number, member in enumerate(self._all()):
            rows_of = (whose == number).nonzero().flatten()
            if len(rows_of):
                out[rows_of] = member(own[rows_of], labels[rows_of]).to(out.dtype)
        return out


def one_hot(labels: torch.Tensor, classes: int, like: torch.Tensor) -> torch.Tensor:
    """(rows, classes) in the number type of `like`."""
    return (labels[:, None] == torch.arange(classes, device=labels.device)).to(like.dtype)
