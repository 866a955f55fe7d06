"""Colour images: classifiers trained on synthetic ones, FID, and samples to look at; without and with a public encoder.

Every seed repeats release, noise, training and classifiers. The test set takes no part in anything but the scores.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privot.kinds import Images
from privot.synthesis import Embedding
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun
from privot_lab.studies.synthesis_scores import DELTA, fid_beside, fid_words, mean_of, shortened

GOALS: dict[tuple[str, str, float], tuple[float | None, float | None]] = {
    ("cifar10", "plain", 10.0): (52.0, 95.0),
    ("cifar10", "plain", 1.0): (40.0, None),
    ("cifar10", "encoder", 10.0): (62.0, 45.0),
    ("cifar10", "encoder", 1.0): (52.0, 60.0),
    ("celeba", "encoder", 10.0): (None, 60.0),
    ("celeba", "face encoder", 10.0): (None, 60.0),
}
"""Accuracy of a network of a million weights and FID to reach: on 10,000 images of CIFAR-10 and on 8,000 faces, whose
gender is to be told as well as from real ones, to `NEAR` points."""
NEAR = 2.0
ENCODERS = {"encoder": ("encoder.pt2", 64, (-127 / 128, 1.0)), "face encoder": ("faces-encoder.pt2", 128, (0.0, 1.0))}
"""File, size and range of the public encoders that the figures were measured with (`docs/examples/public_encoders.py`):
EfficientNet-Lite0, and for faces the same beside a network that was trained on other people's faces."""
LABEL_ENCODERS = {"face encoder": ("faces-labels.pt2", 224, (0.0, 1.0))}
"""The same of encoders for labels alone: the network of faces, of larger images."""
JOINED = {"face encoder": (4, 0.5)}
"""Kinds whose classifiers learn from so many times the samples, and from such a share of them joined of two."""
SHOWN = 20
"""Samples that are kept to look at, as many of each class."""
SETTINGS = {
    "quick": {
        "sets": ["cifar10"], "kinds": ["plain"], "epsilons": [10.0], "seeds": 1, "records": 200, "samples": 200,
        "test": 200, "width": 8, "steps": 5,
    },
    "full": {
        "sets": ["cifar10", "celeba"], "kinds": ["plain", "encoder", "face encoder"],
        "epsilons": [10.0, 1.0, 0.2], "seeds": 1,
        "records": 0, "samples": 50_000, "test": 0, "width": 64, "steps": 0,
    },
}  # fmt: skip


def compute(
    run: StudyRun,
    sets: list[str],
    kinds: list[str],
    epsilons: list[float],
    seeds: int,
    **sizes: int,
) -> dict[str, Any]:
    """Accuracy and FID by set, kind, ε and seed; kinds are left out whose encoder is not in the folder of data.

    Cells of CIFAR-10 that have a goal are repeated for all `seeds`, others run once. Faces run where they have a goal,
    with an encoder at ε = 10: without one they are DP-Sinkhorn's Table 3. "face encoder" is for faces alone.

    `sizes` are what `_scores` takes; records, test and steps shorten a run, and 0 leaves them as they are.
    """
    named = [*ENCODERS.items(), *LABEL_ENCODERS.items()]
    missing = {kind for kind, (name, _, _) in named if _encoder_path(run, name) is None}
    kinds = [kind for kind in kinds if kind not in missing]
    real = {
        data: run.part(f"{data}, real data", partial(_real, run, data, sizes["test"], sizes["width"], sizes["records"]))
        for data in sets
    }
    cells = [(data, kind, epsilon) for data in sets for kind in kinds for epsilon in epsilons]
    cells = [cell for cell in cells if cell in GOALS or (cell[0] != "celeba" and cell[1] != "face encoder")]
    rows = []
    # every cell once before any is repeated: a run that is cut off has a table
    for seed in range(seeds):
        for data, kind, epsilon in cells:
            if seed and (data == "celeba" or (data, kind, epsilon) not in GOALS):
                continue
            found = run.part(
                f"{data}, {kind}, ε = {epsilon:g}, seed {seed}",
                partial(_scores, run, data, kind, epsilon, run.seed + seed, **sizes),
            )
            rows.append({"data": data, "kind": kind, "asked": epsilon, "seed": seed, **found})
    findings = [
        finding
        for cell in cells
        for finding in _findings(
            cell, [r for r in rows if (r["data"], r["kind"], r["asked"]) == cell], real[cell[0]], sizes["steps"]
        )
    ]
    return {"rows": rows, "real": real, "delta": DELTA, "findings": [f.to_dict() for f in findings]}


def _encoder_path(run: StudyRun, name: str) -> Path | None:
    """The file of a public encoder, None where it is not in the folder of data."""
    path = None if run.data_folder is None else run.data_folder / name
    return path if path is not None and path.is_file() else None


def _encoder(run: StudyRun, files: Mapping[str, tuple[str, int, tuple[float, float]]], kind: str) -> Any:
    """The public encoder that `files` names for a kind, None where they name none."""
    from privot.synthesis import PublicEncoder

    if kind not in files:
        return None
    name, side, ends = files[kind]
    path = _encoder_path(run, name)
    assert path is not None
    return PublicEncoder(path, size=side, value_range=ends)


def _real(run: StudyRun, name: str, test: int, width: int, records: int) -> float:
    """The network's accuracy when it learns from the records themselves."""
    from privot.evaluation.wide_network import EPOCHS, wide_score

    (x, y, shape), (real, labels, _) = images(run, name, "train"), images(run, name, "test")
    x, y = (x[:records], y[:records]) if records else (x, y)
    real, labels = (real[:test], labels[:test]) if test else (real, labels)
    # as many steps as from 50,000 samples
    epochs = EPOCHS if records else 5 * EPOCHS
    return wide_score(x, y, real, labels, shape=shape, width=width, epochs=epochs, device=run.device, seed=run.seed)


def _scores(
    run: StudyRun,
    name: str,
    kind: str,
    epsilon: float,
    seed: int,
    *,
    records: int,
    samples: int,
    test: int,
    width: int,
    steps: int,
) -> dict[str, Any]:
    from privot.evaluation import score
    from privot.evaluation.wide_network import wide_score
    from privot.synthesis import Synthesizer
    from privot.vault import Vault

    (x, y, shape), (real, labels, _) = images(run, name, "train"), images(run, name, "test")
    x, y = (x[:records], y[:records]) if records else (x, y)
    real, labels = (real[:test], labels[:test]) if test else (real, labels)
    encoder, labels_by = _encoder(run, ENCODERS, kind), _encoder(run, LABEL_ENCODERS, kind)
    clip = float(np.sqrt(x.shape[1]))
    # held in memory: one synthesis is paid for, and the data are open
    classes = int(y.max()) + 1
    vault = Vault(x, y, classes=classes, clip=clip, adjacency="add-remove", budget=(epsilon, DELTA))
    began = time.perf_counter()
    common: dict[str, Any] = {"kind": Images(shape), "device": run.device, "seed": seed}
    public: dict[str, Any] = {"encoder": encoder, "label_encoder": labels_by}
    made = Synthesizer(epsilon, DELTA, method=Embedding(**public), **common)
    if steps:
        design: Any = made.design(vault.facts)
        rules = replace(design.rules, steps=steps, batch=2)
        # an encoder brings its features with it
        given = {"features": design.mechanism.features} if encoder is None else public
        made = Synthesizer(epsilon, DELTA, method=Embedding(rules, **given), **common)
    made.fit(vault)
    seconds = time.perf_counter() - began
    drawn, marks = made.sample(samples, seed=seed)
    assert made.guarantee_ is not None and marks is not None  # noqa: PT018 - both are set by `fit`
    times, share = JOINED.get(kind, (1, 0.0))
    learned, named = (drawn, marks) if not share else made.sample(times * samples, seed=seed, joined=share)
    each = SHOWN // classes
    shown = np.concatenate([drawn[marks == c][:each] for c in range(classes)])
    return {
        "wide": wide_score(learned, named, real, labels, shape=shape, width=width, device=run.device, seed=seed),
        "cnn": score("cnn", learned, named, real, labels, shape=shape, device=run.device, seed=seed),
        **fid_beside(run, name, len(x), drawn),
        **({"joined": _of_joined(run, name, len(x), learned[:samples], times, share)} if share else {}),
        "shares": [round(float(v), 4) for v in np.bincount(marks, minlength=classes) / len(marks)],
        "epsilon": float(made.guarantee_.epsilon()),
        "standing": str(made.guarantee_.standing),
        "seconds": round(seconds, 1),
        "shown": {
            "of": classes,
            "classes": [int(c) for c in range(classes) for _ in range(min(each, int((marks == c).sum())))],
            "shape": list(shape),
            "bytes": base64.b64encode(np.clip(np.rint(255.0 * shown), 0, 255).astype(np.uint8).tobytes()).decode(),
        },
    }


def _of_joined(run: StudyRun, name: str, records: int, learned: Any, times: int, share: float) -> dict[str, Any]:
    """What classifiers learned from where samples were joined of two, and the FID of those very samples."""
    return {"times": times, "share": share, **fid_beside(run, name, records, learned)}


def _findings(cell: tuple[str, str, float], held: list[dict[str, Any]], real: float, steps: int) -> list[StudyFinding]:
    goal = GOALS.get(cell)
    if goal is None:
        return []
    (data, kind, epsilon), short, (accuracy, distance) = cell, shortened({"steps": steps} if steps else {}), goal
    named = f"{data}, {'without public images' if kind == 'plain' else f'with a public {kind}'}, ε = {epsilon:g}"
    reached = mean_of(held, "wide")
    fids = [row["fid"] for row in held if "fid" in row]
    terms = (
        f"network of a million weights {reached:.1f}, CNN {mean_of(held, 'cnn'):.1f}, {fid_words(held)}; "
        f"real data {100.0 * real:.1f}; {_joined_words(held[0])}"
        f"ε = {epsilon:g} at δ = {DELTA:g}, add-remove, {held[0]['standing']}, seeds: {len(held)}, "
        f"{max(row['seconds'] for row in held):.0f} s per release and training"
    )
    if accuracy is None:
        accuracy, asked = 100.0 * real - NEAR, f"accuracy within {NEAR:g} points of real data"
    else:
        asked = f"accuracy of {accuracy:g} per cent"
    out = [
        StudyFinding(
            f"{named}: {asked}",
            terms,
            reached >= accuracy and not short,
            published=f"{accuracy:.4g}",
            why=short or ("" if reached >= accuracy else f"{accuracy - reached:.1f} points are missing"),
        )
    ]
    if distance is not None and fids:
        found = float(np.mean(fids))
        out.append(
            StudyFinding(
                f"{named}: FID of {distance:g}",
                terms,
                found <= distance and not short,
                published=f"{distance:g}",
                why=short or ("" if found <= distance else f"{found - distance:.0f} too much"),
            )
        )
    return out


def _joined_words(row: Mapping[str, Any]) -> str:
    """What is said of samples that were joined of two; nothing where none were."""
    said = row.get("joined")
    if said is None:
        return ""
    fid = f", whose FID is {said['fid']:.1f}" if "fid" in said else ""
    return f"classifiers learned from {said['times']} times the samples, {said['share']:g} of them joined of two{fid}; "


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Samples of the first seed, a row of pictures per class and a block per ε."""
    from privot.report.chart_files import new_figure, save_figure

    rows = [row for row in found["rows"] if row["seed"] == 0]
    figure, axes = new_figure(1, len(rows), (1.1 * len(rows) + 0.6, 5.2))
    for axis, row in zip(axes[0], rows, strict=True):
        axis.imshow(_grid(row["shown"]))
        axis.set(title=f"{row['data']}\n{row['kind']}\nε = {row['asked']:g}", xticks=[], yticks=[])
        axis.title.set_fontsize(7)
    path = out / "privot-colour.png"
    save_figure(figure, path, dpi=200)
    return [path]


def _grid(shown: Mapping[str, Any]) -> Any:
    """Pictures of a class side by side, classes below each other; grey where a class has no sample."""
    height, width, channels = (*shown["shape"], 1)[:3]
    flat = np.frombuffer(base64.b64decode(shown["bytes"]), np.uint8).reshape(-1, height, width, channels)
    # two beside each other: classes of ten, or the samples of two classes in five rows each
    grid = np.full((SHOWN // 2 * height, 2 * width, channels), 128, np.uint8)
    each = max(SHOWN // shown["of"], 1)
    at: dict[int, int] = {}
    for picture, c in zip(flat, shown["classes"], strict=True):
        place = at[c] = at.get(c, -1) + 1
        down, across = divmod(c * each + place, 2)
        grid[down * height : (down + 1) * height, across * width : (across + 1) * width] = picture
    return grid if channels == 3 else grid[..., 0]
