"""The RAND health insurance experiment as related tables: persons, and the years of each; ε is for a person.

FILE is `statsmodels/datasets/randhie/src/randhie.csv` of an installed statsmodels; it is not part of this repository.
What a person has in every year (or in the first one) is the parent's, the rest the child's. Nothing here was chosen by
looking at results.

python benchmarks/tables/rand_related.py FILE [--epsilon 1 5] [--per-parent 5] [--seeds 3]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from rand_hie import SCHEMA, UNIT, table_of
from scipy.stats import spearmanr

from privot import Schema, Synthesizer, Vault
from privot.tables import RelatedCodec

DELTA = 1e-6
OF_PERSONS = ("coinsurance", "age", "female", "income", "education", "diseases", "health")
OF_YEARS = ("year", "visits", "dollars")
HEALTH = tuple(SCHEMA["health"].categories)


def codec_for(per_parent: int) -> RelatedCodec:
    """The public part."""
    schemas = {"persons": Schema(tuple(SCHEMA[name] for name in OF_PERSONS))}
    schemas["years"] = Schema(tuple(SCHEMA[name] for name in OF_YEARS))
    return RelatedCodec(schemas, key=UNIT, per_parent=per_parent)


def measured(persons: pd.DataFrame, years: pd.DataFrame) -> dict[str, float]:
    """Numbers of years, columns of both tables, links between them, and what two years of a person have in common."""
    joined = years.merge(persons, on=UNIT, validate="many_to_one")
    assert len(joined) == len(years)
    numbers = years[UNIT].value_counts().reindex(persons[UNIT], fill_value=0).to_numpy()
    spent = np.log1p(joined["dollars"].astype(float))
    ill = [HEALTH.index(str(value)) for value in joined["health"]]
    women = joined["female"].astype(str).isin(("1", "True"))
    pairs = joined.assign(spent=spent).groupby(UNIT)["spent"].agg(["first", "last", "size"]).query("size > 1")

    def rank(a: object, b: object) -> float:
        return float(spearmanr(a, b, nan_policy="omit").statistic)

    return {
        "years per person": float(numbers.mean()),
        "persons with 5 years": float((numbers == 5).mean()),
        "persons without a year": float((numbers == 0).mean()),
        "median age of persons": float(persons["age"].astype(float).median()),
        "median dollars of a year": float(joined["dollars"].astype(float).median()),
        "visits and dollars": rank(joined["visits"].astype(float), joined["dollars"].astype(float)),
        "diseases and dollars": rank(joined["diseases"].astype(float), joined["dollars"].astype(float)),
        "health and visits": rank(ill, joined["visits"].astype(float)),
        "coinsurance and visits": rank(joined["coinsurance"].astype(float), joined["visits"].astype(float)),
        "visits, women less men": float(
            joined["visits"].astype(float)[women].mean() - joined["visits"].astype(float)[~women].mean()
        ),
        "two years of a person": float(np.corrcoef(pairs["first"], pairs["last"])[0, 1]),
    }


def main() -> None:
    """Print one line per figure: real, then mean and standard deviation over seeds for each ε."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("file", type=Path)
    options.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0])
    options.add_argument("--per-parent", type=int, default=5)
    options.add_argument("--seeds", type=int, default=3)
    said = options.parse_args()
    rows = table_of(said.file)
    real = {
        "persons": rows.groupby(UNIT, as_index=False).first()[[UNIT, *OF_PERSONS]],
        "years": rows[[UNIT, *OF_YEARS]],
    }
    codec = codec_for(said.per_parent)
    found: dict[float, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.csv" for name in codec.names}
        for name, frame in real.items():
            frame.to_csv(files[name], index=False)
        for epsilon in said.epsilon:
            for seed in range(said.seeds):
                vault = Vault.from_tables(files, codec, adjacency="add-remove", budget=(epsilon, DELTA))
                model = Synthesizer(epsilon, DELTA, codec=codec, seed=seed).fit(vault)
                made = model.sample(len(real["persons"]), seed=seed, frame="pandas")
                found.setdefault(epsilon, []).append(measured(made["persons"], made["years"]))
                print(f"ε = {epsilon:g}, seed {seed}: {model.guarantee_}", flush=True)
    print(f"{len(real['persons'])} persons, {len(real['years'])} years")
    for name, value in measured(real["persons"], real["years"]).items():
        cells = []
        for several in found.values():
            drawn = np.array([one[name] for one in several])
            cells.append(f"{drawn.mean():.3f} ± {drawn.std(ddof=1) if len(drawn) > 1 else 0.0:.3f}")
        print(f"| {name} | {value:.3f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
