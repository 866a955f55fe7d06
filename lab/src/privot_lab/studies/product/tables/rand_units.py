"""The RAND health insurance experiment at ε for a *person* with all years: medians, means, ranks, what models learn.

Each draw is one whole private release with noise of the operating system. Rows of other persons are read for scores
only. The scale of dollars was the only
thing chosen after figures had been seen: both scales are reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from privot.kinds import Unit
from privot.tables import Table, TableCodec
from privot_lab.studies.product.tables.rand_data import (
    NUMBERS,
    numbers,
    rand_rows,
    rand_schema,
    split_persons,
)
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun

MEDIANS_WITHIN, MEANS_WITHIN, RANK, AUC = 0.10, 0.25, 0.6, 0.95
"""What is wanted, relative to the records; the rank correlation of visits and dollars; the AUC of boosting."""
BETWEEN = "median between values"
"""`mid_quantile`: half of the rows have at most one visit, to a few records, so their ordinary median is a toss."""
RANKED = "Spearman of visits and dollars"
MADE_ROWS = 20_000
_COMMON = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add-remove"}
SETTINGS = {
    "quick": {**_COMMON, "per_unit": [1], "scales": ["auto"], "draws": 1},
    "full": {**_COMMON, "per_unit": [0, 1, 5], "scales": ["auto", "log"], "draws": 5},
}


def compute(
    run: StudyRun, epsilon: float, delta: float, adjacency: str, per_unit: list[int], scales: list[str], draws: int
) -> dict[str, Any]:
    """Figures per setting over `draws`; `per_unit` rows of a person take part, 0 protects one row and no person.

    `scales` are those of visits and dollars, the columns with long tails.
    """
    rows, persons = rand_rows(run)
    train, whose, test = split_persons(rows, persons)
    real = run.part("records", partial(_measured, train, test))
    settings: list[dict[str, Any]] = []
    for scale in scales:
        for bound in per_unit:
            made = [
                run.part(
                    f"{scale}, {bound} per unit, draw {draw}",
                    partial(_draw, train, whose, test, scale, bound, epsilon, delta, adjacency, run.seed + draw),
                )
                for draw in range(draws)
            ]
            settings.append({"scale": scale, "per_unit": bound, "draws": made, **_spread(made)})
    flagged = run.part("linear", partial(_flagged, train, whose, test, epsilon, delta, adjacency, run.seed))
    findings = [finding for each in settings for finding in _judged(each, real, epsilon, delta, adjacency)]
    findings.append(
        StudyFinding(
            "evaluate calls the dollars broken where the schema cuts them linearly, and not with cells of its own",
            f"linear: {flagged['linear'] or 'nothing'}; auto: {flagged['auto'] or 'nothing'}",
            any("dollars" in sentence for sentence in flagged["linear"]) and not flagged["auto"],
        )
    )
    return {
        "records": {"train": train.rows, "persons": len(np.unique(whose)), "test": test.rows},
        "real": real,
        "settings": settings,
        "flagged": flagged,
        "findings": [finding.to_dict() for finding in findings],
    }


def _spread(made: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    values = {name: [each[name] for each in made] for name in made[0]}
    error = {name: float(np.std(found, ddof=1)) if len(made) > 1 else 0.0 for name, found in values.items()}
    return {"mean": {name: float(np.mean(found)) for name, found in values.items()}, "sd": error}


def _judged(
    found: Mapping[str, Any], real: Mapping[str, float], epsilon: float, delta: float, adjacency: str
) -> list[StudyFinding]:
    rows = found["per_unit"]
    who = f"a person with {rows} row{'s' if rows > 1 else ''}" if rows else "one row"
    draws = found["draws"]
    about = f"{who}, scale {found['scale']}"
    terms = f"ε = {epsilon:g}, δ = {delta:g}, {adjacency}, proven; {len(draws)} draw{'s' if len(draws) > 1 else ''}"
    out = []
    for kind, within in (("median", MEDIANS_WITHIN), (BETWEEN, MEDIANS_WITHIN), ("mean", MEANS_WITHIN)):
        off = {name: [each[f"{kind} {name}"] / real[f"{kind} {name}"] - 1.0 for each in draws] for name in NUMBERS}
        far = {name: gaps for name, gaps in off.items() if abs(float(np.mean(gaps))) > within}
        single = {name: int(sum(abs(gap) > within for gap in gaps)) for name, gaps in off.items()}
        worst = max(off, key=lambda name: abs(float(np.mean(off[name]))))
        out.append(
            StudyFinding(
                f"{about}: on average over draws every {kind} is within {within:.0%}",
                f"the worst is {worst} ({np.mean(off[worst]):+.0%}); draws outside: "
                f"{', '.join(f'{name} {many}' for name, many in single.items() if many) or 'none'} ({terms})",
                not far,
                published=f"within {within:.0%}",
                why=", ".join(f"{name} {np.mean(gaps):+.0%}" for name, gaps in far.items()),
            )
        )
    ranks = [each[RANKED] for each in draws]
    scores = [each["boosting AUC"] for each in draws]
    without = float(np.mean([each["boosting AUC without dollars"] for each in draws]))
    out.append(
        StudyFinding(
            f"{about}: visits and dollars still rise together",
            f"Spearman {np.mean(ranks):.3f}, smallest {min(ranks):.3f}; records {real[RANKED]:.3f}",
            min(ranks) >= RANK,
            published=f"at least {RANK:g}",
            why=f"{sum(rank < RANK for rank in ranks)} draws below",
        )
    )
    out.append(
        StudyFinding(
            f"{about}: boosting tells who had any expense",
            f"AUC {np.mean(scores):.3f} (records {real['boosting AUC']:.3f}), without dollars {without:.3f} "
            f"(records {real['boosting AUC without dollars']:.3f})",
            min(scores) >= AUC,
            published=f"at least {AUC:g}",
            why=f"smallest {min(scores):.3f}",
        )
    )
    return out


def _measured(made: Table, test: Table) -> dict[str, float]:
    from privot.evaluation.number_quality import mid_quantile
    from privot.evaluation.table_quality import train_and_test

    out: dict[str, float] = {}
    for name in NUMBERS:
        values = numbers(made[name])
        out |= {f"median {name}": float(np.nanmedian(values)), f"mean {name}": float(np.nanmean(values))}
        out[f"{BETWEEN} {name}"] = mid_quantile(values[~np.isnan(values)], 0.5)
    out[RANKED] = float(spearmanr(numbers(made["visits"]), numbers(made["dollars"])).statistic)
    for name, without in (("boosting AUC", ()), ("boosting AUC without dollars", ("dollars",))):
        codec = TableCodec(rand_schema(without=without))
        kept, held = (Table({c: table[c] for c in codec.schema.names}) for table in (made, test))
        out[name] = float(train_and_test(kept, held, codec).auc or 0.5)
    return out


def _made(
    train: Table, whose: NDArray[np.int64], scale: str, bound: int, epsilon: float, delta: float, adjacency: Any,
    seed: int,
) -> Table:  # fmt: skip
    from privot.synthesis import Synthesizer
    from privot.vault import Vault

    codec = TableCodec(rand_schema(scale))
    x, y = codec.encode(train, compact=True)
    units: dict[str, Any] = {"units": whose, "unit": Unit("person", bound)} if bound else {}
    terms: Any = {"clip": codec.bound(compact=True), "classes": codec.classes, "budget": (epsilon, delta)}
    vault = Vault(x, y, adjacency=adjacency, **terms, **units)
    fitted = Synthesizer(epsilon, delta, seed=seed, device="cpu", kind=codec).fit(vault)
    table: Table = fitted.sample(MADE_ROWS, seed=seed, frame="table")[0]
    return table


def _draw(
    train: Table, whose: NDArray[np.int64], test: Table, scale: str, bound: int, epsilon: float, delta: float,
    adjacency: str, seed: int,
) -> dict[str, float]:  # fmt: skip
    return _measured(_made(train, whose, scale, bound, epsilon, delta, adjacency, seed), test)


def _flagged(
    train: Table, whose: NDArray[np.int64], test: Table, epsilon: float, delta: float, adjacency: str, seed: int
) -> dict[str, list[str]]:
    """What `evaluate` calls broken, by the scale of visits and dollars."""
    from privot.evaluation.number_quality import broken_columns, number_columns

    out = {}
    for scale in ("linear", "auto"):
        codec = TableCodec(rand_schema(scale))
        made = _made(train, whose, scale, 1, epsilon, delta, adjacency, seed)
        out[scale] = list(broken_columns(number_columns(made, test, codec), codec))
    return out


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
