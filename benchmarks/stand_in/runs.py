"""The runs: which there are, one of them, and many at a time; every result is a line of JSON as soon as it is there."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import adult_split
import numpy as np
import pairs

PRIVATE = ("stand-in", "embedding", "sliced")
OPEN = ("source", "real", "labels")
"""Without a release: the source alone, the same adaptation on the real target, and the target's own labels."""
DELTAS = {"office": 1e-3}
"""δ by the first word of a pair's name; 1e-5 elsewhere. Domains of Office-Caltech have 157 to 1,123 records."""


@dataclass(frozen=True)
class Run:
    """One line of results, before it is there."""

    pair: str
    method: str
    epsilon: float | None
    seed: int

    @property
    def delta(self) -> float:
        return DELTAS.get(self.pair.split("-")[0], 1e-5)


def wanted(names: Iterable[str], methods: Iterable[str], epsilons: Iterable[float], seeds: Iterable[int]) -> list[Run]:
    """All runs, the most telling first: the stand-in at ε = 1, then what it is compared with, then other ε.

    Today's methods run at ε = 1 only, so a list without 1 leaves them out.
    """
    found = []
    for seed in seeds:
        for place, pair in enumerate(names):
            for method in methods:
                terms: list[float | None] = list(epsilons) if method in PRIVATE else [None]
                for epsilon in terms:
                    if method in PRIVATE[1:] and epsilon != 1.0:
                        continue
                    if pair.startswith("office") and method not in ("source", "stand-in"):
                        continue
                    tier = 2 * (pair.startswith("office")) + (epsilon not in (None, 1.0))
                    found.append((tier, seed, method != "stand-in", place, Run(pair, method, epsilon, seed)))
    return [run for *_, run in sorted(found, key=lambda entry: entry[:4])]


def one(run: Run, folder: Path, device: str, change: dict[str, Any], rows: int | None = None) -> dict[str, Any]:
    """One run; `change` replaces settings, and `rows` cuts every part of the data, for trying."""
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    if run.pair.startswith("adult"):
        found = adult_split.one(folder, run.pair, run.method, run.epsilon, run.seed, device, change)
    else:
        found = _arrays(run, folder, device, change, rows)
    now = resource.getrusage(resource.RUSAGE_SELF)
    spent = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return {
        **asdict(run), "delta": run.delta, **found, "seconds": round(time.perf_counter() - began, 1),
        "processor_seconds": round(spent, 1), "device": device,
        "changed": {**change, **({"rows": rows} if rows else {})},
    }  # fmt: skip


@cache
def _pair(folder: Path, name: str, seed: int) -> pairs.Pair:
    return pairs.pair(folder, name, seed)


def _arrays(run: Run, folder: Path, device: str, change: dict[str, Any], rows: int | None) -> dict[str, Any]:
    from privot.adaptation import DomainAdapter, choose
    from privot.vault import Vault

    # only MNIST as the target of fonts, and halves of features, depend on the seed
    drawn = run.pair == "fonts-mnist" or run.pair.startswith("office")
    data = _pair(folder, run.pair, run.seed if drawn else 0).cut(rows)
    image, cuda = data.shape is not None, device == "cuda"
    base = {"labels": "source", "real": "stand-in"}.get(run.method, run.method)
    # the same network everywhere but for the older methods, which keep theirs where images are large enough for it
    small = data.shape is not None and min(data.shape) < 14
    network = "images" if image and (base == "source" or small) else None
    settings = choose(base, image, len(data.target), network, cuda)
    settings = replace(settings, **change)
    public = (data.target, data.target_labels) if run.method == "labels" else (data.source, data.source_labels)
    # the real target is looked at with next to no noise: a baseline without privacy
    epsilon = 1000.0 if run.method == "real" else run.epsilon or 1.0
    vault = Vault(data.target.astype(np.float64), clip=1.0, adjacency="replace-one", budget=(epsilon, run.delta))
    made = DomainAdapter(epsilon, run.delta, shape=data.shape, settings=settings, device=device, seed=run.seed)
    if run.method == "real":
        made = _on_real_records(made, vault, public, data.target, device)
    else:
        made.fit(vault, public)
    private = run.method in PRIVATE and made.guarantee_ is not None
    return {
        "score": 100.0 * made.score(data.test, data.test_labels), "measure": "accuracy",
        "source_records": len(public[0]), "target_records": len(data.target), "test_records": len(data.test),
        "charged": made.guarantee_.epsilon() if private else None,
        "standing": str(made.guarantee_.standing) if private else None,
        "checks": None if made.checks_ is None else made.checks_.to_dict(), "settings": settings.to_dict(),
    }  # fmt: skip


class _Records:
    """Real records where a generator is expected."""

    losses: tuple[float, ...] = ()

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def sample(self, n: int, seed: int | None = None) -> tuple[np.ndarray, None]:
        return self.rows, None


def _on_real_records(made: Any, vault: Any, public: Any, rows: np.ndarray, device: str) -> Any:
    """The same adaptation with the real records in place of the stand-in."""
    from privot.adaptation.paid_training import PaidTraining
    from privot.adaptation.stand_in.stand_in_learner import StandInLearner

    class Real(StandInLearner):
        def _train_generator(self, release: Any, progress: Any) -> None:
            self.generator = _Records(rows)  # type: ignore[assignment]

        def rehearse(self, mechanism: Any) -> None:
            pass

    design = made.design(vault.facts, public)
    learner = Real(design, *public, device)
    return made._finished(PaidTraining(learner, lambda: vault), None)


def done(folder: Path) -> list[dict[str, Any]]:
    """All results in the folder that did not fail."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    found = []
    for line in lines:
        try:
            held = json.loads(line)
        except ValueError:  # a line that a kill cut off
            continue
        if "error" not in held:
            found.append(held)
    return found


def run_all(
    runs: list[Run], folder: Path, out: Path, *, jobs: int, limit: float, device: str, change: dict[str, Any],
    rows: int | None,
) -> None:  # fmt: skip
    """Runs that `out` does not hold yet, `jobs` at a time in as many processes, for at most `limit` seconds."""
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + limit
    held = {(r["pair"], r["method"], r["epsilon"], r["seed"]) for r in done(out)}
    left = [run for run in runs if (run.pair, run.method, run.epsilon, run.seed) not in held]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    for run in left:
        queue.put(run)
    for _ in range(jobs):
        queue.put(None)
    told = (queue, folder, out / f"results-{os.getpid()}.jsonl", device, change, rows)
    workers = [context.Process(target=_work, args=told, daemon=True) for _ in range(min(jobs, len(left)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0.0, end - time.monotonic()))
    for worker in workers:
        worker.kill()
        worker.join()
    print(f"{len(done(out))} results, {len(runs)} wanted.", flush=True)


def _work(queue: Any, folder: Path, path: Path, device: str, change: dict[str, Any], rows: int | None) -> None:
    import torch

    if device == "cuda":
        torch.set_num_threads(2)
    while (run := queue.get()) is not None:
        try:
            found = one(run, folder, device, change, rows)
        except Exception as error:  # one run that fails must not stop the others
            found = {**asdict(run), "error": f"{type(error).__name__}: {error}"}
        line = (json.dumps(found) + "\n").encode()
        # one write at the end of the file: several processes share it
        with path.open("ab", buffering=0) as file:
            file.write(line)
        print(found.get("error") or f"{run} {found['score']:.2f} {found['seconds']} s", flush=True)
        if device == "cuda":
            torch.cuda.empty_cache()
