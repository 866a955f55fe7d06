"""Everything an adaptation decides besides σ, as plain JSON types; chosen from public facts, not from target labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from privot.accounting.events import Frame
from privot.common import arguments
from privot.common.declared import declared
from privot.errors import DataError, UsageError, brief

METHODS = ("stand-in", "embedding", "sliced", "dp-dann", "published", "source")
"""stand-in, embedding, sliced and dp-dann are proven; published is not; source looks at no target."""
UNPROVEN = ("published",)


@declared(method="word", network="word")
@dataclass(frozen=True)
class AdaptationConfig:
    """How to train, and which releases to pay for.

    `warmup` steps on the source alone come first. Then `blocks` charges are made, each of `releases_per_block`
    releases; after every release `steps` gradient steps follow. `finish` steps on the source end the training; for
    `embedding` they are all of the classifier's training, on transformed records. λ rises as in DANN,
    λ·(2/(1 + e^(−10p)) − 1) with p the share of alignment that is done. For `stand-in`, each of `members` networks
    takes `warmup` steps on the source and `finish` on source and stand-in, all after the one release.

    Model choice: the last weights are taken. No figure computed from target labels exists during training.
    """

    method: str = "embedding"
    network: str = "features"
    learning_rate: float = 1e-3
    batch: int = 128
    warmup: int = 0
    blocks: int = 1
    releases_per_block: int = 1
    steps: int = 1
    finish: int = 1000
    weight: float = 1.0
    """λ, the weight of alignment at the end of its rise."""
    slices: int = 200
    frame: Frame = "orthogonal"
    clip: float = 0.5
    sample: int | None = None
    """Records per release; None for all."""
    frequencies: int = 1000
    """Most frequencies of an embedding: a transformation has few parameters, and more would cost time and add noise."""
    fit: int = 400
    """Steps in which a transformation is fitted to an embedding."""
    fit_batch: int = 512
    """Source records per step of that fit."""
    tries: int = 1
    """How often the fit is started; the one with the smallest objective is kept."""
    wide: float = 1.2
    augment: bool = True
    """Whether source images are turned, bent and shaded at random where no transformation was fitted."""
    members: int = 1
    """Of the method stand-in: networks that vote, …"""
    threshold: float = 0.9
    """… the least probability of a label of the stand-in that they learn from, …"""
    check: int = 100
    """… steps of the network that learns from the stand-in alone, to check it, …"""
    samples: int = 10_000
    """… records that are drawn as the stand-in, …"""
    generator: int | None = None
    """… and steps of their generator; None for as many as a synthesis would take."""
    power: float = 2.0
    """Of the method sliced: q ≥ 1 of the aligned distance, W_q^q along every direction."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UsageError(f"Unknown method {self.method!r}: say {', '.join(METHODS)}.")
        for name, least in (
            ("batch", 2),
            ("blocks", 1),
            ("releases_per_block", 1),
            ("steps", 0),
            ("slices", 1),
            ("frequencies", 4),
            ("fit_batch", 2),
            ("tries", 1),
            ("members", 1),
            ("samples", 2),
        ):
            arguments.whole(f"The number of {name}", getattr(self, name), least)
        for name in ("learning_rate", "weight", "clip", "wide", "threshold", "power"):
            if not arguments.is_number(getattr(self, name)):
                raise UsageError(f"{name} must be a number, got {brief(getattr(self, name))}.")
        if not isinstance(self.augment, bool) or not isinstance(self.network, str):
            raise UsageError("augment must be true or false, and network a text.")
        if self.method == "embedding" and self.releases_per_block != 1:
            raise UsageError("The method embedding has one release per block: set blocks, not releases_per_block.")
        if self.method == "stand-in" and (self.blocks, self.releases_per_block) != (1, 1):
            raise UsageError("The method stand-in has one release: leave blocks and releases_per_block at 1.")
        if not 0.0 <= self.threshold <= 1.0:
            raise UsageError("The threshold is a probability: give a number from 0 to 1.")
        for name in ("warmup", "finish", "fit", "check"):
            arguments.whole(f"The number of {name} steps", getattr(self, name), 0)
        if self.sample is not None:
            arguments.whole("The sample", self.sample, 1)
        if self.generator is not None:
            arguments.whole("The number of generator steps", self.generator, 1)
        if self.method in ("dp-dann", "published") and self.sample is None:
            raise UsageError(f"The method {self.method} draws samples: state the number of records of a sample.")
        if not (0.0 < self.learning_rate < 1e3 and 0.0 <= self.weight < 1e6 and 0.0 < self.clip < 1e6):
            raise UsageError("The learning rate and the clip must be greater than 0, and λ at least 0.")
        if not 1.0 <= self.wide < 10.0:
            raise UsageError("wide, the factor on fitted spreads, must be at least 1.")
        if not 1.0 <= self.power <= 10.0 or (self.power != 2.0 and self.method == "published"):
            raise UsageError(f"power must be from 1 to 10, and 2 with the method published, got {self.power:g}.")
        arguments.check_frame(self.frame)

    @property
    def releases(self) -> int:
        """How many releases are paid for in all."""
        return 0 if self.method == "source" else self.blocks * self.releases_per_block

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> AdaptationConfig:
        """Read what `to_dict` wrote."""
        names = {f.name for f in fields(cls)}
        # settings that were written before there was a choice
        held = {"power": 2.0, **given}
        if set(held) != names:
            raise DataError("These are not the settings of an adaptation.")
        try:
            return cls(**held)
        except (TypeError, UsageError) as error:
            raise DataError(f"These are not the settings of an adaptation ({type(error).__name__}).") from None


def default_method(image: bool, table: bool) -> str:
    """The best method for such records, by lab/docs/results/stand-in.md and lab/docs/results/adaptation.md."""
    return "stand-in" if image or table else "embedding"


def choose(method: str, image: bool, records: int, network: str | None = None, cuda: bool = False) -> AdaptationConfig:
    """The default config, from the method, whether records are images, and the public number of target records."""
    base = AdaptationConfig(method="source", network=network or ("digits" if image else "features"))
    long = 4000 if cuda else 1500
    # on a GPU larger batches cost almost nothing
    base = replace(base, batch=256, fit=800, tries=3) if cuda else replace(base, fit=300, tries=2)
    if base.network == "digits":
        # its sigmoids learn slowly
        base = replace(base, learning_rate=2e-3)
    if not image:
        # fewer frequencies are enough for the few hundred records of such sets
        base = replace(
            base,
            batch=64,
            wide=1.0,
            augment=False,
            learning_rate=2e-3,
            fit=150,
            fit_batch=256,
            tries=1,
            frequencies=300,
        )
        long = 300
    if method == "embedding":
        return replace(base, method=method, finish=long)
    if method == "stand-in":
        base = replace(base, method=method, weight=0.3, learning_rate=2e-3, network=network or _stand_in_network(image))
        if cuda:
            return replace(base, warmup=2000, finish=2000, members=3, check=500, samples=30_000)
        # on a CPU a step of the network for images takes a tenth of a second
        short = 400 if image else 300
        return replace(base, batch=64, warmup=short, finish=short, check=short // 4, samples=10_000)
    if method == "sliced":
        # few releases of all records: their cost does not depend on how long the training on each is
        return replace(base, method=method, warmup=long // 2, blocks=10, steps=long // 20, finish=0, slices=50)
    if method in ("dp-dann", "published"):
        batch = min(128 if image else 32, max(2, records // 4))
        # few steps, after the source was learned: DP-SGD pays for each step, and gradients per record are slow
        blocks, each = (10, 50) if image else (4, 20)
        return replace(
            base, method=method, warmup=long // 2, blocks=blocks, releases_per_block=each, finish=0, batch=batch,
            sample=batch, slices=200 if image else 100, frame="independent", clip=1.0 if method == "dp-dann" else 0.5,
        )  # fmt: skip
    return replace(base, method=method, finish=long)


def choose_for_table() -> AdaptationConfig:
    """The default config of the method stand-in for tables, of which only the number of samples matters."""
    return AdaptationConfig(method="stand-in", network="linear", augment=False, samples=20_000)


def _stand_in_network(image: bool) -> str:
    return "images" if image else "features"
