"""Keeps a training on disk, so that it continues after a kill exactly where it was; no pickle, no record.

A checkpoint holds weights, the optimiser's moments, the state of the random numbers, the step and the losses, and
identifies the releases it was trained on: the digest of the one release (`privot.jobs.job`), or the job's name and the
blocks it has seen (`privot.synthesis.methods.paid_blocks`). A checkpoint of a training on other releases is refused:
what it learned would leave under a guarantee that does not count it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from privot.common.cuda_graphs import lay_out
from privot.errors import DataError
from privot.jobs.tensor_files import read_tensors, write_tensors
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.generator_training.training_state import TrainingState

NAME = "checkpoint.safetensors"
EVERY_SECONDS = 60.0


def save(training: TrainingState, path: Path, **facts: Any) -> None:
    """Write everything, whole or not at all, with JSON `facts` that say which releases it was trained on."""
    tensors = {f"generator.{name}": t for name, t in training.generator.state_dict().items()}
    if training.average is not None:
        tensors.update({f"average.{name}": t for name, t in training.average.state_dict().items()})
    for number, state in training.optimizer.state_dict()["state"].items():
        held = {name: torch.as_tensor(t) for name, t in state.items() if t is not None}
        tensors.update({f"optimizer.{number}.{name}": t for name, t in held.items()})
    tensors["random"] = training.random.get_state()
    tensors["losses"] = torch.tensor(training.losses, dtype=torch.float64)
    write_tensors(path, tensors, {**facts, "step": training.step, "rules": training.rules.to_dict()})


def load_facts(path: Path) -> dict[str, Any]:
    """The facts beside a checkpoint."""
    return read_tensors(path)[1]


def load(path: Path, rules: Rules, device: str, **wanted: Any) -> TrainingState:
    """Read what `save` wrote, for the same rules and the same facts about what it was trained on."""
    tensors, facts = read_tensors(path)
    training = TrainingState.start(rules, 0, device)
    try:
        if facts["rules"] != rules.to_dict():
            raise DataError(f"{path} belongs to another training: its rules differ.")
        differ = [name for name, value in wanted.items() if facts[name] != value]
        if differ:
            raise DataError(f"{path} was trained on another {differ[0]} than the one beside it: remove it.")
        training.generator.load_state_dict(_part(tensors, "generator."))
        if training.average is not None:
            training.average.load_state_dict(_part(tensors, "average."))
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, number, part = name.split(".")
                state.setdefault(int(number), {})[part] = tensor
        groups = training.optimizer.state_dict()["param_groups"]
        training.optimizer.load_state_dict({"state": state, "param_groups": groups})
        lay_out(training.optimizer)
        if tensors["random"].shape == training.random.get_state().shape:
            training.random.set_state(tensors["random"])
        training.step, training.losses = int(facts["step"]), tensors["losses"].tolist()
        return training
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} does not hold this training ({type(error).__name__}).") from None


def _part(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


class Keeper:
    """Writes a checkpoint when the last one is old enough, and at the end."""

    def __init__(self, path: Path, digest: str, every: float = EVERY_SECONDS) -> None:
        self._path, self._digest, self._every, self._last = path, digest, every, time.monotonic()

    def __call__(self, training: TrainingState, now: bool = False) -> None:
        """Called during training; with `now` a checkpoint is written in any case."""
        if now or training.step == training.rules.steps or time.monotonic() - self._last >= self._every:
            save(training, self._path, release=self._digest)
            self._last = time.monotonic()
