"""Tables 1, 2 and 4 of the DP-SWD paper, printed beside ours."""

from __future__ import annotations

from privot_lab.studies.dp_swd.adaptation_table import PRINTED as ADAPTED
from privot_lab.studies.dp_swd.generative_table import OPENLY
from privot_lab.studies.dp_swd.generative_table import PRINTED as GENERATED
from privot_lab.studies.result_tables import Found, Maker, ResultTable, plain, printed, shares, spread

_COLUMNS = {"dann": 0, "swd": 1, "dp-dann": 2, "sliced": 3}
"""Where Table 1 prints a method; DP-SWD is `sliced`."""
_NAMES = {
    "source": "no adaptation (`source`)",
    "swd": "SWD",
    "dann": "DANN",
    "dp-dann": "DP-DANN",
    "sliced": "DP-SWD (`sliced`)",
    "embedding": "ours: `embedding`",
}
_BOUNDS = {
    "exact": "DP-SWD, exact law (ours)",
    "bernstein": "DP-SWD-b",
    "clt": "DP-SWD-c",
    "embedding": "DP-MERF (ours: `embedding`)",
}


def _adaptation(found: Found) -> list[ResultTable]:
    rows = []
    for row in found["rows"]:
        stated = ADAPTED.get((row["source"], row["target"]))
        at = _COLUMNS.get(row["method"])
        beside = stated is not None and at is not None and row["epsilon"] in (None, 10.0)
        rows.append(
            (
                f"{row['source']} to {row['target']}",
                _NAMES[row["method"]],
                "∞" if row["epsilon"] is None else f"{row['epsilon']:g}",
                f"{stated[at]:g}" if beside and stated is not None and at is not None else "–",
                spread([100.0 * a for a in row["accuracy"]]),
            )
        )
    header = ("source to target", "method", "ε", "published", "ours")
    return [ResultTable("Accuracy on the target's test images, %", header, tuple(rows))]


def _generation(found: Found) -> list[ResultTable]:
    rows = []
    for data, held in found["without_privacy"].items():
        stated = tuple(OPENLY[data].values()) if data in OPENLY else None
        rows.append((data, "SWD", "∞", printed(stated), shares(held, "mlp"), shares(held, "logreg")))
    for row in found["rows"]:
        stated = None if row["bound"] == "exact" else GENERATED.get(row["data"], {}).get(row["bound"])
        own = (shares(row["found"], "mlp"), shares(row["found"], "logreg"))
        rows.append((row["data"], _BOUNDS[row["bound"]], f"{found['epsilon']:g}", printed(stated), *own))
    rows.sort(key=lambda row: row[0], reverse=True)
    header = ("data", "method", "ε", "published MLP / LogReg", "our MLP", "our LogReg")
    return [ResultTable("Accuracy on real test images, %", header, tuple(rows))]


def _noise(found: Found) -> list[ResultTable]:
    rows = tuple(
        (
            row["data"],
            f"{row['delta']:g}",
            f"{row['published']:g} ({'Bernstein' if row['bound'] == 'bernstein' else 'CLT'})",
            plain(row["as_published"]),
            plain(row[row["bound"]]),
            plain(row["exact"]),
            plain(row["frames"]),
            plain(row["epsilon_of_published"], 3),
        )
        for row in found["rows"]
    )
    header = (
        "data", "δ", "published σ", "Proposition 2 (unproven)", "the bound charged at every draw", "exact law",
        "exact law, frames", "ε of the published σ by the exact law",
    )  # fmt: skip
    return [ResultTable(f"σ for ε = {found['epsilon']:g}, replace-one", header, rows)]


TABLES: dict[str, Maker] = {
    "dp-swd-table-1": _adaptation,
    "dp-swd-table-2": _generation,
    "dp-swd-table-4": _noise,
}
