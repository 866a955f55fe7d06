"""What a method of adaptation is asked for, and decides besides σ: frozen, plain JSON types; it sees no record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from privot.common import arguments
from privot.errors import DataError, UsageError, brief

CHOSEN: Any = None
"""Of a setting that is left out: the method chooses it, from public facts alone."""
_LEAST = {
    "batch": 2, "blocks": 1, "releases_per_block": 1, "steps": 0, "slices": 1, "frequencies": 4, "fit_batch": 2,
    "tries": 1, "members": 1, "samples": 2, "warmup": 0, "finish": 0, "fit": 0, "check": 0, "sample": 1, "generator": 1,
}  # fmt: skip
"""The least value of whole numbers, by name: a name means the same in every method."""
_WITHIN = {
    "learning_rate": (1e-12, 1e3), "weight": (0.0, 1e6), "clip": (1e-12, 1e6), "wide": (1.0, 10.0),
    "threshold": (0.0, 1.0), "power": (1.0, 10.0),
}  # fmt: skip
_ONCE_OF_ALL = {
    "network", "learning_rate", "batch", "warmup", "blocks", "releases_per_block", "steps", "finish", "weight",
    "slices", "frame", "clip", "sample", "frequencies", "fit", "fit_batch", "tries", "wide", "augment", "members",
    "threshold", "check", "samples", "generator", "power",
}  # fmt: skip
"""Settings that once were written for every method, whether it used them or not."""


@dataclass(frozen=True, kw_only=True)
class AdaptationConfig:
    """A method and its settings; what is left out is chosen by the method."""

    name: ClassVar[str]
    blocks: ClassVar[int] = 0
    """How many charges are made, …"""
    releases_per_block: ClassVar[int] = 1
    """… and how many releases each is for."""
    optional: ClassVar[tuple[str, ...]] = ()
    """Settings that may stay None where everything is chosen."""

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            if name in _LEAST:
                arguments.whole(f"The number of {name}", value, _LEAST[name])
            elif name in _WITHIN:
                low, high = _WITHIN[name]
                if not arguments.is_number(value) or not low <= value <= high:
                    raise UsageError(f"{name} must be a number from {low:g} to {high:g}, got {brief(value)}.")
            elif name == "augment" and not isinstance(value, bool):
                raise UsageError(f"augment must be true or false, got {brief(value)}.")
            elif name == "frame":
                arguments.check_frame(value)

    @property
    def releases(self) -> int:
        """How many releases are paid for in all."""
        return self.blocks * self.releases_per_block

    def given(self) -> dict[str, Any]:
        """The settings that are stated, by name."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"method": self.name, **asdict(self)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote, or what was written when all methods had the same settings."""
        own = {f.name for f in fields(cls)}
        # power is younger than the others
        held = {"power": 2.0, **given}
        odd = held.keys() - own - _ONCE_OF_ALL - {"method"}
        if odd or own - held.keys() or held.get("method") != cls.name:
            raise DataError("These are not the settings of an adaptation.")
        try:
            made = cls(**{name: held[name] for name in own})
        except (TypeError, UsageError) as error:
            raise DataError(f"These are not the settings of an adaptation ({type(error).__name__}).") from None
        missing = [f.name for f in fields(cls) if f.name not in cls.optional and getattr(made, f.name) is None]
        if missing:
            raise DataError(f"These are not the settings of an adaptation: {missing[0]} is missing.")
        return made


@dataclass(frozen=True, kw_only=True)
class TrainedConfig(AdaptationConfig):
    """Of a method whose networks are trained by steps.

    `warmup` steps on the source alone come first, then `blocks` charges of `releases_per_block` releases each, and
    `finish` steps on the source at the end. The last weights are taken: no figure computed from target labels exists
    during training.
    """

    learning_rate: float = CHOSEN
    batch: int = CHOSEN
    warmup: int = CHOSEN
    finish: int = CHOSEN
    augment: bool = CHOSEN
    """Whether source images are turned, bent and shaded at random where no transformation was fitted."""


@dataclass(frozen=True, kw_only=True)
class FittingConfig(TrainedConfig):
    """Of a method that fits a transformation of the source to a released embedding."""

    fit: int = CHOSEN
    """Steps of the fit."""
    fit_batch: int = CHOSEN
    """Source records per step of the fit."""
    tries: int = CHOSEN
    """How often the fit is started; the one with the smallest objective is kept."""
    wide: float = CHOSEN
    """The factor on fitted spreads in training."""


@dataclass(frozen=True)
class Sizes:
    """The public facts that defaults are chosen by; the number of records is the target's."""

    image: bool
    records: int
    network: str
    cuda: bool = False

    @property
    def steps(self) -> int:
        """Steps of a whole training."""
        # fewer are enough for the few hundred records of vectors
        return (4000 if self.cuda else 1500) if self.image else 300

    def trained(self) -> dict[str, Any]:
        """How any network is trained."""
        # the sigmoids of the network for digits learn slowly; on a GPU larger batches cost almost nothing
        rate = 1e-3 if self.image and self.network != "digits" else 2e-3
        return {
            "learning_rate": rate,
            "batch": (256 if self.cuda else 128) if self.image else 64,
            "augment": self.image,
        }

    def fitted(self) -> dict[str, Any]:
        """How a transformation is fitted."""
        if not self.image:
            return {"fit": 150, "fit_batch": 256, "tries": 1, "wide": 1.0}
        few = {"fit": 800, "tries": 3} if self.cuda else {"fit": 300, "tries": 2}
        return {**few, "fit_batch": 512, "wide": 1.2}
