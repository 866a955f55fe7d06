"""A fitted synthesizer on disk and back: weights, configuration and guarantee, all that sampling needs; no vault."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from privot.accounting import read_guarantee
from privot.common.devices import usable_device
from privot.errors import DataError, said_by
from privot.guarantee import Guarantee
from privot.jobs.released_files import read_json, write_bytes, write_json
from privot.jobs.tensor_files import read_tensors, write_tensors
from privot.mechanisms.embedding import FeatureMap
from privot.opening import read_bytes, read_text
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import Fitted, FittedGenerator, FittedRelated, FittedTable
from privot.synthesis.neural.after_training.relabelling import read_labeller
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.encoders.public_encoder import EncoderNeededError, PublicEncoder
from privot.synthesis.neural.features.encoder_codes import EncoderClassifier
from privot.synthesis.neural.features.fourier import feature_map
from privot.synthesis.neural.generators.generator import build
from privot.synthesis.neural.public.public_means import PublicUse
from privot.synthesis.tabular import table_folder as tables
from privot.synthesis.tabular.related.related_model import RelatedModel
from privot.synthesis.tabular.table_model import TableModel
from privot.tables.frames.frame_form import FrameForm
from privot.tables.related_codec import RelatedCodec

CONFIG = "config.json"
GENERATOR = "generator.safetensors"
GUARANTEE = "guarantee.json"
SCHEMA_VERSION = 1
ENCODER = "labeller-encoder.pt2"
"""A copy of the public encoder's file, where labels of samples need it."""
_MAKING = ("encoder", "label_encoder", "public")
"""What a synthesis was given whose files sampling does not need: the configuration describes them by their digests."""
_LABELLER = "labeller."
"""The prefix of the names of a labeller's arrays."""


def write_model(
    folder: Path, config: SynthesisConfig, fitted: Fitted, guarantee: Guarantee, rules: Rules | None = None
) -> None:
    """Everything `privot sample` needs; the configuration last, so that a folder with one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    params = config.to_dict()
    if isinstance(fitted, FittedTable):
        weights, learned = tables.tensors_of(fitted.model), fitted.model.config()
        learned |= {} if fitted.form is None else {"frame": fitted.form.to_dict()}
    elif isinstance(fitted, FittedRelated):
        weights, learned = tables.tensors_of(fitted.model), fitted.model.config()
    else:
        weights, learned = _learned(fitted, rules)
        for known, name in [(params, name) for name in _MAKING] + [(learned, "features"), (learned, "rules")]:
            if known.get(name) is None and name in fitted.origin:
                known[name] = fitted.origin[name]
    if isinstance(fitted, FittedGenerator) and isinstance(fitted.labeller, EncoderClassifier):
        write_bytes(folder / ENCODER, fitted.labeller.map.encoder.content)
    write_tensors(folder / GENERATOR, weights, {"kind": "generator"})
    write_bytes(folder / GUARANTEE, (guarantee.to_json() + "\n").encode())
    write_json(folder / CONFIG, {"schema": SCHEMA_VERSION, "params": params, "learned": learned})


def _learned(fitted: FittedGenerator, rules: Rules | None) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """A fitted generator as arrays, and the rest as plain JSON types."""
    labeller, features = fitted.labeller, fitted.features
    weights = dict(fitted.generator.state_dict())
    if labeller is not None:
        weights |= {_LABELLER + name: tensor for name, tensor in labeller.tensors().items()}
    used = {} if fitted.public is None else {"public": fitted.public.to_dict()}
    return weights, {
        "generator": fitted.generator.config,
        "features": None if features is None else features.to_dict(),
        "counts": fitted.counts.tolist(),
        "labels": fitted.labels,
        "labeller": None if labeller is None else labeller.to_dict(),
        "losses": [float(f"{v:.6g}") for v in fitted.losses],
        "rules": None if rules is None else rules.to_dict(),
        **used,
    }


def read_model(folder: Path, device: str = "cpu") -> tuple[SynthesisConfig, Fitted, Guarantee]:
    """What `write_model` wrote; needs no vault."""
    fields = read_json(folder / CONFIG)
    if fields.get("schema") != SCHEMA_VERSION or not {"params", "learned"} <= fields.keys():
        raise DataError(f"{folder / CONFIG} has another schema than this privot reads.")
    weights, _ = read_tensors(folder / GENERATOR)
    place = usable_device(device, auto=True)
    with said_by(folder / CONFIG):
        config = SynthesisConfig.from_dict(fields["params"], place)
        _read_encoder(folder, fields["learned"])
        fitted = restore(config, fields["learned"], weights)
        if isinstance(fitted, FittedGenerator):
            fitted.origin = _origin(dict(fields["params"]), fields["learned"])
        fitted.losses = [float(v) for v in fields["learned"].get("losses", [])]
        # what does not fit together (a range of other columns, …) is seen here, not by whoever samples later
        fitted.sample(1, seed=0)
    return config, fitted, read_folder_guarantee(folder)


def _origin(params: Mapping[str, Any], learned: Mapping[str, Any]) -> dict[str, Any]:
    """What a folder says of the making of its generator: a copy of the folder says it too (`write_model`)."""
    told = {name: params.get(name) for name in _MAKING} | {name: learned.get(name) for name in ("features", "rules")}
    return {name: value for name, value in told.items() if value is not None}


def restore(config: SynthesisConfig, learned: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> Fitted:
    """A fitted model from the parts of its folder."""
    if isinstance(config.codec, RelatedCodec):
        return FittedRelated(RelatedModel.build(config.codec, learned, weights))
    if config.codec is not None:
        form = learned.get("frame")
        model = TableModel.build(config.codec, learned, weights)
        return FittedTable(model, form=None if form is None else FrameForm.from_dict(form))
    try:
        own = {name: tensor for name, tensor in weights.items() if not name.startswith(_LABELLER)}
        _check_sizes(learned["generator"], own)
        generator = build(learned["generator"])
        generator.load_state_dict(own)
        counts, labels = np.array(learned["counts"], dtype=np.float64), bool(learned["labels"])
        if counts.shape != (generator.classes,) or not np.isfinite(counts).all() or counts.min() < 0.0:
            raise DataError("The counts of this generator do not fit its classes.")
        if config.class_names is not None and len(config.class_names) != generator.classes:
            raise DataError("The class names of this generator do not fit its classes.")
        if not {np.size(config.low), np.size(config.high)} <= {1, generator.dim}:
            raise DataError("The range of this generator does not fit its columns.")
        features = _features(learned["features"])
        place, span = usable_device(config.device, auto=True), (config.low, config.high)
        fitted = FittedGenerator(generator.to(place), features, counts, labels, span)
        fitted.public = PublicUse.from_dict(learned.get("public"))
        if learned.get("labeller") is not None:
            held = {n.removeprefix(_LABELLER): t for n, t in weights.items() if n.startswith(_LABELLER)}
            labeller = read_labeller(learned["labeller"], held)
            if (labeller.dim, labeller.classes) != (generator.dim, generator.classes):
                raise DataError("The labeller of this generator does not fit its samples.")
            fitted.labeller = labeller
    except (KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"The weights do not fit the configuration ({type(error).__name__}).") from None
    return fitted


def _check_sizes(config: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> None:
    """Refuse a generator of other sizes than its weights before it takes memory: a file may name any size."""
    with torch.device("meta"):
        wanted = {name: tensor.shape for name, tensor in build(config).state_dict().items()}
    if wanted != {name: tensor.shape for name, tensor in weights.items()}:
        raise DataError("The weights do not fit the configuration.")


def _read_encoder(folder: Path, learned: Any) -> None:
    """Read the encoder in `folder` where labels of samples need it, so that `PublicEncoder.from_dict` finds it."""
    labeller = learned.get("labeller") if isinstance(learned, Mapping) else None
    if not isinstance(labeller, Mapping) or labeller.get("kind") != EncoderClassifier.kind:
        return
    try:
        content = read_bytes(folder / ENCODER, inside=folder)
    except OSError:
        raise DataError(
            f"There is no {ENCODER} in {folder}, which labels of samples need: copy the whole folder again."
        ) from None
    try:
        wanted = labeller["features"]["encoder"]["digest"]
    except (KeyError, TypeError):
        raise DataError("The labeller of this generator does not say which encoder it needs.") from None
    if hashlib.sha256(content).hexdigest() != wanted:
        raise DataError(f"{folder / ENCODER} is not the encoder that labels samples here: copy the whole folder again.")
    PublicEncoder.of_content(content, ENCODER)


def _features(fields: Mapping[str, Any] | None) -> FeatureMap | None:
    """The map that was released; None where the file of its encoder is not at hand, which sampling does not need."""
    try:
        return None if fields is None else feature_map(fields)
    except EncoderNeededError:
        return None


def read_folder_guarantee(folder: Path) -> Guarantee:
    """The guarantee, counted anew from its events."""
    try:
        return read_guarantee(read_text(folder / GUARANTEE, inside=folder))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"There is no {GUARANTEE} in {folder}: give a folder that privot synth made.") from None
