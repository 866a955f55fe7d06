"""From one release of the target to a classifier: a generator of stand-in records, then adaptation to what it makes.

Stages, each a function of the release, the public source and the seed: a generator is trained to match the release;
a first network learns the augmented source; two checks that need no target labels decide what is used; the members of
a committee learn the source and, where the stand-in passed, from it too (`self_training`). A stage that is over is kept
in the checkpoint; one that a kill cut off begins again and ends the same. Nothing here sees a private record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.alignment.transformation_fit import Source, fit
from privot.adaptation.alignment.transformations import Transformation, transformation
from privot.adaptation.learner import Keep, Progress
from privot.adaptation.networks import Committee, Networks, build, build_committee
from privot.adaptation.stand_in.report_figures import SHOWN, write_rounds, write_views
from privot.adaptation.stand_in.self_training import Schedule, SelfTraining, Views
from privot.adaptation.stand_in.single_release import STAND_IN, SingleRelease
from privot.errors import DataError
from privot.kinds.kind_registry import kind_of_params
from privot.mechanisms import Mechanism
from privot.mechanisms.embedding import MeanEmbedding
from privot.release import Release
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import FittedGenerator
from privot.synthesis.methods.embedding_training import Target, train
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.generator_training import checkpoint
from privot.synthesis.neural.generator_training.training_dry_run import rehearse
from privot.synthesis.neural.generators.generator import build as build_generator
from privot.synthesis.output.saved_model import write_model

GENERATOR_CHECKPOINT = "generator-checkpoint.safetensors"
_ROWS = 2048
_KEPT_CLASSES = 0.9
"""A fitted transformation is used if the first network still tells that share of what it tells without it."""


@dataclass(frozen=True)
class Checks:
    """What the checks found; they use the source's labels and the stand-in, no target labels.

    `transformed` is the share of held-out source records that the first network labels rightly after the fitted
    transformation, and 0 if nothing was fitted because the release has fewer numbers than the transformation has
    parameters; `augmented` is the same after the public augmentation alone. `reverse` is the share of held-out source
    records that a network labels rightly that learned from the stand-in only, with the first network's labels
    (reverse validation, Zhong et al. 2010); below `least` the stand-in does not show the classes.
    """

    augmented: float
    transformed: float
    reverse: float
    least: float

    @property
    def transformation_used(self) -> bool:
        """Whether half of the source's records are shown through the fitted transformation."""
        return self.transformed >= _KEPT_CLASSES * self.augmented

    @property
    def stand_in_used(self) -> bool:
        """Whether the members learn from the stand-in."""
        return self.reverse >= self.least

    def to_dict(self) -> dict[str, float]:
        """As plain JSON types."""
        return dict(vars(self))


class StandInLearner(SingleRelease):
    """The training of the method "stand-in"; `state` and `restore` carry finished stages over a kill."""

    def __init__(
        self,
        design: AdaptationDesign,
        x: np.ndarray[Any, Any],
        y: np.ndarray[Any, Any],
        device: str,
        folder: Path | None = None,
    ) -> None:
        super().__init__()
        self.design, self.device, self.folder = design, torch.device(device), folder
        if design.rules is None:
            raise DataError("This design has no generator: it is not one of the method stand-in.")
        self.rules = Rules.from_dict(design.rules)
        # those of the method, which names this learner
        self.settings = cast("Any", design.settings)
        s, config = self.settings, design.networks
        self.source = Source.of(x, y, (float(config["low"]), float(config["high"])), self.device)
        self.networks = build_committee(config, design.seed, s.members).to(self.device)
        self.augment, self.change = self._family(), self._family()
        self.bend = s.augment
        order = torch.randperm(len(self.source.x), generator=self._random("order"), device=self.device)
        tenth = max(1, len(order) // 10)
        self._held_out, self._rows = order[:tenth], order[tenth:]
        if not len(self._rows):
            raise DataError("The source has one record: adaptation needs at least two.")
        self._start: Networks | None = None
        self._members = 0
        self._restored: tuple[Any, list[float], str] | None = None
        self._before = 0

    @property
    def total(self) -> int:
        """Steps in all: of the generator, the first network, the check, and the members."""
        s = self.settings
        return self.rules.steps + int(s.check + s.members * (s.warmup + s.finish))

    def mechanism(self) -> Mechanism:
        """One mean embedding of the target, from the design alone."""
        return self.design.mean_embedding(self.device.type)

    def rehearse(self, mechanism: Mechanism) -> None:
        """Refuse, before anything is paid, a generator that cannot be trained on what is released."""
        assert isinstance(mechanism, MeanEmbedding)
        rehearse(mechanism.features, self.rules, 1, device=self.device.type, seed=self.design.seed)

    def after(self, progress: Progress | None, keep: Keep | None) -> None:
        """Every stage that is not over yet."""
        release = self.released()
        s, kept = self.settings, keep or (lambda now: None)
        if self._restored is not None:
            generator, losses, digest = self._restored
            if digest != release.digest():
                raise DataError(f"The checkpoint in {self.folder} was made from another release: remove it.")
            self._use_generator(generator, losses, release)
        if self.generator is None:
            self._train_generator(release, progress)
            kept(True)
        assert self.generator is not None
        made = torch.as_tensor(self.generator.sample(s.samples, seed=self.design.seed)[0], dtype=torch.float32)
        stand_in = self.source.unit(made.to(self.device))
        self._before = self.rules.steps
        if self._start is None:
            self._start = self._trained(0, Schedule(s.warmup, s.batch, s.learning_rate), self._plain(), progress)
            kept(True)
        self._before += s.warmup
        if self.checks is None:
            if self._determined(release):
                fit(self.change, self.source, release, s, self._random("fit"))
            self.checks = self._checked(stand_in, progress)
            kept(True)
        self._before += s.check
        views = self._views()
        self.fitted = views.change is not None
        use = stand_in if self.checks.stand_in_used else None
        while self._members < s.members:
            self._train_member(self._members, views, use, progress)
            self._members += 1
            kept(True)
        self.networks.eval()
        if self.folder is not None:
            self.write_stand_in(self.folder / STAND_IN)
            self._write_figures(self.folder, stand_in)

    def write_stand_in(self, folder: Path) -> None:
        """The generator as `privot synth` leaves one: `privot sample` and `Synthesizer.load` read it."""
        assert self.generator is not None
        assert self.release is not None
        d = self.design
        config = SynthesisConfig(
            d.epsilon, d.delta, kind=kind_of_params({name: d.networks[name] for name in ("shape", "low", "high")})
        )
        write_model(folder, config, self.generator, self.release.guarantee, self.rules)

    def _write_figures(self, folder: Path, stand_in: Tensor) -> None:
        """What the report shows: a few records of each kind, and labels of the stand-in before and after."""
        assert self._start is not None
        assert self.checks is not None
        random, s = self._random("figures"), self.settings
        unit = self.source.unit(self.source.x[self.source.pick(SHOWN, random)])
        drawn = torch.randn(len(unit), self.change.draws(self.bend), generator=random, device=self.device)
        with torch.no_grad():
            changed = self.change(unit, drawn, s.wide, self.bend)
        write_views(folder, {"source": unit, "transformed": changed, "stand_in": stand_in[:SHOWN]})
        first, last = self._labels(self._start, stand_in), self._labels(self.networks, stand_in)
        write_rounds(folder, first, last, self.networks.classes, self.checks.stand_in_used)

    def _family(self) -> Transformation:
        """The public family of transformations, standardised on the source."""
        config = self.design.networks
        made = transformation(config["shape"], int(config["columns"]), int(config["classes"])).to(self.device)
        made.standardise(self.source.unit(self.source.x[:10_000]))
        return made

    def _random(self, stage: str) -> torch.Generator:
        """Random numbers of a stage: its own, so that a stage begun again draws the same."""
        random = torch.Generator(device=self.device)
        number = int.from_bytes(stage.encode()[:7], "little")
        random.manual_seed((self.design.seed + number) % 2**63)
        return random

    def _train_generator(self, release: Release, progress: Progress | None) -> None:
        digest, training, keep, path = release.digest(), None, None, None
        if self.folder is not None:
            path = self.folder / GENERATOR_CHECKPOINT
            keep = checkpoint.Keeper(path, digest, checkpoint.EVERY_SECONDS)
            if path.exists():
                training = checkpoint.load(path, self.rules, self.device.type, release=digest)

        def tell(step: int, _: int, loss: float) -> None:
            if progress is not None:
                progress(step, self.total, loss)

        trained = train(
            release, self.rules, device=self.device.type, seed=self.design.seed, training=training, progress=tell,
            keep=keep,
        )  # fmt: skip
        self._use_generator(trained.generator, trained.losses, release)
        if path is not None:
            path.unlink(missing_ok=True)

    def _determined(self, release: Release) -> bool:
        """Whether the release has as many numbers as the transformation has parameters: fewer would fit its noise."""
        return Target.of(release).features.size >= sum(p.numel() for p in self.change.parameters())

    def _use_generator(self, generator: Any, losses: list[float], release: Release) -> None:
        target, config = Target.of(release), self.design.networks
        span = (config["low"], config["high"])
        self.generator = FittedGenerator(generator, target.features, target.counts, False, span, losses=losses)

    def _plain(self) -> Views:
        return Views(self.source, self.augment, self.bend)

    def _views(self) -> Views:
        s = self.settings
        assert self.checks is not None
        change = self.change if self.checks.transformation_used else None
        return Views(self.source, self.augment, self.bend, change, s.wide)

    def _network(self, number: int) -> Networks:
        return build(self.design.networks, (self.design.seed + 1000 * number) % 2**63).to(self.device)

    def _trained(
        self,
        number: int,
        schedule: Schedule,
        views: Views,
        progress: Progress | None,
        start: Networks | None = None,
        stand_in: Tensor | None = None,
    ) -> Networks:
        """A network trained on the source, from `start` or anew; with a `stand_in` on that too."""
        networks = self._network(number)
        if start is not None:
            networks.load_state_dict(start.state_dict())
        random = self._random(f"{'s' if stand_in is None else 't'}{number}")
        # the checks are over when members learn: they have every record of the source
        rows = self._rows if self.checks is None else torch.arange(len(self.source.x), device=self.device)
        training = SelfTraining(networks, views, rows, schedule, random, stand_in=stand_in)
        return training.run(self._tell(progress, schedule.steps))

    def _train_member(self, number: int, views: Views, stand_in: Tensor | None, progress: Progress | None) -> None:
        """One member: the first starts from the first network, the others from their own."""
        s = self.settings
        start = self._start
        if number:
            start = self._trained(number, Schedule(s.warmup, s.batch, s.learning_rate), views, progress)
            self._before += s.warmup
        weight = 0.0 if stand_in is None else s.weight
        schedule = Schedule(s.finish, s.batch, s.learning_rate / 2, weight, s.threshold)
        made = self._trained(number, schedule, views, progress, start, stand_in)
        self.networks.members[number].load_state_dict(made.state_dict())
        self._before += s.finish

    def _checked(self, stand_in: Tensor, progress: Progress | None) -> Checks:
        s, start, random = self.settings, self._start, self._random("checks")
        assert start is not None
        assert self.release is not None
        determined = self._determined(self.release)
        unit, labels = self.source.unit(self.source.x[self._held_out]), self.source.y[self._held_out]
        plain = self._plain()

        def told(made: Tensor, network: Networks) -> float:
            return float((self._labels(network, made) == labels).double().mean())

        drawn = torch.randn(len(unit), self.augment.draws(self.bend), generator=random, device=self.device)
        with torch.no_grad():
            augmented = told(self.augment(unit, drawn, 1.0, self.bend), start)
            transformed = told(self.change(unit, drawn, s.wide, self.bend), start) if determined else 0.0
        schedule = Schedule(s.check, s.batch, s.learning_rate)
        guessed = self._labels(start, stand_in)
        other = SelfTraining(self._network(-1), plain, stand_in, schedule, random, labels=guessed)
        reverse = told(unit, other.run(self._tell(progress, schedule.steps)))
        chance = 1.0 / self.networks.classes
        return Checks(augmented, transformed, reverse, chance + 0.5 * (1.0 - chance))

    @torch.no_grad()
    def _labels(self, network: Networks | Committee, unit: Tensor) -> Tensor:
        network.eval()
        low, span = self.source.low, self.source.span
        parts = [network(low + span * unit[i : i + _ROWS]).argmax(dim=1) for i in range(0, len(unit), _ROWS)]
        return torch.cat(parts)

    def _tell(self, progress: Progress | None, steps: int) -> Callable[[int, float], None]:
        before = self._before

        def tell(step: int, loss: float) -> None:
            self.losses.append(loss)
            if progress is not None:
                progress(min(before + step, self.total), self.total, loss)

        return tell

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The stages that are over, as tensors and plain JSON types.

        `done` is 0 until the end: a job that goes on reads its kept release again, which must have been paid for.
        """
        tensors = {f"networks.{n}": t for n, t in self.networks.state_dict().items()}
        tensors |= {f"change.{n}": t for n, t in self.change.state_dict().items()}
        if self.generator is not None:
            tensors |= {f"generator.{n}": t for n, t in self.generator.generator.state_dict().items()}
        if self._start is not None:
            tensors |= {f"start.{n}": t for n, t in self._start.state_dict().items()}
        facts: dict[str, Any] = {
            "done": 0,
            "members": self._members,
            "generator": None if self.generator is None else self.generator.losses,
            "release": None if self.release is None else self.release.digest(),
            "start": self._start is not None,
            "checks": None if self.checks is None else self.checks.to_dict(),
            "losses": self.losses,
        }
        return tensors, facts

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Go on from what `state` returned."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}

        try:
            self.networks.load_state_dict(part("networks."))
            self.change.load_state_dict(part("change."))
            if facts["generator"] is not None:
                generator = build_generator(self.rules.generator).to(self.device)
                generator.load_state_dict(part("generator."))
                self._restored = generator, [float(v) for v in facts["generator"]], str(facts["release"])
            if facts["start"]:
                self._start = self._network(0)
                self._start.load_state_dict(part("start."))
            if facts["checks"] is not None:
                self.checks = Checks(**{n: float(v) for n, v in facts["checks"].items()})
            self._members, self.losses = int(facts["members"]), [float(v) for v in facts["losses"]]
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"The checkpoint does not belong to this adaptation ({type(error).__name__}).") from None
