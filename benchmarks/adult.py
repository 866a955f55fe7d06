"""Adult census at (ε, δ): models trained on a synthetic table and tested on real records, beside real training data.

    python benchmarks/adult.py TRAIN TEST [--epsilon 1] [--delta 1e-6] [--adjacency add-remove] [--draws 5]

TRAIN and TEST are UCI's adult.data and adult.test as CSV with a header (see docs/examples/adult-schema.json for the
names). The schema states public knowledge from UCI's data dictionary. Each draw is one whole private release, with
noise from the operating system; the test records are read for scoring only.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from privot import Vault
from privot.evaluation.table_quality import MODELS, evaluate_table, label_balance, train_and_test
from privot.synthesis import Synthesizer
from privot.tables import Schema, TableCodec, encode_file, read_table

LONGER = 4
"""A model can be sampled without end: boosting is also trained on this many times the rows."""
SCHEMA = Path(__file__).parent.parent / "docs" / "examples" / "adult-schema.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--adjacency", default="add-remove")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--rows", type=int, default=None, help="synthetic rows; as many as TRAIN has unless given")
    parser.add_argument("--out", default=None, help="write the scores of every draw to this JSON file")
    chosen = parser.parse_args()

    codec = TableCodec(Schema.load(SCHEMA))
    train, test = read_table(chosen.train), read_table(chosen.test)
    real = {model: train_and_test(train, test, codec, model) for model in MODELS}
    for model, score in real.items():
        print(f"real data      {model:9s} accuracy {100 * score.accuracy:.2f}  AUC {score.auc:.4f}", flush=True)
    print(f"real label balance {label_balance(train, codec)[1]:.4f}", flush=True)

    x, y = encode_file(chosen.train, codec, compact=True)
    draws = []
    for draw in range(chosen.draws):
        vault = Vault(
            x,
            y,
            clip=codec.bound(compact=True),
            classes=codec.classes,
            adjacency=chosen.adjacency,
            budget=(chosen.epsilon, chosen.delta),
            label="adult",
        )
        start = time.perf_counter()
        synthesizer = Synthesizer(chosen.epsilon, chosen.delta, codec=codec, seed=draw, device="cpu").fit(vault)
        seconds = time.perf_counter() - start
        rows = chosen.rows or len(x)
        report = evaluate_table(synthesizer.sample(rows, seed=draw)[0], test, codec)
        longer = train_and_test(synthesizer.sample(LONGER * rows, seed=draw)[0], test, codec)
        found = {f"{s.model} {name}": getattr(s, name) for s in report.scores for name in ("accuracy", "auc")}
        found |= {
            f"boosting accuracy, {LONGER} times the rows": longer.accuracy,
            f"boosting auc, {LONGER} times the rows": longer.auc,
            "positive share": report.label_balance[1] if report.label_balance else None,
            "marginal distance": report.marginal_distance,
            "pair distance": report.pair_distance,
            "epsilon": synthesizer.guarantee_.epsilon(),
            "seconds": seconds,
        }
        draws.append(found)
        print(f"draw {draw}: " + ", ".join(f"{name} {value:.4f}" for name, value in found.items()), flush=True)
    print(f"\nmean ± sd over {chosen.draws} draws, ε = {chosen.epsilon:g}, δ = {chosen.delta:g}, {chosen.adjacency}")
    for name in draws[0]:
        values = np.array([found[name] for found in draws])
        print(f"  {name:40s} {values.mean():.4f} ± {values.std(ddof=1) if len(values) > 1 else 0.0:.4f}")
    if chosen.out:
        Path(chosen.out).write_text(json.dumps(draws, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
