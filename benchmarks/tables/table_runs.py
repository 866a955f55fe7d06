"""Runs privot, AIM and MST on folders of tables, one after another; what is in the results already is not run again.

    python benchmarks/tables/table_runs.py FOLDER … --peers PYTHON --epsilon 1 --seeds 0 1 2 --out results.jsonl

FOLDER is as `table_comparison.py` wants it; PYTHON is the interpreter of an environment that has `dpmm`. Peers run on
cells merged to 32 per column of numbers, and on privot's own cells ("all"). A peer that takes more than `--limit`
seconds of processor time is noted with `"stopped": true` and no measures.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

HERE = Path(__file__).parent
PEER = HERE.parents[1] / "src/privot/bench/table_peer.py"
CELLS = {"32": 32, "all": 1_000_000}
METHODS = ("privot", *(f"{peer}-{cells}" for peer in ("aim", "mst") for cells in CELLS))


def run(command: list[str]) -> None:
    """A command of this folder, one thread each."""
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})  # noqa: S603


def done(out: Path) -> set[tuple[str, float, str, int]]:
    """What the results hold: table, ε, method and seed."""
    if not out.exists():
        return set()
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return {(line["table"], line["epsilon"], line["method"], line.get("seed", 0)) for line in lines}


def run_peer(chosen: argparse.Namespace, folder: Path, epsilon: float, method: str, seed: int) -> None:
    """One peer, in its own environment, and its measures."""
    peer, cells = method.split("-")
    compare = [sys.executable, str(HERE / "table_comparison.py")]
    most = ["--most", str(CELLS[cells])]
    with tempfile.TemporaryDirectory() as held:
        given, drawn = f"{held}/cells.npz", f"{held}/sample.npz"
        run([*compare, "cells", str(folder), given, *most])
        command = [chosen.peers, str(PEER), given, drawn, "--method", peer]
        command += ["--epsilon", str(epsilon), "--delta", str(chosen.delta), "--seed", str(seed)]
        try:
            run([*command, "--limit", str(chosen.limit)])
        except subprocess.CalledProcessError as error:
            if error.returncode != -signal.SIGXCPU:
                raise
            line = {"table": folder.name, "epsilon": epsilon, "method": method, "seed": seed,
                    "seconds": chosen.limit, "stopped": True}  # fmt: skip
            with chosen.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            return
        named = ["--name", method, "--epsilon", str(epsilon), "--first", str(seed), "--out", str(chosen.out)]
        run([*compare, "peer", str(folder), drawn, *most, *named])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 1.0, 5.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--limit", type=int, default=1800, help="seconds of processor time that a peer may take")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    for seed, epsilon, folder, method in product(chosen.seeds, chosen.epsilon, chosen.folders, chosen.methods):
        if (folder.name, epsilon, method, seed) in done(chosen.out):
            continue
        print(folder.name, epsilon, method, seed, flush=True)
        if method != "privot":
            run_peer(chosen, folder, epsilon, method, seed)
            continue
        command = [sys.executable, str(HERE / "table_comparison.py"), "ours", str(folder), "--epsilon", str(epsilon)]
        command += ["--delta", str(chosen.delta), "--first", str(seed), "--out", str(chosen.out)]
        run(command)


if __name__ == "__main__":
    main()
