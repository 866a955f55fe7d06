"""What leaves the vault is a constant to whoever trains: no gradient depends on a record once the release is fixed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from privot.adaptation import Sliced
from privot.adaptation.adaptation_methods.sliced_alignment import SlicedLearner
from privot.adaptation.adapter import DomainAdapter
from privot.adaptation.networks import FrozenRepresentation, build, weights_of
from privot.errors import UsageError
from privot.mechanisms.directions import directions_of
from privot.mechanisms.representation import ProjectedRepresentation, RepresentationQuery
from privot.noise import SeededNoise
from privot.vault import Vault

SETTINGS = Sliced(batch=16, warmup=3, blocks=2, releases_per_block=1, steps=2, finish=0, slices=8, augment=False)


def toy(records: int, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(records) % 2
    x = 0.25 + 0.4 * y[:, None] + shift + 0.05 * np.random.default_rng(seed).standard_normal((records, 2))
    return np.clip(x, 0.0, 1.0), y


def learner(records: np.ndarray) -> tuple[SlicedLearner, Vault]:
    vault = Vault(records, clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5), noise=SeededNoise(7))
    adapter = DomainAdapter(5.0, 1e-5, method=SETTINGS, device="cpu", seed=3)
    design = adapter.design(vault.facts, toy(40))
    return SlicedLearner(design, *toy(40), "cpu"), vault


def gradients(made: SlicedLearner, release: object) -> list[torch.Tensor]:
    """What one step on `release` leaves in the gradients of every parameter."""
    made.step = SETTINGS.warmup + 3  # λ > 0
    made.settings = replace(made.settings, steps=1)
    made.learn(release)  # type: ignore[arg-type]
    return [p.grad.clone() for p in made.networks.parameters() if p.grad is not None]


def test_with_the_release_fixed_no_gradient_depends_on_a_record() -> None:
    records, _ = toy(60, 0.1, seed=1)
    other = records.copy()
    other[0] = [0.99, 0.01]
    one, vault = learner(records)
    stream = vault.stream(one.mechanism(), purpose="a test", allow_unproven=True)
    release = stream.answer(RepresentationQuery(weights_of(one.networks.g)))
    # nothing that leaves can be differentiated
    assert isinstance(release.value, np.ndarray)
    two, _ = learner(other)
    held = gradients(one, release)
    for a, b in zip(held, gradients(two, release), strict=True):
        torch.testing.assert_close(a, b, rtol=0.0, atol=0.0)
    # the test can fail: another release moves the gradients
    three, second = learner(other)
    moved = second.stream(three.mechanism(), purpose="a test", allow_unproven=True)
    changed = gradients(three, moved.answer(RepresentationQuery(weights_of(three.networks.g))))
    assert any(not torch.equal(a, b) for a, b in zip(held, changed, strict=True))


def test_only_its_own_row_of_a_release_depends_on_a_record_and_no_more_than_the_bound() -> None:
    networks = build({"kind": "features", "columns": 2, "shape": None, "classes": 2, "low": 0.0, "high": 1.0}, 1)
    mechanism = ProjectedRepresentation(FrozenRepresentation(networks, "cpu"), 50, 1e-6, clip=0.5, steps=1)
    records, _ = toy(30)
    other = records.copy()
    other[4] = [1.0, 0.0]
    rows = []
    for held in (records, other):
        vault = Vault(held, clip=1.0, adjacency="replace-one", budget=(1e13, 1e-5), noise=SeededNoise(1))
        stream = vault.stream(mechanism, purpose="a test", allow_unproven=True)
        large = {n: 50.0 * t for n, t in weights_of(networks.g).items()}
        answer = stream.answer(RepresentationQuery(large))
        # 50 directions span the 50 dimensions: rows come back, whatever frame was drawn
        rows.append(np.asarray(answer.value) @ directions_of(answer.public).T)
    gap = np.linalg.norm(rows[0] - rows[1], axis=1)
    assert gap[4] <= 1.0 + 1e-4
    assert np.delete(gap, 4).max() < 1e-3
    assert np.linalg.norm(rows[0], axis=1).max() <= 0.5 + 1e-4


class Mixing(nn.Module):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows - rows.mean(dim=0)


def mixing_networks(columns: int, shape: object, classes: int) -> tuple[nn.Module, nn.Module]:
    return nn.Sequential(nn.Linear(columns, 3), Mixing()), nn.Linear(3, classes)


def test_a_network_that_mixes_records_is_refused_before_a_step_is_used_up() -> None:
    config = {"columns": 2, "shape": None, "classes": 2, "low": 0.0, "high": 1.0}
    networks = build({"kind": f"{__name__}:mixing_networks", **config}, 1)
    mechanism = ProjectedRepresentation(FrozenRepresentation(networks, "cpu"), 3, 1.0)
    vault = Vault(toy(30)[0], clip=1.0, adjacency="replace-one", budget=(50.0, 1e-5))
    stream = vault.stream(mechanism, purpose="a test")
    with pytest.raises(UsageError, match="other rows stand beside it"):
        stream.answer(RepresentationQuery(weights_of(networks.g)))
    with pytest.raises(UsageError, match="RepresentationQuery"):
        stream.answer({"weights": {}})


class Running(nn.Module):
    """Rows taken for a sequence, as a recurrent layer takes a matrix: each depends on those before it."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.cumsum(dim=0)


class Remembering(nn.Module):
    """Keeps the last row it saw in a buffer, for the next time."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3))
        self.last: torch.Tensor

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out = rows + 0.1 * self.last
        self.last.copy_(rows[-1])
        return out


class Noting(nn.Module):
    """The same in a plain attribute, which is no weight."""

    last = 0.0

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out = rows + 0.1 * self.last
        self.last = float(rows[-1].sum())
        return out


def leaky_networks(columns: int, shape: object, classes: int, layer: type[nn.Module]) -> tuple[nn.Module, nn.Module]:
    return nn.Sequential(nn.Linear(columns, 3), layer()), nn.Linear(3, classes)


running_networks = partial(leaky_networks, layer=Running)
remembering_networks = partial(leaky_networks, layer=Remembering)
noting_networks = partial(leaky_networks, layer=Noting)


@pytest.mark.parametrize("kind", ["mixing", "running", "remembering", "noting"])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (20_000.0, 200_000.0), (-3e6, -2e6), (0.0, 1e-4)])
def test_rows_that_reach_others_are_found_in_any_range_order_and_memory(kind: str, ends: tuple[float, float]) -> None:
    config = {"columns": 2, "shape": None, "classes": 2, "low": ends[0], "high": ends[1]}
    networks = build({"kind": f"{__name__}:{kind}_networks", **config}, 1)
    mechanism = ProjectedRepresentation(FrozenRepresentation(networks, "cpu"), 3, 1.0)
    with pytest.raises(UsageError, match="other rows"):
        mechanism.check(RepresentationQuery(weights_of(networks.g)))
    # what treats rows one by one passes
    sound = build({"kind": "features", **config}, 1)
    ProjectedRepresentation(FrozenRepresentation(sound, "cpu"), 3, 1.0).check(RepresentationQuery(weights_of(sound.g)))


@pytest.mark.filterwarnings("error")
def test_a_record_beyond_single_precision_is_not_told_by_a_warning() -> None:
    networks = build({"kind": "features", "columns": 2, "shape": None, "classes": 2, "low": 0.0, "high": 1.0}, 1)
    records = toy(30)[0]
    records[3] = [1e300, -1e300]
    vault = Vault(records, clip=1.0, adjacency="replace-one", budget=(1e4, 1e-5))
    stream = vault.stream(ProjectedRepresentation(FrozenRepresentation(networks, "cpu"), 3, 1.0), purpose="a test")
    stream.answer(RepresentationQuery(weights_of(networks.g)))
