"""The method that looks at no target: its networks learn the public source alone, as what adaptation has to beat."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from privot.adaptation.adaptation_config import AdaptationConfig, Sizes, TrainedConfig
from privot.adaptation.adaptation_methods.adaptation_method import AdaptationMethod
from privot.adaptation.learner import Learner


@dataclass(frozen=True, kw_only=True)
class Source(TrainedConfig):
    """The public source alone: nothing is released."""

    name: ClassVar[str] = "source"

    @classmethod
    def like(cls, settings: AdaptationConfig) -> Source:
        """The same training as another method's, without its releases."""
        return cls(**{f.name: getattr(settings, f.name) for f in fields(cls)})


class SourceMethod(AdaptationMethod):
    """No release."""

    config = Source
    learner = Learner

    def defaults(self, sizes: Sizes) -> Source:
        """As many steps as other methods take."""
        return Source(warmup=0, finish=sizes.steps, **sizes.trained())
