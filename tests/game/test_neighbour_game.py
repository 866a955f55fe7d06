"""The neighbour game is played with every kind of job, and each kind of fault that it is for is planted and found."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from neighbour_game import Job, play
from played_jobs import FAST, FRAMES, MORE_FRAMES, SLOW, SUMMARIES, of_dask, of_server

from dask_cluster import Cluster
from privot.mechanisms.summaries import count, mean
from privot.mechanisms.table_counts import marginals
from privot.noise import SystemNoise, noisy_counts
from privot.noise.kept_noise import KeptNoise
from privot.noise.noise_source import KeyedNoise
from privot.partitions.engines.dask_engine import DaskEngine
from privot.partitions.partition_tasks import Added
from privot.release import Release
from privot.vault import Vault

COUNT, MEAN, HISTOGRAM, _ = SUMMARIES


def holds(job: Job, folder: Path, least: float = 0.0) -> None:
    """The attacker loses; records that are the worst there are move at least `least` of the claim."""
    result = play(job, folder)
    assert result.held, result.line()
    assert result.measured >= least * result.claimed


@pytest.mark.slow
@pytest.mark.parametrize("job", FAST, ids=lambda job: job.name)
def test_neighbours_cannot_be_told_apart_by_more_than_was_charged(job: Job, tmp_path: Path) -> None:
    holds(job, tmp_path, 0.7)


@pytest.mark.slow
@pytest.mark.parametrize("job", [*SLOW, *MORE_FRAMES], ids=lambda job: job.name)
def test_neighbours_of_longer_jobs_cannot_either(job: Job, tmp_path: Path) -> None:
    needed(job)
    holds(job, tmp_path)


@pytest.mark.parametrize("job", FRAMES, ids=lambda job: job.name)
def test_neighbouring_frames_cannot_be_told_apart_by_any_dtype(job: Job, tmp_path: Path) -> None:
    needed(job)
    holds(job, tmp_path, 0.7)


@pytest.mark.slow
def test_neighbours_on_a_server_cannot_either(postgresql: str, tmp_path: Path) -> None:
    holds(of_server(postgresql), tmp_path, 0.7)


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1], ids=["records", "units"])
def test_neighbours_on_a_cluster_cannot_either(cluster: Cluster, place: int, tmp_path: Path) -> None:
    cluster.have(2)
    holds(of_dask(cluster.address)[place], tmp_path, 0.7)


def needed(job: Job) -> None:
    """Skip where a library is missing."""
    for name in ("pandas", "Polars"):
        if name in job.name:
            pytest.importorskip(name.lower())


# --- planted faults: each is seen, and called by its name


def lost(job: Job, folder: Path, words: str) -> None:
    """The attacker wins, by what is said in `words`."""
    result = play(job, folder)
    assert not result.held
    assert words in result.line(), result.line()


def test_an_understated_sensitivity_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = count.Count._count
    monkeypatch.setattr(count.Count, "_count", lambda self, records: 3 * counted(self, records))
    result = play(COUNT, tmp_path)
    assert not result.held
    assert result.measured == pytest.approx(3 * result.claimed, rel=1e-6)


def test_noise_that_is_too_weak_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def weak(counts: Any, noise: Any, sigma: float) -> Any:
        return noisy_counts.add_noise_to_counts(counts, noise, sigma / 2)

    monkeypatch.setattr(count, "add_noise_to_counts", weak)
    result = play(COUNT, tmp_path)
    assert result.measured == pytest.approx(2 * result.claimed, rel=1e-6)


def test_noise_that_is_used_again_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for noise in (SystemNoise, KeptNoise):
        monkeypatch.setattr(noise, "_key", lambda self: bytes(32))
    lost(MEAN, tmp_path, "uses noise of an earlier one again")


def test_one_draw_for_several_numbers_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_draw(counts: Any, noise: Any, sigma: float) -> Any:
        class Same:
            def normal(self, shape: Any, sigma: float) -> Any:
                return np.broadcast_to(noise.normal(1, sigma), shape)

        return noisy_counts.add_noise_to_counts(counts, Same(), sigma)  # type: ignore[arg-type]

    monkeypatch.setattr(marginals, "add_noise_to_counts", one_draw)
    lost(HISTOGRAM, tmp_path, "without noise of their own")


def test_a_number_without_noise_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count, "add_noise_to_counts", lambda counts, noise, sigma: counts.astype(float))
    lost(COUNT, tmp_path, "no noise was added at all")


def test_noise_that_is_added_elsewhere_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(counts: Any, noise: Any, sigma: float) -> Any:
        return counts + noise.normal(counts.shape, sigma)

    monkeypatch.setattr(mean, "add_noise_to_counts", plain)
    lost(MEAN, tmp_path, "added where the game does not see it")


def test_a_question_that_only_one_neighbour_is_asked_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(counts: Any, noise: Any, sigma: float) -> Any:
        if counts[0] > 60:
            noisy_counts.add_noise_to_counts(counts, noise, sigma)
        return noisy_counts.add_noise_to_counts(counts, noise, sigma)

    monkeypatch.setattr(count, "add_noise_to_counts", twice)
    lost(COUNT, tmp_path, "times for one neighbour")


def warned(records: int) -> None:
    warnings.warn(f"{records} records", stacklevel=1)


def refused(records: int) -> None:
    if records > 60:
        raise ValueError("too many")


@pytest.mark.parametrize(
    ("say", "where"),
    [
        (lambda records: print(f"{records} records"), "standard output"),
        (lambda records: print(f"{records} records", file=sys.stderr), "standard error"),
        (lambda records: logging.getLogger("privot").warning("%d records", records), "log"),
        (warned, "warnings"),
        (lambda records: Path("count.txt").write_text("." * records), "61 and 60 bytes"),
        (refused, "answer"),
        (lambda records: Path("more.txt").touch() if records > 60 else None, "for one neighbour only"),
    ],
    ids=["output", "error", "log", "warning", "size of a file", "refusal", "a file more"],
)
def test_a_count_that_is_told_is_seen(
    say: Callable[[int], Any], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = count.Count._count

    def told(self: Any, records: Any) -> int:
        number = counted(self, records)
        say(number)
        return number

    monkeypatch.setattr(count.Count, "_count", told)
    lost(COUNT, tmp_path, where)


def test_a_dtype_that_follows_from_a_value_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Vault.__init__
    seen: list[int] = []

    def looked(self: Any, x: Any, *more: Any, **how: Any) -> None:
        seen.append(len(x))
        opened(self, x, *more, **how)

    saved = Release.save

    def narrow(self: Any, path: Any) -> None:
        held = np.int64 if seen[-1] > 60 else np.int32
        np.savez("kind.npz", kind=np.zeros(2, dtype=held))
        saved(self, path)

    monkeypatch.setattr(Vault, "__init__", looked)
    monkeypatch.setattr(Release, "save", narrow)
    lost(COUNT, tmp_path, "kind.npy")


@pytest.mark.slow
def test_a_record_that_a_cluster_counts_twice_is_measured(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker adds the record in which neighbours differ, which has a partition of its own, a second time."""
    asked = DaskEngine.map

    def twice(self: Any, task: Any, partitions: Any) -> Any:
        for place, found in asked(self, task, partitions):
            alone = isinstance(found, Added) and found.seen.count == 1
            yield place, replace(found, totals=tuple(2 * total for total in found.totals)) if alone else found

    cluster.have(2)
    monkeypatch.setattr(DaskEngine, "map", twice)
    result = play(of_dask(cluster.address)[0], tmp_path)
    assert not result.held
    assert result.measured >= 1.4 * result.claimed


def test_a_game_of_equal_neighbours_is_no_game(tmp_path: Path) -> None:
    same = replace(COUNT, lay=lambda folder, second: COUNT.lay(folder, False))
    lost(same, tmp_path, "played on equal records")


def test_what_the_game_replaces_is_put_back(tmp_path: Path) -> None:
    before = KeyedNoise.normal, count.add_noise_to_counts
    play(COUNT, tmp_path)
    assert (KeyedNoise.normal, count.add_noise_to_counts) == before
