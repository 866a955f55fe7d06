"""Plans of synthetic tables and images: the design that `privot synth` would make from the same public facts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from privot.common.extras import require
from privot.errors import UsageError
from privot.kinds import Images
from privot.plan.plan_settings import Settings
from privot.plan.planned import Planned, call, facts_of, paid_by, plain, planned_release, words

MAX_COLUMNS = {"table": 200, "images": 4096}
"""Larger designs take minutes to make."""
MAX_CLASSES = 200


def synthesis_plan(s: Settings, ledger: Path | None) -> Planned:
    """What a synthesis of such records would charge, and from how many records on it carries them."""
    require("Planning a synthesis needs", "synthesis", "torch", "safetensors", "jinja2")
    from privot.synthesis.neural.defaults.rows_needed import rows_needed

    if s.columns > MAX_COLUMNS[s.kind]:
        raise UsageError(f"Columns must be at most {MAX_COLUMNS[s.kind]} to be planned here, got {s.columns}.")
    if s.classes > MAX_CLASSES:
        raise UsageError(f"Classes must be at most {MAX_CLASSES} to be planned here, got {s.classes}.")
    design, facts, command, python = (_table if s.kind == "table" else _images)(s, ledger)
    event = design.event(facts)
    need = rows_needed(design, s.epsilon, s.delta)
    assert need is not None
    plan = planned_release(event, need.noise, getattr(event, "sensitivity", math.nan), s.delta)
    enough = "enough" if s.records >= need.records else f"too few: about ε = {need.epsilon_for(s.records):.2g} would do"
    errors = [
        ("every count", f"noise of {need.noise:.4g} records"),
        (f"{need.what} needs", f"about {need.records} records; {s.records} are {enough}"),
    ]
    if s.kind == "table":
        errors += _table_errors(design, s.records)
    if ledger is not None:
        command += ["--ledger", str(ledger)]
    notes = (
        "All columns are taken for numbers from 0 to 1: a schema of yours may need a little more or less noise."
        if s.kind == "table"
        else "Images are taken to be square, with one channel and values from 0 to 255.",
    )
    return Planned(plan, errors, command, python, notes)


def _table_errors(design: Any, records: int) -> list[tuple[str, str]]:
    """The total variation that noise alone will make in columns and pairs."""
    from privot.synthesis.tabular.expected_error import expected_errors

    found = expected_errors(design, records)
    column = found.columns[0]
    said = f"about {column.error:.3f} in {column.groups} groups" if not found.drowned else "drowned by noise"
    out = [("total variation of a column's counts", said)]
    if found.pairs:
        drowned = len(found.drowned_pairs) == len(found.pairs)
        out.append(("of a pair of columns", "drowned by noise" if drowned else f"about {found.pairs[0].error:.3f}"))
    return out


def table_schema(columns: int, classes: int) -> Any:
    """A schema of so many numbers from 0 to 1 and a label with so many values."""
    from privot.tables import Column, Schema

    numbers = [Column.from_dict({"name": f"c{i}", "type": "continuous", "low": 0, "high": 1}) for i in range(columns)]
    if classes < 2:
        return Schema(tuple(numbers), None)
    names = [f"class {i}" for i in range(classes)]
    label = Column.from_dict({"name": "label", "type": "categorical", "categories": names})
    return Schema((*numbers, label), "label")


def _table(s: Settings, ledger: Path | None) -> tuple[Any, Any, list[str], str]:
    from privot.synthesis import Synthesizer
    from privot.tables import TableCodec

    codec = TableCodec(table_schema(s.columns, s.classes))
    facts = facts_of(s, len(codec.features), codec.bound(compact=True), codec.classes)
    design = Synthesizer(s.epsilon, s.delta, kind=codec).design(facts)
    command = ["privot", "synth", "data.csv", "--schema", "schema.json", *words(_terms(s)), "--out", "synthetic"]
    python = "\n".join(
        [
            f"from privot import {_ledger(ledger)}Schema, Synthesizer, Vault",
            "",
            'schema = Schema.load("schema.json")',
            *call("vault = Vault.open", '"data.csv"', "schema", f'adjacency="{s.adjacency}"', paid_by(s, ledger)),
            *call("model = Synthesizer", plain(s.epsilon), plain(s.delta)),
            "table, _ = model.fit(vault).sample(10_000)",
        ]
    )
    return design, facts, command, python


def _images(s: Settings, ledger: Path | None) -> tuple[Any, Any, list[str], str]:
    from privot.synthesis import Synthesizer

    side = math.isqrt(s.columns)
    if side * side != s.columns or side < 4:
        raise UsageError(f"Columns must be the pixels of a square image, like 784 = 28·28, got {s.columns}.")
    facts = facts_of(s, s.columns, classes=s.classes)
    made = Synthesizer(s.epsilon, s.delta, records=s.records, kind=Images((side, side), low=0.0, high=255.0))
    options = {"classes": s.classes, "shape": f"{side},{side}", "range": "0,255", **_terms(s)}
    options["set"] = f"records={s.records}"
    command = ["privot", "synth", "images.npz", *words(options), "--out", "synthetic"]
    held = ['"images.npz"', f"Images(({side}, {side}), classes={s.classes}, clip=1.0, high=255)"]
    made_of = [plain(s.epsilon), plain(s.delta), f"records={s.records}"]
    python = "\n".join(
        [
            f"from privot import {_ledger(ledger)}Synthesizer, Vault",
            "from privot.kinds import Images",
            "",
            *call("vault = Vault.open", *held, f'adjacency="{s.adjacency}"', paid_by(s, ledger)),
            *call("model = Synthesizer", *made_of),
            "x, y = model.fit(vault).sample(10_000)",
        ]
    )
    return made.design(facts), facts, command, python


def _terms(s: Settings) -> dict[str, Any]:
    return {"epsilon": s.epsilon, "delta": s.delta, "adjacency": s.adjacency}


def _ledger(ledger: Path | None) -> str:
    return "" if ledger is None else "Ledger, "
