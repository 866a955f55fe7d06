"""Keeps a training on disk so that it goes on after a kill as if nothing had happened; no pickle, no record.

What is kept: weights, the optimiser's moments, the state of the random numbers, the step and the losses. The paid
release lies beside it in a file of its own (`privot.synthesis.job`); its digest is kept too, and a checkpoint of a
training on another release is refused: what it learned would leave under a guarantee that does not count it.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from privot.errors import DataError
from privot.synthesis.embedding import Training
from privot.synthesis.files import read_tensors, write_tensors
from privot.synthesis.rules import Rules

NAME = "checkpoint.safetensors"
EVERY_SECONDS = 60.0


def save(training: Training, path: Path, digest: str) -> None:
    """Write everything, whole or not at all; `digest` is `Release.digest` of what it is trained on."""
    tensors = {f"generator.{name}": t for name, t in training.generator.state_dict().items()}
    for number, state in training.optimizer.state_dict()["state"].items():
        tensors.update({f"optimizer.{number}.{name}": torch.as_tensor(t) for name, t in state.items()})
    tensors["random"] = training.random.get_state()
    tensors["losses"] = torch.tensor(training.losses, dtype=torch.float64)
    facts = {"step": training.step, "rules": training.rules.to_dict(), "release": digest}
    write_tensors(path, tensors, facts)


def load(path: Path, rules: Rules, device: str, digest: str) -> Training:
    """Read what `save` wrote, for the same rules and the same release."""
    tensors, facts = read_tensors(path)
    training = Training.start(rules, 0, device)
    try:
        if facts["rules"] != rules.to_dict():
            raise DataError(f"{path} belongs to another training: its rules differ.")
        if facts["release"] != digest:
            raise DataError(f"{path} was trained on another release than the one beside it: remove it.")
        weights = {n.removeprefix("generator."): t for n, t in tensors.items() if n.startswith("generator.")}
        training.generator.load_state_dict(weights)
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, number, part = name.split(".")
                state.setdefault(int(number), {})[part] = tensor
        groups = training.optimizer.state_dict()["param_groups"]
        training.optimizer.load_state_dict({"state": state, "param_groups": groups})
        if tensors["random"].shape == training.random.get_state().shape:
            training.random.set_state(tensors["random"])
        training.step, training.losses = int(facts["step"]), tensors["losses"].tolist()
        return training
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} does not hold this training ({type(error).__name__}).") from None


class Keeper:
    """Writes a checkpoint when the last one is old enough, and at the end."""

    def __init__(self, path: Path, digest: str, every: float = EVERY_SECONDS) -> None:
        self._path, self._digest, self._every, self._last = path, digest, every, time.monotonic()

    def __call__(self, training: Training) -> None:
        """Called during training."""
        if training.step == training.rules.steps or time.monotonic() - self._last >= self._every:
            save(training, self._path, self._digest)
            self._last = time.monotonic()
