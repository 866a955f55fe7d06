"""Whether a baseline and a follow-up still go together in a small synthetic table: 2,139 patients as in ACTG 175.

    python benchmarks/tables/baseline_follow_up.py --draws 60
    python benchmarks/tables/baseline_follow_up.py --draws 20 --wide

CD4 counts at the start and after 20 weeks are made up: normal, with the trial's means and spreads and a correlation of
0.58. The wide table has eight more columns (age, weight, four yes or no, the arm, and the event as the label), of which
only the event depends on the others. Prints the correlation in synthetic rows: mean, standard deviation, smallest.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from privot.synthesis import Synthesizer
from privot.tables import Column, Schema, Table, TableCodec
from privot.vault import Vault

PATIENTS, CORRELATION = 2139, 0.58
CD4 = (Column("cd40", "integer", 0, 1200), Column("cd420", "integer", 0, 1200))
FLAGS = ("sex", "hemo", "drugs", "symptom")
OTHERS = (
    Column("age", "integer", 12, 70),
    Column("wtkg", "continuous", 30, 160),
    *(Column(name, "boolean") for name in FLAGS),
    Column("arms", "categorical", categories=("a", "b", "c", "d")),
    Column("cid", "boolean"),
)


def patients(seed: int, wide: bool = False) -> tuple[Table, Schema]:
    """The records of one made-up trial, and what is public about them."""
    dice = np.random.default_rng(seed)
    first = dice.normal(size=PATIENTS)
    second = CORRELATION * first + np.sqrt(1.0 - CORRELATION**2) * dice.normal(size=PATIENTS)
    columns: dict[str, Any] = {
        "cd40": np.clip(np.rint(350.5 + 118.6 * first), 0, 1200).astype(np.int64),
        "cd420": np.clip(np.rint(371.3 + 144.6 * second), 0, 1200).astype(np.int64),
    }
    if not wide:
        return Table(columns), Schema(CD4)
    columns["age"] = np.clip(np.rint(35.2 + 8.7 * dice.normal(size=PATIENTS)), 12, 70).astype(np.int64)
    columns["wtkg"] = np.clip(75.1 + 13.3 * dice.normal(size=PATIENTS), 30, 160)
    for name, share in zip(FLAGS, (0.83, 0.08, 0.13, 0.17), strict=True):
        columns[name] = dice.random(PATIENTS) < share
    columns["arms"] = dice.choice(["a", "b", "c", "d"], PATIENTS)
    lot = 1.1 + 0.004 * (columns["cd420"] - 371) - 0.3 * (columns["arms"] == "a")
    columns["cid"] = dice.random(PATIENTS) < 1.0 / (1.0 + np.exp(lot))
    return Table(columns), Schema((*CD4, *OTHERS), label="cid")


def correlations(seed: int, epsilon: float = 1.0, wide: bool = False) -> tuple[float, float]:
    """Of the records, and of as many synthetic rows."""
    table, schema = patients(seed, wide)
    codec = TableCodec(schema)
    x, y = codec.encode(table, compact=True)
    terms: Any = {"clip": codec.bound(compact=True), "classes": codec.classes}
    vault = Vault(x, y, adjacency="add-remove", budget=(epsilon, 1e-6), **terms)
    fitted = Synthesizer(epsilon, 1e-6, codec=codec, seed=seed, device="cpu").fit(vault)
    made = fitted.sample(PATIENTS, seed=seed, frame="table")[0]
    real, found = (float(np.corrcoef(t["cd40"], t["cd420"])[0, 1]) for t in (table, made))
    return real, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--wide", action="store_true", help="with eight more columns")
    chosen = parser.parse_args()
    found = np.array([correlations(seed, chosen.epsilon, chosen.wide) for seed in range(chosen.draws)])
    print(f"real {found[:, 0].mean():.3f}; synthetic {found[:, 1].mean():.3f}, standard deviation "
          f"{found[:, 1].std(ddof=1):.3f}, smallest {found[:, 1].min():.3f}, below 0.4: {(found[:, 1] < 0.4).sum()} of "
          f"{len(found)}")  # fmt: skip


if __name__ == "__main__":
    main()
