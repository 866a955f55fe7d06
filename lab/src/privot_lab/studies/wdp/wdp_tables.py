"""Tables 1 and 2 of the Wasserstein-DP paper, printed beside ours, and accuracy by epoch."""

from __future__ import annotations

import math
from typing import Any

from privot_lab.studies.result_tables import Found, Maker, ResultTable, plain
from privot_lab.studies.wdp.wdp_training import PRINTED, PROBABILITIES, WITHOUT

_COUNTS = (("privacy loss", 1e-5, 0), ("Bayesian", 1e-10, 1), ("Wasserstein", 1e-10, 2))
"""Accountant, δ, and the place of its budget in Table 2."""


def _mechanisms(found: Found) -> list[ResultTable]:
    rows = tuple(
        (
            row["noise"],
            f"{row['scale']:g}",
            "∞" if row["dp_printed"] is None else plain(row["dp_printed"]),
            plain(row["rdp_printed"]),
            plain(row["rdp"]),
            plain(row["wdp_printed"]),
            plain(row["wdp_exact"]),
        )
        for row in found["rows"]
    )
    header = ("noise", "scale", "DP, printed", "RDP, printed", "RDP, ours", "WDP, printed", "W_μ, exact")
    return [ResultTable(f"Sensitivity 1, order {found['order']:g}", header, rows)]


def _training(found: Found) -> list[ResultTable]:
    rows = []
    for open_run in found["without_privacy"]:
        reached = (plain(WITHOUT.get(open_run["data"])), f"{open_run['accuracy']:.3f}")
        rows.append((open_run["data"], "without privacy", *reached, *["–"] * 6))
    for row in found["rows"]:
        stated, chances = PRINTED.get(row["data"]), PROBABILITIES.get(row["data"])
        held = {(b["accountant"], b["delta"]): b for b in row["budgets"]}
        cells: list[str] = []
        for name, delta, at in _COUNTS:
            cells.append("–" if stated is None or chances is None else f"{stated[1 + at]:g} ({chances[at]:g})")
            cells.append(_counted(held.get((name, delta))))
        accuracy = ("–" if stated is None else f"{stated[0]:g}", f"{row['accuracy']:.3f}")
        rows.append((row["data"], f"{row['variant']}, σ = {row['sigma']:g}", *accuracy, *cells))
    rows.sort(key=lambda row: row[0])
    header = (
        "data", "run", "accuracy, published", "ours", "DP (δ = 1e-5), published", "ours", "BDP (δ = 1e-10), published",
        "ours", "WDP (δ = 1e-10), published", "ours",
    )  # fmt: skip
    budgets = ResultTable(
        "Budgets, in parentheses the probability of an attack's success, 1/(1 + e^−ε)", header, tuple(rows)
    )
    return [budgets, _curves(found)]


def _counted(budget: dict[str, Any] | None) -> str:
    """ε, the probability that the paper prints beside it, and the standing."""
    if budget is None:
        return "–"
    epsilon = math.inf if budget["epsilon"] is None else float(budget["epsilon"])
    value = "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"
    return f"{value} ({budget['printed_attack_probability']:.3f}), {budget['standing']}"


def _curves(found: Found) -> ResultTable:
    runs = [(row["data"], "without privacy", row["curve"]) for row in found["without_privacy"]]
    runs += [(row["data"], row["variant"], row["curve"]) for row in found["rows"]]
    rows = tuple((data, run, ", ".join(f"{e:.3g}: {a:.3f}" for e, a in curve)) for data, run, curve in sorted(runs))
    return ResultTable("Accuracy by epoch", ("data", "run", "epoch: accuracy"), rows)


TABLES: dict[str, Maker] = {"wdp-table-1": _mechanisms, "wdp-table-2": _training}
