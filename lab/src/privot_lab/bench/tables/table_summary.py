"""What `table_runs` found, per table and ε: privot beside the best of the peers, in one word per measure.

Mean ± standard error over seeds. AUC is better when it is higher, everything else when it is lower. The best peer is
that with the best mean of the measure, whatever its method and its cells. The word is "ahead" or "behind" where the
means differ by more than one standard error of the difference, and "level" within it. A side with one seed is given the
spread of the other, which is marked by a star; with one seed on both sides there is no word. Seconds are of the
processor. A peer that was ended at its limit counts as a run without measures.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privot.errors import DataError
from privot.opening import parse_json, read_text

SCORES = ("boosting", "logistic")
"""Better when higher."""
MEASURES = (*SCORES, "one-way", "pairs", "triples", "queries")
EVEN = ("even one-way", "even pairs", "even triples")
"""Counts over bins of even public width, of whole cells: noise without what cells lose."""
OURS = "privot"
ENOUGH = 3
"""Seeds."""
NAMES = {
    "privot": "**privot**", "aim-32": "AIM, 32 cells", "aim-all": "AIM, 64 cells", "mst-32": "MST, 32 cells",
    "mst-all": "MST, 64 cells",
}  # fmt: skip
START, END = "<!-- table-summary: written by privot bench table-summary -->", "<!-- /table-summary -->"


class Figure(NamedTuple):
    """Mean and standard error over `seeds`; the error is not known of one."""

    mean: float
    error: float | None
    seeds: int

    def __str__(self) -> str:
        if not self.seeds:
            return "–"
        places = 0 if abs(self.mean) >= 1 else 4
        shown = f"{self.mean:.{places}f}".removeprefix("0" if abs(self.mean) < 1 else "")
        return shown if self.error is None else f"{shown} ± {self.error:.{places}f}".replace("± 0.", "± .")


Found = dict[str, dict[str, Any]]
"""By method: a figure per measure, and how many runs were ended at their limit."""


def figure(values: Sequence[float]) -> Figure:
    """
    >>> figure([1.0, 2.0, 3.0])
    Figure(mean=2.0, error=0.5773502691896258, seeds=3)
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
    >>> verdict(Figure(0.90, 0.01, 4), Figure(0.80, None, 1), higher=True)
    'ahead*'
    """
    known = [one.error * one.seeds**0.5 for one in (ours, theirs) if one.error is not None]
    if not (known and ours.seeds and theirs.seeds):
        return "–"
    # a single seed has the spread of the other side
    errors = [max(known) / one.seeds**0.5 if one.error is None else one.error for one in (ours, theirs)]
    gap = (ours.mean - theirs.mean) * (1.0 if higher else -1.0)
    word = "level" if abs(gap) <= math.hypot(*errors) else "ahead" if gap > 0.0 else "behind"
    return word + ("*" if len(known) < 2 else "")


def best_peer(found: Found, measure: str) -> str | None:
    """The peer with the best mean of a measure."""
    sign = -1.0 if measure in SCORES else 1.0
    held = [method for method in found if method != OURS and found[method][measure].seeds]
    return min(held, key=lambda method: sign * found[method][measure].mean, default=None)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines; half a line at the end is left out."""
    lines = [line for line in read_text(path).splitlines(keepends=True) if line.endswith("\n") and line.strip()]
    out = [parse_json(line, path.name) for line in lines]
    if not all(isinstance(line, dict) and {"table", "epsilon", "method"} <= set(line) for line in out):
        raise DataError(f"{path.name!r} does not hold results of table runs: expected one JSON object per line.")
    return out


def figures(lines: Iterable[dict[str, Any]]) -> dict[tuple[str, float], Found]:
    """By table and ε, then by method, privot first; of two lines of the same run the last counts."""
    held: dict[tuple[str, float], dict[str, dict[Any, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for place, line in enumerate(lines):
        held[line["table"], float(line["epsilon"])][line["method"]][line.get("seed", f"line {place}")] = line
    out: dict[tuple[str, float], Found] = {}
    for key in sorted(held):
        out[key] = {}
        for method in sorted(held[key], key=lambda name: (name != OURS, name)):
            runs = held[key][method].values()
            whole = [line for line in runs if not line.get("stopped")]
            found: dict[str, Any] = {
                m: figure([line[m] for line in whole if m in line]) for m in (*MEASURES, *EVEN, "seconds")
            }
            out[key][method] = {**found, "stopped": len(runs) - len(whole)}
    return out


def verdict_lines(found: dict[tuple[str, float], Found], measures: Sequence[str] = MEASURES) -> list[str]:
    """A Markdown table of words beside the best peer, and how often each word stands in a column."""
    out = ["| table | ε | " + " | ".join(measures) + " |", "|" + "---|" * (2 + len(measures))]
    count: dict[str, Counter[str]] = {measure: Counter() for measure in measures}
    for (table, epsilon), methods in found.items():
        if OURS not in methods:
            continue
        cells = []
        for measure in measures:
            peer = best_peer(methods, measure)
            if peer is None:
                cells.append("–")
                continue
            ours, theirs = methods[OURS][measure], methods[peer][measure]
            word = verdict(ours, theirs, measure in SCORES)
            count[measure][word.rstrip("*")] += 1
            cells.append(f"{f'**{word}**' if 'behind' in word else word}: {ours} / {theirs} {_peer(peer)}")
        out.append(f"| {table} | {epsilon:g} | " + " | ".join(cells) + " |")
    words = ("ahead", "level", "behind")
    said = ["; ".join(f"{count[m][word]} {word}" for word in words if count[m][word]) or "–" for m in measures]
    return [*out, "| **of all** | | " + " | ".join(said) + " |"]


def figure_lines(found: dict[tuple[str, float], Found]) -> list[str]:
    """A Markdown table of all figures: a line per method."""
    names = [*(f"{m} AUC" if m in SCORES else m for m in MEASURES), *EVEN, "processor s"]
    out = ["| table | ε | method | seeds | " + " | ".join(names) + " |", "|" + "---|" * (4 + len(names))]
    for (table, epsilon), methods in found.items():
        for method, held in methods.items():
            ended = f" ({held['stopped']} ended)" if held["stopped"] else ""
            seeds = max(held[m].seeds for m in MEASURES)
            # peers' seconds are those of the faster inference, not their own
            spent = str(held["seconds"]) if method == OURS else "–"
            cells = [*(str(held[m]) for m in (*MEASURES, *EVEN)), spent]
            name = NAMES.get(method, method)
            out.append(f"| {table} | {epsilon:g} | {name} | {seeds}{ended} | " + " | ".join(cells) + " |")
    return out


def missing_lines(found: dict[tuple[str, float], Found]) -> list[str]:
    """What was not run with three seeds or more: nothing is said of it, or little."""
    out = []
    for method in NAMES:
        seeds = {key: methods[method]["pairs"].seeds if method in methods else 0 for key, methods in found.items()}
        few = [f"{table} ε = {epsilon:g} ({count})" for (table, epsilon), count in seeds.items() if count < ENOUGH]
        if few:
            out.append(f"- {NAMES[method]}, seeds: {', '.join(few)}")
    return out


def summary_text(lines: Iterable[dict[str, Any]]) -> str:
    """Words, words over even bins, and all figures, in Markdown."""
    found = figures(lines)
    parts = [
        "Privot / the best peer, mean ± standard error over seeds (a star: one side has one seed):",
        "\n".join(verdict_lines(found)),
        "The same over bins of even public width, made of whole cells:",
        "\n".join(verdict_lines(found, EVEN)),
        f"Runs of fewer than {ENOUGH} seeds, with how many there are:",
        "\n".join(missing_lines(found)) or "- none",
        "All figures:",
        "\n".join(figure_lines(found)),
    ]
    return "\n\n".join(parts) + "\n"


def write_into(page: Path, text: str) -> None:
    """Put a summary between the two marks of a page."""
    held = read_text(page)
    if held.count(START) != 1 or held.count(END) != 1 or held.index(START) > held.index(END):
        raise DataError(f"{page.name!r} must hold {START} and, below it, {END}, once each.")
    before, after = held.split(START)[0], held.split(END)[1]
    page.write_text(f"{before}{START}\n\n{text}\n{END}{after}", encoding="utf-8")


def to_json(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The words as plain JSON types, one object per table, ε and measure."""
    out = []
    for (table, epsilon), methods in figures(lines).items():
        for measure in (*MEASURES, *EVEN) if OURS in methods else ():
            peer = best_peer(methods, measure)
            ours = methods[OURS][measure]
            line = {"table": table, "epsilon": epsilon, "measure": measure, "privot": ours._asdict()}
            if peer is not None:
                theirs = methods[peer][measure]
                word = verdict(ours, theirs, measure in SCORES)
                line |= {"peer": peer, "best": theirs._asdict(), "verdict": word}
            out.append(line)
    # NaN is no JSON
    return [json.loads(json.dumps(line).replace("NaN", "null")) for line in out]


def _peer(method: str) -> str:
    return method.replace("-all", "-64").upper()
