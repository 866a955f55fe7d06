"""What `table_runs.py` found, per table and ε: privot and each peer, and a verdict per measure.

    python benchmarks/tables/table_summary.py results.jsonl [--epsilon 1]

Mean ± standard error over seeds. AUC is better when it is higher, everything else when it is lower; counts of one, two
and three columns and queries are over the same bins for all, at quantiles of the training records. The verdict is
privot's beside that peer: "ahead" or "behind" where the means differ by more than one standard error of the difference,
"level" within it, "–" where one side has fewer than two seeds. Seconds are of the processor. A peer that was ended at
its limit counts as a run without measures.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MEASURES = ("boosting", "logistic", "one-way", "pairs", "triples", "queries", "seconds")
HIGHER = ("boosting", "logistic")
"""Better when higher."""
OURS = "privot"


class Figure(NamedTuple):
    """Mean and standard error over `count` seeds; the error is not known of one."""

    mean: float
    error: float | None
    count: int

    def __str__(self) -> str:
        if not self.count:
            return "–"
        places = 0 if abs(self.mean) >= 10 else 4
        shown = f"{self.mean:.{places}f}"
        return shown if self.error is None else f"{shown} ± {self.error:.{places}f}"


def figure(values: Sequence[float]) -> Figure:
    """
    >>> figure([1.0, 2.0, 3.0])
    Figure(mean=2.0, error=0.5773502691896258, count=3)
    """
    if not values:
        return Figure(float("nan"), None, 0)
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None
    return Figure(float(np.mean(values)), error, len(values))


def verdict(ours: Figure, theirs: Figure, higher: bool) -> str:
    """Privot beside a peer, in one word.

    >>> verdict(Figure(0.90, 0.01, 3), Figure(0.87, 0.01, 3), higher=True)
    'ahead'
    >>> verdict(Figure(0.90, 0.03, 3), Figure(0.87, 0.01, 3), higher=False)
    'level'
    """
    if ours.error is None or theirs.error is None:
        return "–"
    gap = (ours.mean - theirs.mean) * (1.0 if higher else -1.0)
    if abs(gap) <= float(np.hypot(ours.error, theirs.error)):
        return "level"
    return "ahead" if gap > 0.0 else "behind"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines; half a line at the end is left out."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"]


def figures(lines: Iterable[dict[str, Any]]) -> dict[tuple[str, float], dict[str, dict[str, Any]]]:
    """By table and ε, then by method: a figure per measure, and how many runs were ended at their limit."""
    held: dict[tuple[str, float], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        held[line["table"], line["epsilon"]][line["method"]].append(line)
    out: dict[tuple[str, float], dict[str, dict[str, Any]]] = {}
    for key in sorted(held):
        out[key] = {}
        # privot first
        for method in sorted(held[key], key=lambda name: (name != OURS, name)):
            whole = [line for line in held[key][method] if not line.get("stopped")]
            found: dict[str, Any] = {m: figure([line[m] for line in whole if m in line]) for m in MEASURES}
            out[key][method] = {**found, "stopped": len(held[key][method]) - len(whole)}
    return out


def table_lines(key: tuple[str, float], methods: dict[str, dict[str, Any]]) -> list[str]:
    """One Markdown table: a line per method, and a line of verdicts below each peer."""
    out = [f"{key[0]}, ε = {key[1]:g}", "", "| method | seeds | " + " | ".join(MEASURES) + " |"]
    out.append("|" + "---|" * (2 + len(MEASURES)))
    for method, found in methods.items():
        ended = f" ({found['stopped']} ended)" if found["stopped"] else ""
        seeds = max(found[m].count for m in MEASURES)
        out.append(f"| {method} | {seeds}{ended} | " + " | ".join(str(found[m]) for m in MEASURES) + " |")
        if method != OURS and OURS in methods:
            words = [verdict(methods[OURS][m], found[m], m in HIGHER) for m in MEASURES]
            out.append(f"| privot beside {method} | | " + " | ".join(words) + " |")
    return [*out, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--epsilon", type=float, nargs="*", default=None, help="only these")
    chosen = parser.parse_args()
    for key, methods in figures(read_lines(chosen.results)).items():
        if not chosen.epsilon or key[1] in chosen.epsilon:
            print("\n".join(table_lines(key, methods)))


if __name__ == "__main__":
    main()
