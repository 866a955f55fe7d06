"""Structured against dense frequencies at the same number of features: kernel, noisy class means, and synthesis.

Held-out *training* records are scored: every fourth of the digits, the last 10,000 of a file. Test sets are not opened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.kinds import Images
from privot.synthesis import Embedding
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun

DELTA = 1e-5
DRAWS = 25
"""Draws of the noise for each map, where class means are scored."""
DENSE, STRUCTURED = "dense", "structured"
LEVEL = 0.05
"""Errors of the kernel that differ by less, relatively, count as level: maps differ by as much."""
MEANS = "85.58 ± 0.12 % dense, 85.71 ± 0.11 % structured (more digits); 71.57 and 71.56 % (Fashion-MNIST)"
GENERATORS = "83.2 ± 0.6 % dense, 80.5 ± 0.9 % structured (digits); level on Fashion-MNIST"
SETTINGS = {
    "quick": {"sets": ["digits"], "maps": 8, "frequencies": 500, "epsilon": 1.0, "seeds": 0, "steps": 600},
    "full": {
        "sets": ["digits", "fashion_mnist"],
        "maps": 30,
        "frequencies": 2000,
        "epsilon": 1.0,
        "seeds": 20,
        "steps": 600,
    },
}


def compute(
    run: StudyRun, sets: list[str], maps: int, frequencies: int, epsilon: float, seeds: int, steps: int
) -> dict[str, Any]:
    """Each set: the kernel's error over `maps` draws of a map, the score of noisy class means, and of `seeds` runs."""
    rows, findings = [], []
    for name in sets:
        # as in the table that is checked: 64 columns, and fewer frequencies
        count = min(frequencies, 500) if name == "digits" else frequencies
        kernel = run.part(f"{name}, kernel", partial(_kernel, run, name, maps, count))
        means = run.part(f"{name}, class means", partial(_means, run, name, maps, count, epsilon))
        rows += [{"set": name, "what": "kernel", **kernel}, {"set": name, "what": "class means", **means}]
        ratio = kernel[STRUCTURED][0] / kernel[DENSE][0]
        findings.append(
            StudyFinding(
                f"{name}: the kernel's error is that of dense orthogonal frequencies",
                f"root mean square {_shown(kernel[STRUCTURED], 5)} structured, {_shown(kernel[DENSE], 5)} dense",
                abs(ratio - 1.0) < LEVEL,
                published=".02967 dense, .03007 structured (digits); .01483 and .01487 (Fashion-MNIST)",
                why=f"the errors differ by more than {LEVEL:.0%}",
            )
        )
        findings.append(_level(f"{name}: noisy class means say as much", means, epsilon, MEANS))
        if seeds:
            scored = run.part(f"{name}, synthesis", partial(_synthesis, run, name, epsilon, seeds, steps))
            rows.append({"set": name, "what": "synthesis, logistic regression", **scored})
            findings.append(_level(f"{name}: generators come out as good", scored, epsilon, GENERATORS))
    return {"rows": rows, "delta": DELTA, "adjacency": "add-remove", "findings": [f.to_dict() for f in findings]}


def _level(text: str, found: Mapping[str, Any], epsilon: float, published: str) -> StudyFinding:
    """Structured is not below dense by more than three standard errors of the difference."""
    (ours, spread), (dense, other) = found[STRUCTURED], found[DENSE]
    return StudyFinding(
        text,
        f"{100 * ours:.2f} ± {100 * spread:.2f} % structured, {100 * dense:.2f} ± {100 * other:.2f} % dense; "
        f"ε = {epsilon:g}, δ = {DELTA:g}, add-remove, proven",
        dense - ours <= 3.0 * math.hypot(spread, other),
        published=published,
        why="below by more than three standard errors",
    )


def _maps() -> dict[str, Any]:
    from privot.synthesis.neural.features.fourier import Fourier
    from privot.synthesis.neural.features.hadamard import HadamardFourier

    return {DENSE: Fourier, STRUCTURED: HadamardFourier}


def _widths(columns: int) -> list[float]:
    from privot.synthesis.neural.defaults.feature_defaults import BANDWIDTHS

    return [b * math.sqrt(columns) for b in BANDWIDTHS]


def _mean(values: list[float]) -> list[float]:
    """Mean and standard error."""
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return [float(np.mean(values)), spread]


def _shown(mean: list[float], digits: int) -> str:
    return f"{mean[0]:.{digits}f} ± {mean[1]:.{digits}f}"


def _kernel(run: StudyRun, name: str, maps: int, frequencies: int) -> dict[str, Any]:
    """⟨φ(x), φ(y)⟩ against the Gaussian kernel in closed form, over pairs of 200 records."""
    import torch

    x = images(run, name)[0]
    rows = torch.from_numpy(x[np.random.default_rng(0).permutation(len(x))[:200]])
    upper = np.triu_indices(len(rows), 1)
    squared = torch.cdist(rows, rows).square().numpy()[upper]
    widths = _widths(x.shape[1])
    wanted = np.mean([np.exp(-squared / (2.0 * h * h)) for h in widths], axis=0)
    found = {}
    for kind, maker in _maps().items():
        errors = []
        for seed in range(run.seed, run.seed + maps):
            phi = maker(x.shape[1], frequencies, widths, seed).features(rows).numpy()
            errors.append(float(np.sqrt(np.mean(((phi @ phi.T)[upper] - wanted) ** 2))))
        found[kind] = _mean(errors)
    return found


def _split(run: StudyRun, name: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], tuple[int, ...]]:
    """Records and classes to release, those held out, and the shape of an image."""
    x, y, shape = images(run, name)
    held = np.arange(len(x)) % 4 == 0 if name == "digits" else np.arange(len(x)) >= len(x) - 10_000
    return x[~held][:10_000], y[~held][:10_000], x[held], y[held], shape


def _means(run: StudyRun, name: str, maps: int, frequencies: int, epsilon: float) -> dict[str, Any]:
    """The nearest noisy class mean, in squared distance without the noise's own part: all that a release says."""
    import torch

    from privot.accounting import embedding

    x, y, held, truth, _ = _split(run, name)
    sigma = embedding(adjacency="add-remove", delta=DELTA, epsilon=epsilon).sigma
    counts, dice = np.bincount(y, minlength=10), np.random.default_rng(run.seed)
    found = {}
    for kind, maker in _maps().items():
        scores = []
        for seed in range(run.seed, run.seed + maps):
            features = maker(x.shape[1], frequencies, _widths(x.shape[1]), seed)
            phi, other = (features.features(torch.from_numpy(rows)).numpy() for rows in (x, held))
            sums = np.array([phi[y == c].sum(0) for c in range(10)])
            right = []
            for _ in range(DRAWS):
                centres = (sums + sigma * dice.normal(size=sums.shape)) / counts[:, None]
                squares = np.square(centres).sum(1) - sigma**2 * features.size / counts**2
                right.append(np.mean((other @ centres.T - 0.5 * squares).argmax(1) == truth))
            scores.append(float(np.mean(right)))
        found[kind] = _mean(scores)
    return found


def _synthesis(run: StudyRun, name: str, epsilon: float, seeds: int, steps: int) -> dict[str, Any]:
    """One release and one training for each map and seed, scored by a classifier on the records held out."""
    from privot.accounting import embedding
    from privot.evaluation import score
    from privot.synthesis import Synthesizer
    from privot.synthesis.neural.defaults.feature_defaults import frequencies
    from privot.synthesis.neural.defaults.generator_defaults import choose_rules
    from privot.synthesis.neural.defaults.problem_and_rules import Problem
    from privot.vault import Vault

    x, y, held, truth, shape = _split(run, name)
    sigma = embedding(adjacency="add-remove", delta=DELTA, epsilon=epsilon).sigma
    problem: Any = Problem(x.shape[1], 10, sigma, len(x), shape)
    rules, m = choose_rules(problem), frequencies(problem)
    rules = replace(rules, steps=min(rules.steps, steps))
    scores: dict[str, list[float]] = {kind: [] for kind in _maps()}
    for seed in range(run.seed, run.seed + seeds):
        for kind, maker in _maps().items():
            vault = Vault(x, y, classes=10, clip=math.sqrt(x.shape[1]), adjacency="add-remove", budget=(epsilon, DELTA))
            asked = Embedding(rules, features=maker(x.shape[1], m, _widths(x.shape[1]), seed))
            made = Synthesizer(
                epsilon, DELTA, method=asked, records=len(x), kind=Images(shape), device=run.device, seed=seed
            ).fit(vault)
            sample, labels = made.sample(5000, seed=seed)
            scores[kind].append(float(score("logreg", sample, labels, held, truth, shape=shape, seed=seed)))
    return {kind: _mean(values) for kind, values in scores.items()}


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
