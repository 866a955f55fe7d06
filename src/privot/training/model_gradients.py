"""Gradients of a torch model as a public function of weights and records: one per record, or that of a batch's mean.

Per-record gradients come from `torch.func` (grad, then vmap over records), so a record's gradient depends on that
record only. Layers that mix a batch are refused, and so are layers that draw random numbers: the numbers of a record
would depend on its place, and one more record would change those of all later ones. Records are not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.extras import needing
from privot.errors import UsageError

with needing("Gradients of a model need", "torch"):
    import torch
    from torch import nn
    from torch.func import functional_call, grad, vmap

Array = NDArray[np.float64]


def mixes_records(model: nn.Module) -> list[str]:
    """Names of layers that share statistics between the records of a batch, or keep running statistics."""
    return [
        name
        for name, layer in model.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm)
        or (isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.track_running_stats)
    ]


def draws_numbers(model: nn.Module) -> list[str]:
    """Names of layers that draw random numbers while training."""
    return [
        name
        for name, layer in model.named_modules()
        if isinstance(layer, nn.RReLU)
        or (isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0.0)
        or (isinstance(layer, nn.RNNBase | nn.MultiheadAttention) and layer.dropout > 0.0)
    ]


Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(output, target) → the loss; called with one record at a time, each with a leading axis of length 1."""


class ModelGradients:
    """Gradients of a loss of `model` on rows reshaped to `shape`; weights are one flat float64 vector.

    `loss` takes the model's output and the target: the cross-entropy unless given. The target is the record's label, or
    with `target_column` the number in that column of its row, which the model then does not see.

    `batch_statistics=True` allows batch normalisation and dropout, for the published variant only; `each` then raises
    `UsageError`.

    Gradients are computed in float64, so that the effect of one record on the *rounding* of the others' gradients is
    far below the clipping margin. `single=True` computes in float32, which is faster; rounding is then about 1e-7 per
    record, which the margin covers for small samples only.
    """

    def __init__(
        self,
        model: nn.Module,
        shape: tuple[int, ...],
        *,
        device: str | torch.device = "cpu",
        batch_statistics: bool = False,
        single: bool = False,
        loss: Loss = nn.functional.cross_entropy,
        target_column: int | None = None,
    ) -> None:
        if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
            raise UsageError("The model has layers of unknown size: call it once on public rows first.")
        mixing, drawing = mixes_records(model), draws_numbers(model)
        if drawing and not batch_statistics:
            raise UsageError(
                f"The layer {drawing[0]!r} draws random numbers by a record's place in its sample, so clipping one "
                "gradient does not bound one record: remove the layer."
            )
        if mixing and not batch_statistics:
            raise UsageError(
                f"The layer {mixing[0]!r} shares statistics between records, so clipping one gradient does not bound "
                "one record: use group normalisation."
            )
        self._kind = torch.float32 if single else torch.float64
        self.model = model.to(device=device, dtype=self._kind)
        self.shape, self.device = tuple(shape), torch.device(device)
        self.batch_statistics = bool(mixing or drawing)
        self._names = [name for name, p in model.named_parameters() if p.requires_grad]
        self._shapes = [tuple(p.shape) for p in model.parameters() if p.requires_grad]
        self._sizes = [int(np.prod(s)) for s in self._shapes]
        self.size = sum(self._sizes)
        self.loss, self.target_column = loss, target_column

        def of_one(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            # summed: a loss without reduction answers one number per record
            return loss(functional_call(model, params, (x.unsqueeze(0),)), y.unsqueeze(0)).sum()

        self._each = vmap(grad(of_one), in_dims=(None, 0, 0), randomness="error")

    def weights(self) -> Array:
        """The model's current weights."""
        parts = [p.detach().cpu().double().reshape(-1) for p in self.model.parameters() if p.requires_grad]
        return np.asarray(torch.cat(parts).numpy())

    def load(self, weights: Array) -> nn.Module:
        """The model, with `weights` loaded."""
        params = self._split(weights)
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                if name in params:
                    p.copy_(params[name])
        return self.model

    def each(self, weights: Array, rows: Array, labels: NDArray[np.int64]) -> Array | torch.Tensor:
        """One gradient per record, (records, size); on a GPU they stay there, where they are also clipped."""
        if self.batch_statistics:
            raise UsageError("A model with batch statistics or dropout has no gradient of one record.")
        if len(rows) == 0:
            return np.zeros((0, self.size))
        self.model.train()
        # cuDNN's fastest convolutions add in any order: the last bits of a gradient would change from call to call, and
        # at a kink of the loss they decide about all of it
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            found = self._each(self._split(weights), *self._batch(rows, labels))
        flat = torch.cat([found[name].reshape(len(rows), -1) for name in self._names], dim=1)
        return flat if flat.device.type == "cuda" else np.asarray(flat.double().numpy())

    def mean(self, weights: Array, rows: Array, labels: NDArray[np.int64]) -> Array:
        """The gradient of the mean loss of all rows together, of shape (size,)."""
        self.model.train()
        params = {name: p.requires_grad_() for name, p in self._split(weights).items()}
        x, y = self._batch(rows, labels)
        loss = self.loss(functional_call(self.model, params, (x,)), y)
        found = torch.autograd.grad(loss, [params[name] for name in self._names])
        return np.asarray(torch.cat([g.reshape(-1) for g in found]).cpu().double().numpy())

    def accuracy(self, weights: Array, rows: NDArray[Any], labels: NDArray[Any]) -> float:
        """Accuracy of the model with `weights` on *public* test rows."""
        model = self.load(weights).eval()
        right = 0
        with torch.no_grad():
            for start in range(0, len(rows), 512):
                x, y = self._batch(rows[start : start + 512], labels[start : start + 512])
                right += int((model(x).argmax(1) == y).sum())
        return right / len(rows)

    def _split(self, weights: Array) -> dict[str, torch.Tensor]:
        flat = torch.as_tensor(np.asarray(weights), dtype=self._kind, device=self.device)
        parts = torch.split(flat, self._sizes)
        named = zip(self._names, parts, self._shapes, strict=True)
        return {name: part.reshape(shape).clone() for name, part, shape in named}

    def _batch(self, rows: NDArray[Any], labels: NDArray[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        held = torch.as_tensor(np.asarray(rows), dtype=self._kind, device=self.device)
        if self.target_column is None:
            y = torch.as_tensor(np.asarray(labels), dtype=torch.int64, device=self.device)
        else:
            at = self.target_column
            held, y = torch.cat([held[:, :at], held[:, at + 1 :]], dim=1), held[:, at]
        return held.reshape(len(rows), *self.shape), y
