"""Table 1, Figure 5 and section 6.3 of the TriangleWad paper as tables, printed beside ours."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr

from privot_lab.studies.result_tables import Found, Maker, ResultTable, spread
from privot_lab.studies.triangle_wad.contribution_ranks import CASES, PARTIES, SHARES

_SIZES = (100, 500, 1000)
_DISTANCES = {
    ("cifar10", "μ"): ((27.46, 24.73, 24.16), (32.90, 30.75, 30.72), (27.51, 24.73, 24.16), (32.88, 30.76, 30.69)),
    ("cifar10", "20 noisy"): (
        (571.73, 216.54, 141.68), (571.99, 217.50, 143.08), (571.74, 216.54, 141.68), (572.01, 217.02, 143.68)),
    ("cifar10", "50 noisy"): (
        (975.79, 376.65, 248.32), (975.94, 377.15, 249.16), (975.80, 376.65, 248.32), (975.88, 377.32, 249.10)),
    ("fashion_mnist", "μ"): (
        (12.68, 10.94, 10.45), (15.59, 14.30, 15.22), (12.68, 10.94, 10.45), (15.67, 15.77, 15.34)),
    ("fashion_mnist", "20 noisy"): (
        (295.17, 107.62, 70.51), (295.29, 108.14, 71.81), (295.17, 107.62, 70.51), (296.38, 107.71, 71.88)),
    ("fashion_mnist", "50 noisy"): (
        (687.70, 269.77, 178.21), (687.76, 270.06, 179.22), (687.70, 269.78, 178.21), (688.40, 270.88, 179.17)),
    ("mnist", "μ"): ((15.05, 12.99, 12.57), (18.66, 17.13, 17.04), (15.05, 12.99, 12.57), (18.40, 17.02, 17.66)),
    ("mnist", "20 noisy"): (
        (290.19, 114.30, 75.81), (290.37, 115.12, 76.90), (290.19, 114.30, 75.81), (290.88, 115.13, 76.88)),
    ("mnist", "50 noisy"): (
        (688.94, 274.37, 181.39), (688.98, 275.06, 182.04), (688.94, 274.37, 181.39), (689.69, 275.54, 182.88)),
}  # fmt: skip
"""Table 1 by set and kind: direct, FedWad, TriangleWad with ones, TriangleWad with random defence data; by size."""


def _distances(found: Found) -> list[ResultTable]:
    rows = []
    for row in found["rows"]:
        stated = _DISTANCES.get((row["set"], row["kind"]))
        at = _SIZES.index(row["size"]) if row["size"] in _SIZES else None
        said = ["–"] * 4 if stated is None or at is None else [f"{values[at]:g}" for values in stated]
        ours = [f"{row[name]:.2f}" for name in ("direct", "fedwad_half", "ones", "random")]
        seconds = f"{row['seconds']['fedwad_half']:.2f} / {row['seconds']['ones']:.2f}"
        pairs = [f"{a} / {b}" for a, b in zip(said, ours, strict=True)]
        rows.append((row["set"], str(row["size"]), row["kind"], *pairs, f"{row['fedwad']:.2f}", seconds))
    header = (
        "set", "size", "first side", "direct", "FedWad, t = ½", "TriangleWad, ones", "TriangleWad, random",
        "FedWad, t drawn anew (ours)", "seconds: FedWad / TriangleWad",
    )  # fmt: skip
    return [ResultTable("W₂, published / ours", header, tuple(rows))]


def _contributions(found: Found) -> list[ResultTable]:
    rows = found["rows"]
    tables = []
    for name in dict.fromkeys(row["set"] for row in rows):
        lines = []
        for method in dict.fromkeys(row["method"] for row in rows):
            own = [row for row in rows if (row["set"], row["method"]) == (name, method)]
            cells = []
            for case in CASES[2:]:
                values = [row["values"] for row in own if row["case"] == case]
                last = sum(int(np.argmin(v)) == PARTIES - 1 for v in values)
                rank = [float(spearmanr(v, [-s for s in SHARES]).statistic) for v in values]
                cells += [f"{last} of {len(values)}", f"{np.mean(rank):.2f}"]
            seconds = [float(row["seconds"]) for row in own]
            lines.append((method, *cells, f"{np.mean(seconds):.2f}", str(len({row["seed"] for row in own}))))
        header = (
            "method", "wrong labels: worst party last", "rank correlation with quality",
            "noisy images: worst party last", "rank correlation with quality", "seconds per case", "seeds",
        )  # fmt: skip
        tables.append(ResultTable(f"{name}: ranks of five parties, and the time they take", header, tuple(lines)))
    return tables


def _detection(found: Found) -> list[ResultTable]:
    rows = found["rows"]
    shares = list(dict.fromkeys(row["share"] for row in rows))
    published = {"Lava, records": "100 %", "server, TriangleWad random": "75 %", "server, FedBary": "25 %"}
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        for method in dict.fromkeys(row["method"] for row in rows):
            cells = [
                spread([r["recall"] for r in rows if (r["set"], r["method"], r["share"]) == (name, method, share)], 2)
                for share in shares
            ]
            lines.append((name, method, published.get(method, "–"), *cells))
    header = ("set", "scores", "published", *(f"{share:.0%} noisy" for share in shares))
    return [ResultTable("Noisy images found among as many of the highest scores", header, tuple(lines))]


TABLES: dict[str, Maker] = {
    "triangle-wad-table-1": _distances,
    "triangle-wad-figure-5": _contributions,
    "triangle-wad-section-6-3": _detection,
}
