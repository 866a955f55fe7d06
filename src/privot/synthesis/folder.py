"""The output folder: generator, guarantee, synthetic data, pictures and report; it sees what was released only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from privot.accounting import read_guarantee
from privot.errors import DataError
from privot.guarantee import Guarantee
from privot.synthesis.files import read_json, read_tensors, write_bytes, write_json, write_tensors
from privot.synthesis.synthesizer import Synthesizer, restore

CONFIG = "config.json"
GENERATOR = "generator.safetensors"
GUARANTEE = "guarantee.json"
SYNTHETIC = "synthetic.npz"
SCHEMA_VERSION = 1


def write_generator(synthesizer: Synthesizer, folder: Path) -> None:
    """Everything `privot sample` needs; the configuration last, so that a folder with one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / GENERATOR, synthesizer.generator_.state_dict(), {"kind": "generator"})
    write_bytes(folder / GUARANTEE, (synthesizer.guarantee_.to_json() + "\n").encode())
    learned = {
        "generator": synthesizer.generator_.config,
        "features": synthesizer.features_.to_dict(),
        "counts": synthesizer.counts_.tolist(),
        "labels": synthesizer.labels_,
        "losses": [float(f"{v:.6g}") for v in synthesizer.losses_],
        "rules": synthesizer.design_.rules.to_dict() if hasattr(synthesizer, "design_") else None,
    }
    write_json(folder / CONFIG, {"schema": SCHEMA_VERSION, "params": synthesizer.to_params(), "learned": learned})


def read_generator(folder: Path, device: str = "cpu") -> Synthesizer:
    """A fitted synthesizer; needs no vault."""
    fields = read_json(folder / CONFIG)
    if fields.get("schema") != SCHEMA_VERSION or not {"params", "learned"} <= fields.keys():
        raise DataError(f"{folder / CONFIG} has another schema than this privot reads.")
    weights, _ = read_tensors(folder / GENERATOR)
    synthesizer = restore(fields["params"], fields["learned"], weights, device)
    synthesizer.losses_ = [float(v) for v in fields["learned"].get("losses", [])]
    synthesizer.guarantee_ = read_folder_guarantee(folder)
    return synthesizer


def read_folder_guarantee(folder: Path) -> Guarantee:
    """The guarantee, counted anew from its events."""
    try:
        return read_guarantee((folder / GUARANTEE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"There is no {GUARANTEE} in {folder}: give a folder that privot synth made.") from None


def write_samples(path: Path, x: Any, y: Any, shape: Any) -> None:
    """Samples as `.npz` (x, and y where there are labels), images in their shape; or `.csv` of numbers."""
    import io

    x = np.asarray(x, dtype=np.float32)
    if path.suffix == ".npz":
        arrays = {"x": x.reshape(len(x), *shape) if shape else x}
        if y is not None:
            arrays["y"] = np.asarray(y)
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
        raise DataError(f"Samples are written to .npz, .npy or .csv, not to {path.name!r}.")


def write_folder(synthesizer: Synthesizer, folder: Path, samples: int, seed: int | None) -> None:
    """Everything that `privot synth` leaves behind."""
    from privot.synthesis.pictures import draw_curve, draw_grid
    from privot.synthesis.report import write_report

    x, y = synthesizer.sample(samples, seed=seed)
    write_samples(folder / SYNTHETIC, x, y, synthesizer.shape)
    if synthesizer.shape is not None:
        classes = synthesizer.generator_.classes
        wanted = np.repeat(np.arange(classes), 10) if classes > 1 else np.zeros(100, dtype=np.int64)
        images, _ = synthesizer.sample(len(wanted), labels=wanted, seed=seed)
        unit = (images - np.asarray(synthesizer.low)) / (np.asarray(synthesizer.high) - np.asarray(synthesizer.low))
        write_bytes(folder / "grid.png", draw_grid(unit, synthesizer.shape))
    write_bytes(folder / "curves.png", draw_curve(synthesizer.losses_))
    write_generator(synthesizer, folder)
    write_report(folder)
