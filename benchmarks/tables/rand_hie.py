"""The RAND health insurance experiment with --unit: several years per person; ε = 1 for a person, not for a year.

FILE is `statsmodels/datasets/randhie/src/randhie.csv` of an installed statsmodels; it is not part of this repository.
Persons are split into training (70 %) and test; nothing here was chosen by looking at results.

python benchmarks/tables/rand_hie.py FILE [--epsilon 1] [--per-unit 1 5] [--seeds 3]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from privot import Schema, Synthesizer, Vault
from privot.tables import Column, TableCodec

DELTA = 1e-6
UNIT = "zper"
LABEL = "any_expense"
HEALTH = ("excellent", "good", "fair", "poor")
SCHEMA = Schema(
    (
        Column("year", "integer", 1, 5),
        Column("coinsurance", "ordinal", categories=("0", "25", "50", "95", "100")),
        Column("age", "integer", 0, 65),
        Column("female", "boolean", categories=("0", "1")),
        Column("income", "continuous", 0, 30_000, decimals=0),
        Column("education", "integer", 0, 25, missing=True),
        Column("visits", "integer", 0, 100, scale="log"),
        Column("dollars", "continuous", 0, 50_000, scale="log", decimals=2),
        Column("diseases", "continuous", 0, 60, decimals=1),
        Column("health", "ordinal", categories=HEALTH),
        Column(LABEL, "boolean", categories=("0", "1")),
    ),
    LABEL,
)
NUMBERS = ("age", "income", "education", "visits", "dollars", "diseases")


def table_of(file: Path) -> pd.DataFrame:
    """The columns of the schema, and the person."""
    raw = pd.read_csv(file)
    poor = np.select([raw.hlthp > 0, raw.hlthf > 0, raw.hlthg > 0], [3, 2, 1], 0)
    return pd.DataFrame(
        {
            UNIT: raw.zper.astype(int),
            "year": raw.year,
            "coinsurance": raw.coins.astype(int).astype(str),
            "age": raw.xage.round().astype(int),
            "female": raw.female.astype(int).astype(str),
            "income": raw.income,
            "education": raw.educdec.round().astype("Int64"),
            "visits": raw.mdvis.astype(int),
            "dollars": raw.meddol,
            "diseases": raw.disea,
            "health": np.array(HEALTH)[poor],
            LABEL: (raw.meddol > 0).astype(int).astype(str),
        }
    )


def numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Every column as a number."""
    out = frame.copy()
    for name in ("coinsurance", "health"):
        out[name] = [SCHEMA[name].categories.index(str(value)) for value in frame[name]]
    return out.astype(float)


def auc(train: pd.DataFrame, test: pd.DataFrame, *without: str) -> float:
    """ROC-AUC of boosting for the label, trained on one table and tested on the other."""
    sets = [numbers(frame[list(SCHEMA.names)]).drop(columns=list(without)) for frame in (train, test)]
    (x, y), (xt, yt) = [(one.drop(columns=LABEL), one[LABEL]) for one in sets]
    model = HistGradientBoostingClassifier(random_state=0).fit(x, y)
    return float(roc_auc_score(yt, model.predict_proba(xt)[:, 1]))


def measured(made: pd.DataFrame, test: pd.DataFrame) -> dict[str, Any]:
    """Medians, means, the rank correlation of visits and dollars, and boosting with and without the dollars."""
    both = [made[name].astype(float) for name in ("visits", "dollars")]
    return {
        **{f"median {name}": float(made[name].astype(float).median()) for name in NUMBERS},
        **{f"mean {name}": float(made[name].astype(float).mean()) for name in NUMBERS},
        "Spearman visits, dollars": float(spearmanr(*both).statistic),
        "boosting AUC": auc(made, test),
        "boosting AUC without dollars": auc(made, test, "dollars"),
    }


def synthetic(file: Path, epsilon: float, rows: int | None, seed: int) -> pd.DataFrame:
    """Rows made from the file at (ε, δ): for a person with at most so many `rows`, or for a record (None)."""
    terms: dict[str, Any] = {"adjacency": "add-remove", "budget": (epsilon, DELTA)}
    units = {} if rows is None else {"unit": UNIT, "per_unit": rows}
    schema = SCHEMA.dropping(UNIT)
    vault = Vault.from_table(file, schema, **terms, **units)
    made, _ = Synthesizer(epsilon, DELTA, codec=TableCodec(schema), seed=seed).fit(vault).sample(20_000, seed=seed)
    return pd.DataFrame({name: made[name] for name in made})


def main() -> None:
    """Print one column per setting: the real rows, one record, and one person with each bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--per-unit", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    whole = table_of(asked.file)
    people = np.random.default_rng(0).permutation(whole[UNIT].unique())
    train = whole[whole[UNIT].isin(people[: int(0.7 * len(people))])]
    test = whole[~whole[UNIT].isin(train[UNIT])]
    found: dict[str, pd.Series] = {"real": pd.Series(measured(train, test))}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rand.csv"
        train.to_csv(file, index=False, na_rep="NA")
        for rows in (None, *asked.per_unit):
            name = "one record" if rows is None else f"one person, {rows}"
            runs = [measured(synthetic(file, asked.epsilon, rows, seed), test) for seed in range(asked.seeds)]
            table = pd.DataFrame(runs)
            found[name], found[f"± {name}"] = table.mean(), table.std()
    print(f"{len(train)} rows of {train[UNIT].nunique()} persons; ε = {asked.epsilon:g}, δ = {DELTA:g}, add-remove")
    print(pd.DataFrame(found).round(3).to_string())


if __name__ == "__main__":
    main()
