"""Implementation audits: each passes our code and fails a version with its fault."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken import Repeating

from privot.accounting.sampling import Poisson
from privot.audit import audit
from privot.audit.attacks.dp_sgd_attack import RowGradients
from privot.audit.findings import Check, Finding, broken
from privot.audit.implementation.code_audit import audit_implementation
from privot.audit.implementation.disk_leftovers import checkpoint_reveals_no_record, holds, ledger_reveals_no_record
from privot.audit.implementation.error_messages import MARKER, _check_output, errors_reveal_no_record
from privot.audit.implementation.floating_point import (
    FloatAttack,
    on_grid,
    plain_sum,
    trailing_zeros,
)
from privot.audit.implementation.key_reuse import draws_are_uncorrelated, no_key_twice
from privot.audit.implementation.release_shapes import same_outline
from privot.audit.simulation.neighbours import Neighbour
from privot.audit.targets.transcript import audit_transcript
from privot.errors import DataError
from privot.guarantee import Adjacency
from privot.jobs.tensor_files import write_tensors
from privot.mechanisms import ClippedGradients, RandomProjection
from privot.mechanisms.gradients.gradient_function import Query
from privot.noise import SeededNoise, SystemNoise
from privot.noise.adding import add_noise
from privot.release import Release
from privot.vault import Vault

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")


def test_trailing_zeros_are_those_of_the_significand() -> None:
    values = np.array([0.0, 1.0, 1.5, 1.0 + 2.0**-52, 3.0 * 2.0**-60, -0.75])
    assert trailing_zeros(values).tolist() == [53, 52, 51, 0, 51, 51]


def test_a_plain_sum_reveals_its_value_and_ours_does_not() -> None:
    naive = audit(FloatAttack(plain_sum), runs=200_000, trials=0)
    assert naive.refuted
    assert naive.epsilon() > 1.5 * naive.claim.epsilon()
    ours = audit(FloatAttack(), runs=200_000, trials=0)
    assert not ours.refuted


@pytest.mark.parametrize("sigma", [1e-3, 0.7, 12.0])
def test_the_grid_hides_the_value_for_any_noise(sigma: float) -> None:
    assert not audit(FloatAttack(sigma=sigma), runs=50_000, trials=0).refuted


def test_releases_lie_on_the_grid_and_plain_sums_do_not() -> None:
    vault = Vault(np.eye(4), clip=0.5, adjacency="replace-one", budget=(100.0, 1e-5))
    release = vault.release(RandomProjection(3, 0.9), purpose="test")
    assert on_grid(release, 0.9).passed
    assert isinstance(release.value, np.ndarray)
    naive = Release(plain_sum(np.zeros(20), SystemNoise(), 0.9), release.guarantee, {})
    assert not on_grid(naive, 0.9).passed


def test_reused_keys_are_found() -> None:
    assert no_key_twice(SystemNoise()).passed
    assert draws_are_uncorrelated(SystemNoise()).passed
    assert no_key_twice(SeededNoise(3)).passed  # repeatable, but no key twice
    assert not no_key_twice(Repeating()).passed  # type: ignore[arg-type]
    assert not draws_are_uncorrelated(Repeating()).passed  # type: ignore[arg-type]


class Counting(ClippedGradients):
    """Says how many records took part."""

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        value, public = super().run(records, noise, event, step)
        return value, {**public, "batch": len(event.sampling.draw(noise, records.count))}


class Stumbling(ClippedGradients):
    """Fails on an empty sample."""

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        if not len(event.sampling.draw(noise, records.count)):
            raise ValueError("empty")
        return super().run(records, noise, event, step)


class Short(ClippedGradients):
    """One number for each record that took part."""

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        count = len(event.sampling.draw(noise, records.count))
        return add_noise(np.zeros(count), noise, 1.0), {}


@pytest.mark.parametrize(("kind", "passes"), [
    (ClippedGradients, True), (Counting, False), (Stumbling, False), (Short, False),
])  # fmt: skip
def test_an_empty_sample_must_not_show(kind: Any, passes: bool) -> None:
    mechanism = kind(RowGradients(2), Query(np.zeros(2)), 1.0, 1.0, Poisson(0.2))
    neighbours = [Neighbour(np.zeros((n, 2)), np.zeros(n, dtype=np.int64), 1) for n in (3, 4)]
    check = same_outline(
        "it", mechanism, *neighbours, clip=1.0, adjacency=Adjacency.ADD_REMOVE, noise=SystemNoise(), steps=30
    )
    assert check.passed is passes


def test_no_output_shows_a_record() -> None:
    checks = errors_reveal_no_record()
    assert len(checks) >= 12
    assert all(c.passed for c in checks), [c for c in checks if not c.passed]


def test_code_that_prints_records_is_found() -> None:
    def quote() -> None:
        raise ValueError(f"bad value {MARKER}")

    def log() -> None:
        logging.getLogger("privot").debug("record %s", MARKER)

    def chained() -> None:
        try:
            raise KeyError(MARKER)
        except KeyError:
            raise RuntimeError("something failed") from None

    for talk in (quote, log, chained, lambda: print(MARKER)):
        assert not _check_output("it", talk).passed
    assert _check_output("it", lambda: print("nothing")).passed


def test_files_are_searched_for_numbers_in_every_form(tmp_path: Path) -> None:
    for kind in ("<f8", ">f8", "<f4"):
        np.array([1.0, MARKER], dtype=kind).tofile(tmp_path / "x")
        assert holds(tmp_path / "x", [MARKER])
    (tmp_path / "x").write_text(f"value: {MARKER}")
    assert holds(tmp_path / "x", [MARKER])
    (tmp_path / "x").write_text("value: none")
    assert not holds(tmp_path / "x", [MARKER])
    assert all(c.passed for c in ledger_reveals_no_record())


def test_a_checkpoint_with_something_else_in_it_is_found(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    good = {"generator.a": torch.zeros(2), "random": torch.zeros(2), "losses": torch.zeros(2)}
    write_tensors(path, good, {"step": 1, "rules": {}, "release": "0"})
    assert checkpoint_reveals_no_record(path).passed
    write_tensors(path, {**good, "batch": torch.zeros(2)}, {"step": 1, "rules": {}, "release": "0"})
    assert not checkpoint_reveals_no_record(path).passed


def test_all_audits_pass_on_our_code_and_state_what_was_done() -> None:
    found = audit_implementation(trials=40_000, pairs=0)  # a unit test has no clock to trust
    assert broken(found) == []
    assert sum(isinstance(f, Finding) for f in found) == 2
    assert all(f.detail for f in found if isinstance(f, Check))


def test_all_audits_find_noise_that_repeats() -> None:
    assert "no key serves twice" in broken([no_key_twice(Repeating())])  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", [np.inf, np.nan, 1e200])
def test_messages_whose_distances_overflow_are_refused(odd: float) -> None:
    points = np.random.default_rng(0).standard_normal((5, 2))
    bad = points.copy()
    bad[3, 1] = odd
    for message, towards in ((bad, points), (points, bad)):
        with pytest.raises(DataError, match="must be finite"):
            audit_transcript(message, towards, 0.3)
