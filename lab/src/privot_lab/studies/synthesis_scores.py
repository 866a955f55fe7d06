"""Trains the product's own synthesis on open images, and scores classifiers that learned from its samples."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from privot.kinds import Images
from privot.synthesis.methods import asked_of
from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun

DELTA = 1e-5
AdjacencyName = Literal["replace-one", "add-remove"]


def synthesis_scores(
    run: StudyRun,
    data: str,
    method: str,
    epsilon: float,
    seed: int,
    *,
    options: Mapping[str, Any] | None = None,
    records: int = 0,
    samples: int = 60_000,
    classifiers: Sequence[str] = ("logreg", "mlp", "cnn"),
    allow_unproven: bool = False,
    adjacency: AdjacencyName = "replace-one",
    with_fid: bool = False,
    bound: float = 1.0,
    stated: bool = False,
) -> dict[str, Any]:
    """Accuracy on real test images by classifier, and what was released: ε at δ = 1e-5, the standing, seconds of it.

    `records` shortens the data (0: all); `samples` are drawn with the classes' equal shares. `with_fid` adds the FID
    against the training images where its network is at hand. `bound` is that on a row's norm, in units of the longest
    row that there can be; longer rows are shortened. `stated`: the rules are told the number of
    records, which add-remove keeps private and everybody knows of an open set.
    """
    from privot.evaluation import score
    from privot.synthesis import Synthesizer
    from privot.vault import Vault

    (x, y, shape), (test, labels, _) = images(run, data, "train"), images(run, data, "test")
    if records:
        x, y = x[:records], y[:records]
    # rows in [0, 1]: no row is longer than the square root of its pixels
    clip = bound * float(np.sqrt(x.shape[1]))
    # held in memory: one synthesis is paid for, and the data are open
    vault = Vault(x, y, classes=10, clip=clip, adjacency=adjacency, budget=(epsilon, DELTA))
    began = time.perf_counter()
    made = Synthesizer(
        epsilon,
        DELTA,
        records=len(x) if stated else None,
        device=run.device,
        seed=seed,
        allow_unproven=allow_unproven,
        kind=Images(shape),
        method=asked_of(method, options=dict(options or {}) or None),
    ).fit(vault)
    seconds = time.perf_counter() - began
    assert made.guarantee_ is not None
    drawn, marks = made.sample(samples, seed=seed)
    assert marks is not None
    found = {
        name: score(name, drawn, marks, test, labels, shape=shape, device=run.device, seed=seed) for name in classifiers
    }
    return {
        **found,
        **(fid_beside(run, data, len(x), drawn) if with_fid else {}),
        "epsilon": float(made.guarantee_.epsilon()),
        "standing": str(made.guarantee_.standing),
        "seconds": round(seconds, 1),
    }


def fid_beside(run: StudyRun, data: str, records: int, drawn: Any) -> dict[str, float]:
    """{"fid": …} of samples against the first `records` training images; {} where the network of FID is not at hand."""
    network = run.network()
    if network is None:
        return {}
    from privot.evaluation.frechet import feature_moments, frechet_distance

    x, _, shape = images(run, data, "train")
    of = (data, records, run.device)
    if of not in _REAL_MOMENTS:
        _REAL_MOMENTS.clear()
        _REAL_MOMENTS[of] = feature_moments(x[:records], shape, network, device=run.device)
    (mean, cov), (own_mean, own_cov) = _REAL_MOMENTS[of], feature_moments(drawn, shape, network, device=run.device)
    return {"fid": frechet_distance(mean, cov, own_mean, own_cov)}


_REAL_MOMENTS: dict[tuple[str, int, str], tuple[Any, Any]] = {}
"""Of the last set of real images: the samples of all methods and seeds are compared with it."""


def fid_words(found: Sequence[Mapping[str, Any]]) -> str:
    """FIDs of the seeds, as a verdict states them: "FID 8.1, 6.5", or that they were left out."""
    held = [each["fid"] for each in found if each.get("fid") is not None]
    return "FID " + ", ".join(f"{value:.1f}" for value in held) if held else "FID left out: no network for it was given"


def fid_after(found: Sequence[Mapping[str, Any]]) -> str:
    """FIDs to stand behind accuracies, after a comma; nothing where they were not computed."""
    return f", {fid_words(found)}" if any("fid" in each for each in found) else ""


def open_scores(
    run: StudyRun,
    data: str,
    method: str,
    seed: int,
    *,
    steps: int,
    samples: int,
    classifiers: Sequence[str],
    mixture: float = 0.0,
    with_fid: bool = False,
) -> dict[str, Any]:
    """The same for a generator trained without privacy, which the data being open allows; it protects nothing.

    `mixture` is the weight of the L1 cost of "sinkhorn".
    """
    from privot.evaluation import score
    from privot.synthesis.open_generators import train_generator_openly

    (x, y, shape), (test, labels, _) = images(run, data, "train"), images(run, data, "test")
    made = train_generator_openly(
        x, y, method=method, classes=10, shape=shape, steps=steps, mixture=mixture, device=run.device, seed=seed
    )
    drawn, marks = made.sample(samples, seed=seed)
    assert marks is not None
    found = {
        name: score(name, drawn, marks, test, labels, shape=shape, device=run.device, seed=seed) for name in classifiers
    }
    return {**found, **(fid_beside(run, data, len(x), drawn) if with_fid else {})}


def open_rows(
    run: StudyRun,
    sets: Sequence[str],
    method: str,
    seeds: int,
    *,
    steps: int,
    samples: int,
    classifiers: Sequence[str],
    mixture: float = 0.0,
    with_fid: bool = False,
) -> dict[str, list[dict[str, Any]]]:
    """`open_scores` by data set and seed, each kept as a part of the run."""
    cost = f", m = {mixture:g}" if mixture else ""
    return {
        data: [
            run.part(
                f"{data}, without privacy{cost}, seed {seed}",
                partial(
                    open_scores, run, data, method, run.seed + seed, steps=steps, samples=samples,
                    classifiers=classifiers, mixture=mixture, with_fid=with_fid,
                ),
            )
            for seed in range(seeds)
        ]
        for data in sets
    }  # fmt: skip


def open_finding(
    data: str, method: str, found: Sequence[Mapping[str, Any]], printed: Mapping[str, float], short_run: str
) -> StudyFinding:
    """What a generator without privacy reaches beside the printed row of it."""
    names = [name for name in found[0] if name != "fid" and (not printed or name in printed)]
    missing = max((printed[name] - mean_of(found, name) for name in names if name in printed), default=0.0)
    return StudyFinding(
        f"{data}: the generator without privacy ({method}), within three points",
        f"{' / '.join(names)} {listed(found, names)}{fid_after(found)}; open data, nothing is protected",
        bool(printed) and missing <= 3.0 and not short_run,
        published=" / ".join(f"{printed[name]:g}" for name in names if name in printed),
        why=short_run or f"{missing:.1f} points are missing",
    )


ENOUGH_STEPS = 1000
"""Fewer steps of training than this judge no claim. Full modes take more, so that a study ends in about ten minutes of
one H200; without `steps` among its options a run takes as many as the product does by itself, up to 100,000."""


def shortened(options: Mapping[str, Any]) -> str:
    """What a verdict has to say of a run with too few steps to judge a claim; "" for any other."""
    return (
        f"a run of {options['steps']} steps, too short to judge the claim: see the full mode"
        if options.get("steps", ENOUGH_STEPS) < ENOUGH_STEPS
        else ""
    )


def judged(holds: bool, short_run: str) -> StudyVerdict:
    """The verdict on a claim about training: a run that was shortened (`shortened`) reproduces nothing."""
    return StudyVerdict.CORRECTED if holds and not short_run else StudyVerdict.NOT_REPRODUCED


def mean_of(found: Sequence[Mapping[str, Any]], name: str) -> float:
    """The mean accuracy over seeds, in per cent."""
    return 100.0 * float(np.mean([each[name] for each in found]))


def listed(found: Sequence[Mapping[str, Any]], classifiers: Sequence[str]) -> str:
    """Accuracies as papers print them: 82.8 / 82.7 / 83.2."""
    return " / ".join(f"{mean_of(found, name):.1f}" for name in classifiers)
