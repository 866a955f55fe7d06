"""Labels samples by a classifier that was trained on samples and tuned on the records, for a part of the budget.

A generator makes samples of a requested class. Where classes overlap, that class is a poor label: a mean embedding
determines the border between two classes only roughly. A small convolutional network trained on samples learns features
that separate the classes; a linear classifier on these features has few weights, so tuning the weights on the records
(`TunedHead`) needs little noise. The classifier then labels all samples: post-processing.

Where samples are too poor to learn features from, as of colour images, the features are fixed wavelets (`Scattering`):
samples then only say how each is standardised, or not even that, and tuning starts from zero. Where there is a public
encoder the features are its codes (`EncoderCodes`), centred by samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from privot.accounting.events import Event, of_standing
from privot.common import arguments
from privot.common.image_axes import image_axes
from privot.errors import DataError, UsageError
from privot.evaluation.classifiers import Convolutional, fitted
from privot.guarantee import Adjacency, Standing
from privot.jobs.tensor_files import read_tensors, write_tensors
from privot.mechanisms.gradients.linear_head import MAX_SIZE, TunedHead, bounded, check_rounding, tuning_event
from privot.mechanisms.mechanism import Facts
from privot.release import Release
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.features.encoder_codes import EncoderClassifier, EncoderCodes
from privot.synthesis.neural.features.encoder_features import encoder_standing
from privot.synthesis.neural.features.network_features import CONSTANT, NetworkFeatures
from privot.synthesis.neural.features.scattering import Scattering, ScatteringClassifier, cell_for

_FLOOR = 1e-2
"""The smallest variance that is scaled to 1, as a share of the mean variance."""
WIDE = 64
"""Channels of the network's output, one position for 4 × 4 pixels."""
MAX_SEEN = 8192
"""Most outputs of the network: their covariance has the square of that many numbers."""
MAX_RECORDS = 5_000_000
"""Most records: sums over more would round too coarsely (`TunedHead`)."""
_DECAY = 1e-4
"""The decay of the squared weights from which tuning starts."""
KINDS = ("network", "scattering", "encoder")
Labeller = NetworkFeatures | ScatteringClassifier | EncoderClassifier
"""A tuned classifier of samples."""


@dataclass(frozen=True)
class Labelling:
    """The parameters of a labeller, from public facts alone (`after_training_defaults.choose_labelling`)."""

    sigma: float
    """The noise σ of all tuning steps together."""
    rounds: int
    length: float
    """The length of a step. For "network", in units in which 1 is about the longest that does not overshoot; for
    wavelets and codes, whose features have norm 1, the factor on the mean gradient of the records."""
    columns: int
    """For "network", the number of directions of its output that are kept: those in which samples differ most; for
    wavelets, the most features of an image; for "encoder", the numbers of its codes."""
    samples: int
    kind: str = "network"
    """What the classifier sees: the output of a "network" trained on samples, or averages of wavelets, standardised by
    samples ("scattering"), or the codes of a public "encoder"."""
    encoder: Mapping[str, Any] | None = None
    """For "encoder", which one (`PublicEncoder.to_dict`); None: the one whose features are released first."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"A labeller sees one of {', '.join(KINDS)}, got {self.kind!r}.")
        arguments.sigma(self.sigma)
        if not 0.0 < self.length < math.inf:
            raise UsageError(f"The steps of a labeller must have a length above 0, got {self.length!r}.")
        for name, least in (("rounds", 1), ("columns", 1), ("samples", 20)):
            arguments.whole(f"The {name} of a labeller", getattr(self, name), least)
        if self.encoder is not None and self.kind != "encoder":
            raise UsageError("Only a labeller that sees the codes of an encoder names one.")

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; an encoder is named only where it is another than the first release's."""
        return {name: value for name, value in asdict(self).items() if name != "encoder" or value is not None}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any] | None) -> Labelling | None:
        """Read what `to_dict` wrote; None where there is none."""
        if fields is None:
            return None
        try:
            return cls(**fields)
        except TypeError:
            raise DataError("This does not describe how samples are labelled.") from None

    def check(self, shape: Sequence[int], classes: int, *records: int | None) -> None:
        """Refuse, before anything is paid, samples that cannot be labelled; `records` are all public record counts."""
        if self.kind == "encoder":
            if self.columns >= MAX_SIZE:
                raise UsageError(
                    f"An encoder that labels samples has fewer than {MAX_SIZE} numbers for an image, got "
                    f"{self.columns}: leave out the labelling."
                )
        elif self.kind != "network":
            cell_for(shape, self.columns)
        else:
            check_seen(shape)
        most = max((n for n in records if n is not None), default=1)
        if most > MAX_RECORDS:
            raise UsageError(f"More than {MAX_RECORDS} records cannot be labelled: leave out the labelling.")
        check_rounding(most, self.columns + 1, classes, self.sigma, self.rounds)

    def event(self, adjacency: Adjacency) -> Event:
        """What tuning costs."""
        return tuning_event(self.sigma, self.rounds, adjacency)

    def standing_on(self, device: str) -> Standing:
        """Of the release, computed on `device`: that of the encoder, where the classifier sees one."""
        return encoder_standing(device) if self.kind == "encoder" else Standing.PROVEN


def check_seen(shape: Sequence[int]) -> None:
    """Refuse images that are too small or too large for the network."""
    height, width, _, _ = image_axes(shape)
    if min(height, width) < 4 or WIDE * (height // 4) * (width // 4) > MAX_SEEN:
        raise UsageError(f"Images of {height} × {width} are too small or too large to be labelled: leave that out.")


@dataclass(frozen=True, eq=False)
class Drawn:
    """Samples to learn from, scaled to [0, 1], with their classes and what is public about records like them."""

    x: torch.Tensor
    labels: torch.Tensor
    classes: int
    shape: tuple[int, ...]
    span: tuple[Any, Any]
    """The public range of the records."""


@dataclass(frozen=True, eq=False)
class PretrainedLabeller:
    """The start of tuning: features and weights on them, both made from samples alone."""

    features: NetworkFeatures | Scattering | EncoderCodes
    start: NDArray[np.float64]

    @classmethod
    def make(
        cls, labelling: Labelling, drawn: Drawn, seed: int, encoder: PublicEncoder | None = None
    ) -> PretrainedLabeller:
        """What `labelling` asks for, from samples."""
        if labelling.kind == "encoder":
            if encoder is None:
                raise UsageError("Labels by the codes of an encoder need the encoder: give it.")
            return cls.encoded(drawn, encoder)
        if labelling.kind != "network":
            return cls.scattered(drawn, labelling.columns)
        return cls.learn(drawn, labelling.columns, seed)

    @classmethod
    def scattered(cls, drawn: Drawn, columns: int) -> PretrainedLabeller:
        """At most `columns` averages of fixed wavelets, standardised by samples, and weights of zero.

        Samples are what is labelled: constants of photographs name more records rightly where samples are poor, and
        fewer samples.
        """
        with torch.no_grad():
            plain = Scattering(drawn.shape, cell_for(drawn.shape, columns))
            features = plain.standardised(drawn.x, *drawn.span)
        return cls(features, np.zeros((features.size, drawn.classes)))

    @classmethod
    def encoded(cls, drawn: Drawn, encoder: PublicEncoder) -> PretrainedLabeller:
        """The codes of an encoder, centred by samples, and weights of zero."""
        features = EncoderCodes(encoder, drawn.shape).centred(drawn.x, *drawn.span)
        return cls(features, np.zeros((features.size, drawn.classes)))

    @classmethod
    def learn(cls, drawn: Drawn, columns: int, seed: int) -> PretrainedLabeller:
        """Train a network on samples and keep the `columns` directions that vary most, scaled to equal variance."""
        x, labels, classes, shape = drawn.x, drawn.labels, drawn.classes, drawn.shape
        network = cast(Convolutional, fitted("cnn", x, labels, classes, shape=shape, seed=seed))
        with torch.no_grad():
            flat = network.flat(x)
        mean = flat.mean(dim=0)
        off = (flat - mean).double()
        values, vectors = torch.linalg.eigh(off.T @ off / len(off))
        columns = min(columns, len(values))
        values, vectors = values[-columns:].clamp(min=0.0), vectors[:, -columns:]
        width = torch.sqrt(values + _FLOOR * values.mean() + 1e-12)
        projection = (vectors / width / math.sqrt(columns)).cpu().numpy()
        shift = -(mean.double().cpu().numpy() @ projection)
        features = NetworkFeatures(shape, network.convolutions(), projection, shift, *drawn.span)
        seen = (flat @ torch.as_tensor(projection).to(flat)) + torch.as_tensor(shift).to(flat)
        g = bounded(torch.cat([seen, seen.new_full((len(seen), 1), CONSTANT)], dim=1)).to(flat)
        return cls(features, _first_weights(g, labels, classes))

    def save(self, path: Path, release: str) -> None:
        """Save for a resumed job; `release` identifies what the samples were made from, by digest or by job."""
        tensors = {**self.features.tensors(), "start": torch.tensor(self.start)}
        write_tensors(path, tensors, {"kind": "lesson", "release": release, "features": self.features.to_dict()})

    @classmethod
    def load(cls, path: Path, release: str) -> PretrainedLabeller:
        """Read what `save` wrote, for the same release."""
        tensors, facts = read_tensors(path)
        if facts.get("kind") != "lesson" or facts.get("release") != release or "start" not in tensors:
            raise DataError(f"{path} was not learned from this job's release: restore it from a backup.")
        start, fields = tensors.pop("start").numpy(), facts.get("features", {})
        kinds: dict[Any, type[Scattering | EncoderCodes]] = {Scattering.kind: Scattering}
        kinds[EncoderCodes.kind] = EncoderCodes
        return cls(kinds.get(fields.get("kind"), NetworkFeatures).from_tensors(fields, tensors), start)

    def check(self, labelling: Labelling, encoder: PublicEncoder | None) -> None:
        """Refuse features of another kind than `labelling` names, or of another encoder than the design's.

        A file that was read back need not be the one that was written: what the whole job was checked for, its standing
        and what it assumes, would not be what its labels rest on.
        """
        kinds: dict[str, type] = {"network": NetworkFeatures, "encoder": EncoderCodes}
        fits = type(self.features) is kinds.get(labelling.kind, Scattering)
        if isinstance(self.features, EncoderCodes):
            fits = fits and encoder is not None and self.features.encoder.to_dict() == encoder.to_dict()
        if not fits:
            raise DataError("The features of this job's labels are not those that it was designed with: restore them.")

    def mechanism(self, labelling: Labelling, records: float, device: str) -> TunedHead:
        """The mechanism that tunes the weights; `records` is the number of records, public, released or assumed."""
        rate = labelling.length / max(records, 1.0)
        if labelling.kind == "network":
            rate *= 2.0 * self.features.size
        return TunedHead(self.features, self.start, labelling.sigma, labelling.rounds, rate, device)


def check_labelling(release: Release, mechanism: TunedHead, facts: Facts, delta: float) -> None:
    """Refuse a release that is not the one that `mechanism` pays for."""
    wanted = mechanism.public(facts)
    found = {name: release.public.get(name) for name in wanted}
    events = [dict(e) for e in release.guarantee.events]
    paid = of_standing(mechanism.event(facts), mechanism.standing)
    assumed = set(mechanism.assumptions) <= set(release.guarantee.assumptions)
    if found != wanted or events != [paid.to_dict()] or release.guarantee.at_delta != delta or not assumed:
        raise DataError("The labelling in this folder is not the one its job paid for: restore it from a backup.")


def labeller(lesson: PretrainedLabeller, release: Release) -> Labeller:
    """The tuned classifier."""
    value = release.value
    assert isinstance(value, Mapping)
    weights = np.asarray(value["weights"])
    if weights.shape != lesson.start.shape:
        raise DataError("The labelling does not fit the features it is for.")
    if isinstance(lesson.features, Scattering):
        return ScatteringClassifier(lesson.features, weights)
    if isinstance(lesson.features, EncoderCodes):
        return EncoderClassifier(lesson.features, weights)
    return classifier(lesson.features, weights)


def read_labeller(fields: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Labeller:
    """The classifier that its `to_dict` and `tensors` wrote; one without a kind of its own is a network."""
    if fields.get("kind") == ScatteringClassifier.kind:
        return ScatteringClassifier.from_tensors(fields, tensors)
    if fields.get("kind") == EncoderClassifier.kind:
        return EncoderClassifier.from_tensors(fields, tensors)
    return NetworkFeatures.from_tensors(fields, tensors)


def classifier(f: NetworkFeatures, weights: NDArray[np.float64]) -> NetworkFeatures:
    """A network and weights on its output as one map: all its features but the last are the scores of the classes.

    gW = (flat·P + s)·W' + 0.3125·w, up to the factor that bounds g, which changes no order.
    """
    offsets = f.shift @ weights[:-1] + CONSTANT * weights[-1]
    return _scored(f.shape, f.convolutions, f.projection @ weights[:-1], offsets, (f.low, f.high))


def of_pixels(drawn: Drawn, seed: int) -> NetworkFeatures:
    """A linear classifier of pixels, trained on samples, as such a map."""
    # channel by channel, as the map reads them, for any order of the records' values
    x = image_axes(drawn.shape).pictures(drawn.x).flatten(1)
    model = fitted("logreg", x, drawn.labels, drawn.classes, seed=seed)
    weights, offsets = (p.detach().double().cpu().numpy() for p in model.parameters())
    return _scored(drawn.shape, [], weights.T, offsets, drawn.span)


def of_network(drawn: Drawn, seed: int) -> NetworkFeatures:
    """A linear classifier of a network's output, both trained on samples, as such a map."""
    x, labels, classes, shape = drawn.x, drawn.labels, drawn.classes, drawn.shape
    network = cast(Convolutional, fitted("cnn", x, labels, classes, shape=shape, seed=seed))
    with torch.no_grad():
        flat = network.flat(x)
    mean = flat.mean(dim=0)
    off = flat - mean
    width = off.square().sum(dim=1).mean().sqrt().clamp(min=1e-12)
    held = torch.cat([off / width, off.new_full((len(off), 1), CONSTANT)], dim=1)
    # features are not scaled to equal variance here, so the weights of narrow ones must be free to grow
    weights = _first_weights(held, labels, classes, _DECAY / 10.0)
    slopes = weights[:-1] / float(width)
    offsets = CONSTANT * weights[-1] - mean.double().cpu().numpy() @ slopes
    return _scored(shape, network.convolutions(), slopes, offsets, drawn.span)


def _scored(
    shape: Sequence[int],
    convolutions: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    weights: NDArray[np.float64],
    offsets: NDArray[np.float64],
    span: tuple[Any, Any],
) -> NetworkFeatures:
    """The map whose first numbers are scores, flat(x)·`weights` + `offsets`, up to a factor."""
    # in units of the largest weight: only the order of scores counts, and exact sums limit the size of weights
    scale = max(1.0, float(np.abs(weights).max()), float(np.abs(offsets).max()))
    return NetworkFeatures(shape, convolutions, weights / scale, offsets / scale, *span)


def labels_of(network: Labeller, x: torch.Tensor) -> torch.Tensor:
    """The class with the largest score, of samples in the unit of the records."""
    return network.scores(x.float()).argmax(dim=1)


def _first_weights(g: torch.Tensor, labels: torch.Tensor, classes: int, decay: float = _DECAY) -> NDArray[np.float64]:
    """The least cross-entropy of samples plus `decay`·‖W‖²."""
    weights = torch.zeros(g.shape[1], classes, device=g.device, requires_grad=True)
    solver = torch.optim.LBFGS([weights], max_iter=60, history_size=10, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        solver.zero_grad()
        out = torch.nn.functional.cross_entropy(g @ weights, labels) + decay * weights.square().sum()
        out.backward()  # type: ignore[no-untyped-call]
        return out

    solver.step(loss)  # type: ignore[no-untyped-call]
    out: NDArray[np.float64] = np.nan_to_num(weights.detach().double().cpu().numpy())
    return out
