"""The output files of generated numbers and images: arrays, pictures, and the generator back; it sees no record."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from privot.common.devices import usable_device
from privot.errors import DataError, UsageError
from privot.jobs.released_files import write_bytes
from privot.kinds import Kind
from privot.mechanisms.embedding import FeatureMap
from privot.report.image_grid import draw_grid
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import LABELLER, FittedGenerator, FittedSynthesizer
from privot.synthesis.neural.after_training.relabelling import read_labeller
from privot.synthesis.neural.encoders.public_encoder import EncoderNeededError
from privot.synthesis.neural.features.fourier import feature_map
from privot.synthesis.neural.generators.generator import build
from privot.synthesis.neural.public.public_means import PublicUse
from privot.synthesis.of_kind import Drawing
from privot.synthesis.output.image_folder import check_image_folder, write_image_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray


SYNTHETIC = "synthetic.npz"
_TRIED = 10
"""Samples for every image of the grid where a labeller says what they are."""


class NumbersOutput:
    """What a folder holds of vectors and images."""

    def made_files(self, kind: Kind) -> tuple[str, ...]:
        """None beside those of every kind."""
        return ()

    def restore(
        self, config: SynthesisConfig, learned: Mapping[str, Any], weights: Mapping[str, torch.Tensor]
    ) -> FittedGenerator:
        """A fitted generator from the parts of its folder."""
        try:
            own = {name: tensor for name, tensor in weights.items() if not name.startswith(LABELLER)}
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
                held = {n.removeprefix(LABELLER): t for n, t in weights.items() if n.startswith(LABELLER)}
                labeller = read_labeller(learned["labeller"], held)
                if (labeller.dim, labeller.classes) != (generator.dim, generator.classes):
                    raise DataError("The labeller of this generator does not fit its samples.")
                fitted.labeller = labeller
        except (KeyError, TypeError, RuntimeError) as error:
            raise DataError(f"The weights do not fit the configuration ({type(error).__name__}).") from None
        return fitted

    def write_drawn(self, synthesizer: FittedSynthesizer, path: Path, drawing: Drawing) -> None:
        """Arrays, as the path's ending says; images without one become a folder of PNG files, by class name."""
        if drawing.spreadsheet_safe:
            raise UsageError("Only tables with a schema hold text that a spreadsheet could read as a formula.")
        kind = synthesizer.kind_
        if not path.suffix:
            check_image_folder(path, kind.shape)
        x, y = synthesizer.sample(**drawing.sampled)
        if path.suffix:
            write_samples(path, x, y, kind.shape, kind.class_names)
        else:
            write_image_folder(path, x, y, kind.shape, kind.low, kind.high, kind.class_names, drawing.progress)

    def write_made(self, synthesizer: FittedSynthesizer, folder: Path, drawing: Drawing) -> None:
        """Arrays, and a grid of images."""
        self.write_drawn(synthesizer, folder / SYNTHETIC, replace(drawing, spreadsheet_safe=False))
        _write_grid(synthesizer, folder, drawing.seed)


def _check_sizes(config: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> None:
    """Refuse a generator of other sizes than its weights before it takes memory: a file may name any size."""
    with torch.device("meta"):
        wanted = {name: tensor.shape for name, tensor in build(config).state_dict().items()}
    if wanted != {name: tensor.shape for name, tensor in weights.items()}:
        raise DataError("The weights do not fit the configuration.")


def _features(fields: Mapping[str, Any] | None) -> FeatureMap | None:
    """The map that was released; None where the file of its encoder is not at hand, which sampling does not need."""
    try:
        return None if fields is None else feature_map(fields)
    except EncoderNeededError:
        return None


def write_samples(path: Path, x: Any, y: Any, shape: Any, class_names: Any = None) -> None:
    """Samples as `.npz` (x, y and class names where there are some), images in their shape; or `.csv` of numbers."""
    x = np.asarray(x, dtype=np.float32)
    if path.suffix == ".npz":
        arrays = {"x": x.reshape(len(x), *shape) if shape else x}
        if y is not None:
            arrays["y"] = np.asarray(y)
            if class_names is not None:
                arrays["class_names"] = np.asarray(class_names, dtype=np.str_)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        write_bytes(path, buffer.getvalue())
    elif path.suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, x.reshape(len(x), *shape) if shape else x)
        write_bytes(path, buffer.getvalue())
    elif path.suffix == ".csv":
        names = [f"x{i}" for i in range(x.shape[1])] + ([] if y is None else ["y"])
        lines = [",".join(names)]
        for i, row in enumerate(x):
            lines.append(",".join([f"{v:.7g}" for v in row] + ([] if y is None else [str(int(y[i]))])))
        write_bytes(path, ("\n".join(lines) + "\n").encode())
    else:
        raise DataError(f"Samples are written to .npz, .npy or .csv, or images to a new folder, not to {path.name!r}.")


def _write_grid(synthesizer: FittedSynthesizer, folder: Path, seed: int | None) -> None:
    if synthesizer.kind_.shape is None:
        return
    classes = synthesizer.generator_.classes
    wanted = np.repeat(np.arange(classes), 10) if classes > 1 else np.zeros(100, dtype=np.int64)
    images = _of_each_class(synthesizer, wanted, seed)
    unit = (images - np.asarray(synthesizer.kind_.low)) / (
        np.asarray(synthesizer.kind_.high) - np.asarray(synthesizer.kind_.low)
    )
    write_bytes(folder / "grid.png", draw_grid(unit, synthesizer.kind_.shape))


def _of_each_class(synthesizer: FittedSynthesizer, wanted: NDArray[np.int64], seed: int | None) -> NDArray[Any]:
    """Samples of the classes `wanted`; blank ones where a labeller finds too few, for all is paid by now."""
    if synthesizer.generator_.shows_class or synthesizer.labeller_ is None:
        images: NDArray[Any] = synthesizer.sample(len(wanted), labels=wanted, seed=seed)[0]
        return images
    x, y = synthesizer.sample(_TRIED * len(wanted), seed=seed)
    out = np.empty((len(wanted), x.shape[1]), dtype=x.dtype)
    out[:] = np.asarray(synthesizer.kind_.high)
    for c in np.unique(wanted):
        found, places = x[y == c], np.flatnonzero(wanted == c)
        k = min(len(found), len(places))
        out[places[:k]] = found[:k]
    return out
