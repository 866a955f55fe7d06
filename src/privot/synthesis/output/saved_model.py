"""A fitted synthesizer on disk and back: weights, configuration and guarantee, all that sampling needs; no vault."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privot.accounting import read_guarantee
from privot.common.devices import usable_device
from privot.errors import DataError, said_by
from privot.guarantee import Guarantee
from privot.jobs.released_files import read_json, write_bytes, write_json
from privot.jobs.tensor_files import read_tensors, write_tensors
from privot.opening import read_bytes, read_text
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import ENCODER, Fitted
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.features.encoder_codes import EncoderClassifier
from privot.synthesis.of_kind import output_of

CONFIG = "config.json"
GENERATOR = "generator.safetensors"
GUARANTEE = "guarantee.json"
SCHEMA_VERSION = 1
_MAKING = ("encoder", "label_encoder", "public")
"""What a synthesis was given whose files sampling does not need: the configuration describes them by their digests."""


def write_model(
    folder: Path, config: SynthesisConfig, fitted: Fitted, guarantee: Guarantee, rules: Rules | None = None
) -> None:
    """Everything `privot sample` needs; the configuration last, so that a folder with one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    params = config.to_dict()
    weights, learned = fitted.learned(rules)
    # of a folder that was read: what it says of its making
    params |= {name: fitted.origin[name] for name in _MAKING if params.get(name) is None and name in fitted.origin}
    for name, content in fitted.files.items():
        write_bytes(folder / name, content)
    write_tensors(folder / GENERATOR, weights, {"kind": "generator"})
    write_bytes(folder / GUARANTEE, (guarantee.to_json() + "\n").encode())
    write_json(folder / CONFIG, {"schema": SCHEMA_VERSION, "params": params, "learned": learned})


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
        fitted = output_of(config.kind).restore(config, fields["learned"], weights)
        fitted.origin = _origin(dict(fields["params"]), fields["learned"])
        fitted.losses = [float(v) for v in fields["learned"].get("losses", [])]
        # what does not fit together (a range of other columns, …) is seen here, not by whoever samples later
        fitted.sample(1, seed=0)
    return config, fitted, read_folder_guarantee(folder)


def _origin(params: Mapping[str, Any], learned: Mapping[str, Any]) -> dict[str, Any]:
    """What a folder says of the making of its generator: a copy of the folder says it too (`write_model`)."""
    told = {name: params.get(name) for name in _MAKING} | {name: learned.get(name) for name in ("features", "rules")}
    return {name: value for name, value in told.items() if value is not None}


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


def read_folder_guarantee(folder: Path) -> Guarantee:
    """The guarantee, counted anew from its events."""
    try:
        return read_guarantee(read_text(folder / GUARANTEE, inside=folder))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"There is no {GUARANTEE} in {folder}: give a folder that privot synth made.") from None
