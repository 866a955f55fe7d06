"""Tables of the studies about privot itself."""

from __future__ import annotations

import numpy as np

from privot_lab.studies.result_tables import Found, Maker, ResultTable


def _mean(values: list[float], digits: int) -> str:
    """The mean, and the standard deviation of several in parentheses."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({np.std(values, ddof=1):.{digits}f})"


def _values(found: Found) -> list[ResultTable]:
    tables = []
    for n in dict.fromkeys(row["records"] for row in found["rows"]):
        held = [row for row in found["rows"] if row["records"] == n]
        parties = list(held[0]["values"]["records"])
        rows = tuple(
            (_name(source), *(_mean([row["values"][source][party] for row in held], 3) for party in parties))
            for source in held[0]["values"]
        )
        title = f"Values of parties of {n:,} records: mean (standard deviation) of {len(held)} seeds"
        tables.append(ResultTable(title, ("values from", *parties), rows))
        agree = tuple(
            (
                _name(source),
                *(_agreement([row["agree"].get(f"{source} with {other}") for row in held]) for other in _BASES),
            )
            for source in held[0]["values"]
        )
        title = f"Rank correlation of the values, parties of {n:,} records: mean (least)"
        tables.append(ResultTable(title, ("values from", *(_name(other) for other in _BASES)), agree))
    return tables


_BASES = ("records", "transport", "accuracy")


def _name(source: str) -> str:
    known = {
        "records": "records, no privacy",
        "transport": "exact transport of single records",
        "accuracy": "accuracy of a classifier",
    }
    return known.get(source, f"sketches, {source}")


def _agreement(values: list[float | None]) -> str:
    held = [value for value in values if value is not None]
    return f"{np.mean(held):.2f} ({min(held):.2f})" if held else "1"


def _intervals(found: Found) -> list[ResultTable]:
    rows = tuple(
        (
            row["what"],
            f"{row['epsilon']:g}",
            f"{row['held']} of {row['intervals']} ({row['held'] / row['intervals']:.3f})",
            f"{row['width']:.3f}",
            f"{row['decided']} of {row['pairs']}",
            str(row["wrong"]),
        )
        for row in found["rows"]
    )
    header = (
        "parties of",
        "ε",
        "95 % intervals that hold the truth",
        "mean width",
        "orders decided",
        "decided wrongly",
    )
    return [ResultTable("Intervals over draws of all noise", header, rows)]


def _recall(found: Found) -> list[ResultTable]:
    seeds = found["seeds"]
    kinds = list(dict.fromkeys(kind for by in seeds[0].values() for kind in by))
    rows = tuple(
        (source, *(_mean([seed[source][kind] for seed in seeds], 2) if kind in by else "–" for kind in kinds))
        for source, by in seeds[0].items()
    )
    title = f"Bad records found among as many of the highest scores: mean (standard deviation) of {len(seeds)} seeds"
    return [ResultTable(title, ("scores", *kinds), rows)]


TABLES: dict[str, Maker] = {
    "privot-contributions": _values,
    "privot-value-intervals": _intervals,
    "privot-bad-records": _recall,
}
