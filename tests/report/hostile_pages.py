"""Folders with everything that a page shows, small and quickly made, with names that try to break out of it."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from privot.accounting import Gaussian, account
from privot.cli import run
from privot.data.loading import load
from privot.guarantee import Adjacency, Standing
from privot.ledger import Ledger
from privot.report.adaptation_page import write_adaptation_pages

HOSTILE = "<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=2>"
LONG = "anextremelylongcolumnnamewithoutanyspaceinitwhichcannotbebrokenanywhere" * 2
SCHEMA: dict[str, Any] = {
    "label": "ill",
    "columns": [
        {"name": HOSTILE, "type": "integer", "low": 0, "high": 99},
        {"name": LONG, "type": "categorical", "categories": ["</svg><script>hacked=3</script>", "Bonn & Ulm", "c"]},
        {"name": "income", "type": "continuous", "low": 0, "high": 1e6, "scale": "log", "missing": True},
        {"name": "since", "type": "date", "low": "2000-01-01", "high": "2024-12-31"},
        {"name": "turn\u202eround", "type": "boolean"},
        {"name": "ill", "type": "boolean", "categories": ["no", "yes"]},
    ],
}
TERMS = "--delta 1e-6 --adjacency add-remove --seed 1 --device cpu".split()


def table_folder(out: Path) -> None:
    """A synthetic table with an evaluation that looked at the records behind it."""
    dice = random.Random(0)
    place = out.parent
    place.mkdir(parents=True, exist_ok=True)
    (place / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    lines = [",".join('"' + column["name"].replace('"', '""') + '"' for column in SCHEMA["columns"])]
    for _ in range(400):
        ill = dice.random()
        words = SCHEMA["columns"][1]["categories"][int(3 * ill)]
        income = "" if dice.random() < 0.1 else f"{10 ** (6 * dice.random()):.0f}"
        day = f"{2000 + int(24 * ill)}-0{dice.randrange(1, 9)}-11"
        lines.append(
            f'{int(99 * ill)},"{words}",{income},{day},{["false", "true"][ill > 0.3]},{["no", "yes"][ill > 0.5]}'
        )
    (place / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = str(place / "data.csv")
    terms = ["--schema", str(place / "schema.json"), "--epsilon", "3", *TERMS, "--samples", "300"]
    assert run(["synth", data, *terms, "--out", str(out)]) == 0
    assert run(["evaluate", str(out), "--test", data, "--private", data]) == 0


def image_folder(out: Path) -> None:
    """Synthetic digits with an evaluation and a short audit."""
    digits = load("digits")
    assert digits.y is not None
    out.parent.mkdir(parents=True, exist_ok=True)
    data = str(out.parent / "digits.npz")
    np.savez(data, x=digits.x[:300].reshape(-1, 8, 8), y=digits.y[:300])
    terms = ["--classes", "10", "--shape", "8,8", "--range", "0,1", "--epsilon", "9", *TERMS]
    assert run(["synth", data, *terms, "--set", "steps=20", "--samples", "200", "--out", str(out)]) == 0
    assert run(["evaluate", str(out), "--test", data, "--public-test", "--device", "cpu"]) == 0
    assert run(["audit", str(out), "--trials", "2000", "--runs", "50"]) in (0, 7)


def ledger_folder(out: Path) -> None:
    """The page of a ledger with a raise and two data sets, one of them of no proven standing."""
    from privot.accounting.events import Downgraded

    out.mkdir(parents=True)
    with Ledger.create(out / "book.ledger") as ledger:
        for number, label in enumerate((HOSTILE, LONG)):
            name = f"{number:064d}"
            ledger.set_budget(name, 2.0, 1e-5, "add-remove", label, new_records=number > 0)
            ledger.charge(name, Gaussian(4.0, 1.0, Adjacency.ADD_REMOVE), LONG)
        ledger.raise_budget(f"{0:064d}", 5.0, HOSTILE, i_am_the_steward=True)
        ledger.charge(
            f"{0:064d}", Downgraded(Gaussian(4.0, 1.0, Adjacency.ADD_REMOVE), Standing.UNPROVEN, "a test"), HOSTILE
        )
    assert run(["ledger", "show", str(out / "book.ledger"), "--out", str(out / "report.html")]) == 0


def adaptation_folder(out: Path) -> None:
    """The pages of an adaptation with pictures and a score."""
    grid = io.BytesIO()
    Image.fromarray(np.zeros((40, 130), dtype=np.uint8)).save(grid, format="PNG")
    pictures = [(HOSTILE, "", grid.getvalue()), (LONG, "", grid.getvalue()), ("Labels", HOSTILE, grid.getvalue())]
    names = [HOSTILE, LONG, "c"]
    score: dict[str, Any] = {"accuracy": 0.6, "baseline": 0.7, "records": 30}
    score["confusion"] = {"matrix": [[5, 3, 2], [0, 10, 0], [7, 0, 3]], "names": names}
    out.mkdir(parents=True)
    guarantee = account(Gaussian(3.0, 1.0, Adjacency.REPLACE_ONE), 1e-5)
    facts, parts = [["method", LONG], ["σ", "3"]], [["the target", "private"], [HOSTILE, LONG]]
    write_adaptation_pages(out, guarantee, facts, [3.0, 2.0, 1.0], score, pictures, parts, "privot adapt " + LONG)
