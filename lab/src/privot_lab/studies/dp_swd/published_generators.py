"""Tables 3 and 5: the generators as printed, layer by layer, beside the sizes that the text states. No data."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_run import StudyRun

SETTINGS: dict[str, dict[str, Any]] = {"quick": {"parameters": 180_000}, "full": {"parameters": 180_000}}


def compute(run: StudyRun, parameters: int) -> dict[str, Any]:
    """What each printed generator makes, what it has to be for the stated output, and how many parameters it has."""
    from privot.synthesis.neural.generators.generator import build

    grey_as_printed = _output(_grey(side=28, channels=1), 20)
    grey = _grey(side=7, channels=16)
    made = _output(grey, 20)
    count = sum(p.numel() for p in grey.parameters())
    ours = build(
        {
            "kind": "upsampling", "dim": 784, "classes": 10, "segments": [[0, 784, "interval"]], "latent": 10,
            "shape": [28, 28], "channels": 64,
        }
    )  # fmt: skip
    own = sum(p.numel() for p in ours.parameters())
    faces_as_printed, faces = _output(_faces(stride=1), 32), _output(_faces(stride=2), 32)
    findings = [
        StudyFinding(
            "Table 3: FC 20–200–784, reshape to 28 × 28, two doublings, 28 × 28 images",
            f"as printed it makes {_shown(grey_as_printed)}; reshaped to 16 maps of 7 × 7 it makes {_shown(made)}",
            StudyVerdict.CORRECTED if made == (1, 28, 28) != grey_as_printed else StudyVerdict.REPRODUCED,
            published="28 × 28",
            why="784 numbers reshaped to 28 × 28 and doubled twice are 112 × 112; only 16 × 7 × 7 fits",
        ),
        StudyFinding(
            f"Table 3: about {parameters:,} parameters",
            f"{count:,} with 16, 8 and 1 maps; `privot synth --method sliced` has {own:,}",
            abs(count / parameters - 1.0) <= 0.15,
            published=f"{parameters:,}",
        ),
        StudyFinding(
            "Table 5: five transposed convolutions of 4 × 4 and stride 1 from a code of 32, 64 × 64 × 3 images",
            f"as printed it makes {_shown(faces_as_printed)}; with stride 2 after the first layer {_shown(faces)}",
            StudyVerdict.CORRECTED if faces == (3, 64, 64) != faces_as_printed else StudyVerdict.REPRODUCED,
            published="64 × 64 × 3",
            why="each layer of stride 1 adds 3 pixels: 16 × 16; the stride of all but the first must be 2",
        ),
    ]
    return {
        "grey": {"printed": list(grey_as_printed), "corrected": list(made), "parameters": count, "ours": own},
        "faces": {"printed": list(faces_as_printed), "corrected": list(faces)},
        "findings": [f.to_dict() for f in findings],
    }


def _shown(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} × {shape[2]}" + (f" × {shape[0]}" if shape[0] > 1 else "")


def _grey(side: int, channels: int) -> Any:
    """Table 3 with 784 numbers reshaped to `channels` maps of `side` × `side`."""
    from torch import nn

    narrow = max(1, channels // 2)
    return nn.Sequential(
        nn.Linear(20, 200),
        nn.BatchNorm1d(200),
        nn.ReLU(),
        nn.Linear(200, 784),
        nn.BatchNorm1d(784),
        nn.ReLU(),
        nn.Unflatten(1, (channels, side, side)),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Conv2d(channels, narrow, 5, padding=2),
        nn.ReLU(),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Conv2d(narrow, 1, 5, padding=2),
        nn.Sigmoid(),
    )


def _faces(stride: int) -> Any:
    """Table 5 with this stride after the first layer."""
    from torch import nn

    widths = (32, 512, 256, 128, 64, 3)
    layers: list[nn.Module] = [nn.Unflatten(1, (32, 1, 1))]
    for number, (wide, narrow) in enumerate(pairwise(widths)):
        first = number == 0
        layers.append(nn.ConvTranspose2d(wide, narrow, 4, 1 if first else stride, 0 if first or stride == 1 else 1))
        layers += [nn.BatchNorm2d(narrow), nn.ReLU() if number < len(widths) - 2 else nn.Sigmoid()]
    return nn.Sequential(*layers)


def _output(network: Any, latent: int) -> tuple[int, ...]:
    """The shape of one image."""
    import torch

    with torch.no_grad():
        return tuple(network.eval()(torch.zeros(2, latent)).shape[1:])


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: they are tables."""
    return []
