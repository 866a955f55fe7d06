"""`privot evaluate` names a column that the schema breaks, with exit code 0: the figures are there, and right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.cli import run


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_linear_schema_for_a_heavy_tail_is_warned_of(scale: str, capsys: Any, tmp_path: Path) -> None:
    for name, seed in (("made", 0), ("real", 1)):
        spent = np.random.default_rng(seed).lognormal(3.5, 1.5, 400).clip(max=50_000)
        (tmp_path / f"{name}.csv").write_text("spent\n" + "\n".join(f"{v:.2f}" for v in spent) + "\n", encoding="utf-8")
    column = {"name": "spent", "type": "continuous", "low": 0, "high": 50_000, "scale": scale}
    (tmp_path / "schema.json").write_text(json.dumps({"columns": [column]}), encoding="utf-8")
    asked = ["evaluate", str(tmp_path / "made.csv"), "--test", str(tmp_path / "real.csv")]
    asked += ["--schema", str(tmp_path / "schema.json")]
    assert run([*asked, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["numbers"][0]["quantiles"]["real"][2] == pytest.approx(33.0, rel=0.25)
    assert len(answer["broken"]) == (scale == "linear")
    assert run(asked) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert ("warning" in said and "scale: log" in said) is (scale == "linear")
