"""DP-SGD for a module, loss and optimiser of your own: the vault fills the gradients, and your optimiser steps."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from privot.common.arguments import check_count, check_positive
from privot.common.extras import require
from privot.errors import UsageError
from privot.guarantee import Guarantee
from privot.mechanisms.gradients.dp_sgd import ClippedGradients, default_sampling, sigma_for_target
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.summaries.array_columns import find_column
from privot.vault import Vault
from privot.vault.stream import Stream

if TYPE_CHECKING:
    from torch import nn

    from privot.training.model_gradients import Loss, ModelGradients


class PrivateSteps:
    """The steps of one charge: each fills the gradients of a module with a private gradient, for any optimiser.

    Made by `make_private_with_epsilon`. `guarantee` is that of all steps together; `sigma` is the standard deviation of
    the noise on a sum of clipped gradients.
    """

    def __init__(
        self, stream: Stream, query: Query, module: nn.Module, divisor: float, sigma: float, steps: int
    ) -> None:
        self._stream, self._query, self._module, self._divisor = stream, query, module, divisor
        self.sigma, self._steps = sigma, steps

    @property
    def guarantee(self) -> Guarantee:
        """What all steps together cost, paid before the first."""
        return self._stream.guarantee

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[int]:
        """The number of each step, once its gradient is in the module: now let the optimiser step."""
        import torch

        trained = [p for p in self._module.parameters() if p.requires_grad]
        for number in range(self._steps):
            flat = torch.cat([p.detach().cpu().double().reshape(-1) for p in trained])
            self._query.set(np.asarray(flat.numpy()))
            value = np.asarray(next(self._stream).value) / self._divisor
            parts = torch.split(torch.from_numpy(value), [p.numel() for p in trained])
            for p, part in zip(trained, parts, strict=True):
                p.grad = part.reshape(p.shape).to(device=p.device, dtype=p.dtype)
            yield number


def make_private_with_epsilon(
    vault: Vault,
    module: nn.Module,
    loss: Loss,
    *,
    target_epsilon: float,
    target_delta: float,
    clip_norm: float,
    sampling_rate: float,
    purpose: str,
    epochs: float | None = None,
    steps: int | None = None,
    expected_batch_size: float | None = None,
    shape: tuple[int, ...] | None = None,
    target: int | str | None = None,
    device: str = "cpu",
) -> PrivateSteps:
    """Train any module with any loss and optimiser under (ε, δ): all steps are charged now, and then run one by one.

    Loop over the answer and let your optimiser step; gradients are set, never added, so nothing has to be zeroed.

    Parameters
    ----------
    vault
        The records, of shape (records, columns).
    module
        The model, trained where it lies and in its own precision; gradients are computed on a copy in float64. Layers
        that mix the records of a batch, or draw random numbers, are refused.
    loss
        (output, target) → the loss, for example `nn.CrossEntropyLoss()`; called with one record at a time.
    target_epsilon, target_delta
        What all steps together may cost; the noise is found from it.
    clip_norm
        C, the largest norm of one record's gradient (Opacus: max_grad_norm): longer ones are clipped.
    sampling_rate
        Probability with which each record is in a sample (Poisson sampling under add-remove); under replace-one the
        share of records in a sample of fixed size.
    purpose
        What the ledger records as the reason of the charge.
    epochs, steps
        How many steps run: `steps`, or ⌈epochs/sampling_rate⌉; give one.
    expected_batch_size
        The public number that a noisy sum of gradients is divided by. Under replace-one it is the sample's size unless
        given; under add-remove the number of records is private, so it has to be stated.
    shape
        The shape of one record as the module takes it; (columns,) unless given.
    target
        Name or number of the column to predict, for regression; the module then does not see it. Without it the target
        is the record's label.
    device
        Where gradients are computed: "cpu" or "cuda".

    Returns
    -------
    PrivateSteps
        One item per step; `guarantee` is that of all of them.

    Raises
    ------
    UsageError
        If a number is out of range, or the module cannot be trained privately: before anything is paid.
    BudgetError
        If the vault's budget does not cover all steps; no record is read then.

    Notes
    -----
    Formal guarantees: those of `ClippedGradients`, composed over all steps; the sampler that runs is the one that is
    counted. What the optimiser does with a private gradient is post-processing. `module` and `loss` run beside the
    records: they must be public functions that keep, print and learn nothing of what they see (hooks are refused, a
    loss that logs cannot be seen), and weights of classes taken from private labels are not paid for.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from privot import Vault
    >>> from privot.kinds import Images
    >>> vault = Vault.open("digits", Images((8, 8), classes=10, clip=8.0), adjacency="add-remove", budget=(2.0, 1e-5))
    >>> model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    >>> steps = make_private_with_epsilon(
    ...     vault, model, nn.CrossEntropyLoss(), target_epsilon=2.0, target_delta=1e-5, clip_norm=1.0,
    ...     sampling_rate=0.05, steps=3, expected_batch_size=90, purpose="a classifier",
    ... )
    >>> for step in steps:
    ...     optimizer.step()
    >>> len(steps), 1.99 < steps.guarantee.epsilon() <= 2.0
    (3, True)
    """
    require("Training a module needs", "torch", "torch")
    from torch import nn

    if not isinstance(module, nn.Module):
        raise UsageError(f"Expected a torch.nn.Module to train, got {type(module).__name__}.")
    facts = vault.facts
    check_positive("The sampling rate", sampling_rate)
    total = _steps(epochs, steps, sampling_rate)
    sampling = default_sampling(facts.adjacency, sampling_rate, facts.records)
    if expected_batch_size is None:
        if facts.records is None:
            raise UsageError(
                "The number of records is private under add-remove: state expected_batch_size, the public number that "
                "sums of gradients are divided by."
            )
        expected_batch_size = max(1, round(sampling_rate * facts.records))
    check_positive("The expected batch size", expected_batch_size)
    gradients = _gradients(vault, module, loss, shape, target, device)
    query = Query(gradients.weights())
    sigma = sigma_for_target(
        target_epsilon=target_epsilon,
        target_delta=target_delta,
        clip_norm=clip_norm,
        sampling=sampling,
        steps=total,
        adjacency=facts.adjacency,
    )
    mechanism = ClippedGradients(gradients, query, sigma, clip_norm, sampling, total, labels=target is None)
    stream = vault.stream(mechanism, purpose=purpose, delta=target_delta)
    return PrivateSteps(stream, query, module, float(expected_batch_size), sigma, total)


def _steps(epochs: float | None, steps: int | None, sampling_rate: float) -> int:
    if (epochs is None) == (steps is None):
        raise UsageError("Give either the number of epochs or the number of steps.")
    if steps is not None:
        check_count("The number of steps", steps)
        return steps
    assert epochs is not None
    check_positive("The number of epochs", epochs)
    total = math.ceil(epochs / sampling_rate - 1e-9)
    check_count("The number of steps", total)
    return total


def _gradients(
    vault: Vault, module: nn.Module, loss: Loss, shape: tuple[int, ...] | None, target: int | str | None, device: str
) -> ModelGradients:
    """Per-record gradients of a copy of the module: the user's own stays as it is."""
    import torch

    from privot.training.model_gradients import ModelGradients

    facts = vault.facts
    at = None
    if target is not None:
        column = find_column(target, facts)
        if column.place < 0 or column.categories is not None:
            raise UsageError("The target column must hold numbers: leave target out to predict labels.")
        at = column.place
    inputs = facts.dim - (at is not None)
    if shape is not None and math.prod(shape) != inputs:
        raise UsageError(f"A record of this shape has {math.prod(shape)} numbers, the vault's have {inputs}.")
    _check_hooks(module)
    if isinstance(loss, torch.nn.Module):
        _check_hooks(loss)
    return ModelGradients(
        copy.deepcopy(module), (inputs,) if shape is None else tuple(shape), device=device, loss=loss, target_column=at
    )


def _check_hooks(module: nn.Module) -> None:
    """Refuse hooks: they would see rows and gradients of private records, without noise."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if any(getattr(part, kind, None) for part in module.modules() for kind in kinds):
        raise UsageError("The module or loss has hooks, which would see private records without noise: remove them.")
