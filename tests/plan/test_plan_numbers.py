"""The planner's numbers are those of the commands and of the Python that it offers to copy."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.accounting import Composed, Gaussian, account
from privot.accounting.events import Event
from privot.accounting.units import for_unit
from privot.cli import run
from privot.errors import UsageError
from privot.kinds import Unit
from privot.plan import measured
from privot.plan.plan_answers import answer
from privot.plan.plan_settings import FIELDS, KINDS, read_settings
from privot.plan.plans import make_plan
from privot.plan.synthesis_plans import table_schema

ROOT = Path(__file__).parents[2]
RELEASES, ACCOUNTS = 15, 12


def drawn(rng: np.random.Generator, kind: str, **given: Any) -> dict[str, Any]:
    """Random settings of a kind, with as many digits as floats have."""
    records = int(10 ** rng.uniform(1.5, 5.0))
    low = float(rng.uniform(-50, 50))
    found = {
        "kind": kind,
        "adjacency": "replace-one" if kind == "projection" else str(rng.choice(["add-remove", "replace-one"])),
        "clipping": str(rng.choice(["per-example", "matrix"])),
        "epsilon": float(10 ** rng.uniform(-1.0, 1.0)),
        "delta": float(10 ** rng.uniform(-9.0, -3.0)),
        "records": records,
        "columns": int(10 ** rng.uniform(0.3, 3.0)),
        "classes": int(rng.integers(2, 40)),
        "batch": int(rng.integers(1, max(2, records // 4))),
        "epochs": float(rng.uniform(0.5, 20.0)),
        "slices": int(rng.integers(1, 300)),
        "low": low,
        "high": low + float(10 ** rng.uniform(-1.0, 3.0)),
        "person": 1,
    }
    return found | given


def command_answer(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the command prints with --json."""
    words = shlex.split(command)
    assert words[0] == "privot"
    assert run([*words[1:], "--json"]) == 0, capsys.readouterr().err
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.slow
def test_numbers_equal_those_of_privot_account(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(26)
    for number in range(ACCOUNTS):
        asked = drawn(rng, ("embedding", "gradient", "projection", "embedding")[number % 4])
        found = answer(asked)
        assert "refused" not in found, (asked, found)
        # every number and word, to the last bit
        assert found["numbers"] == command_answer(found["command"], capsys), asked


@pytest.mark.slow
def test_numbers_equal_those_of_privot_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(27)
    for number in range(RELEASES):
        asked = drawn(rng, ("mean", "count", "histogram")[number % 3])
        asked["records"] = min(asked["records"], 3000)
        asked["epsilon"] = max(asked["epsilon"], 0.5)
        place = tmp_path / str(number)
        place.mkdir()
        monkeypatch.chdir(place)
        middle = (asked["low"] + asked["high"]) / 2.0 if asked["kind"] == "mean" else 0.5
        np.savetxt("data.csv", np.full((asked["records"], 1), middle), header="a", comments="", fmt="%.17g")
        found = answer(asked)
        assert "refused" not in found, (asked, found)
        paid = command_answer(found["command"], capsys)
        assert found["numbers"]["sigma"] == paid["public"]["sigma"], asked
        _check_guarantee(found, paid)
        _check_margin(asked, found, paid)


def _check_guarantee(found: dict[str, Any], paid: dict[str, Any]) -> None:
    """What was paid is what was planned; a vault adds what it assumes of its noise."""
    planned, guarantee = found["numbers"], paid["guarantee"]
    for name in ("epsilon", "delta", "adjacency", "standing", "sampling", "events"):
        assert planned[name] == guarantee[name], name
    assert set(planned["assumptions"]) <= set(guarantee["assumptions"])


def _check_margin(asked: dict[str, Any], found: dict[str, Any], paid: dict[str, Any]) -> None:
    """Half the width of the interval that was released, where nothing cut it, is the error that was planned."""
    said = float(re.search(r"± (\S+)", found["errors"][0][1]).group(1).rstrip(","))  # type: ignore[union-attr]
    low, high, estimate = (np.atleast_1d(paid[name]) for name in ("low", "high", "estimate"))
    ends = (asked["low"], asked["high"]) if asked["kind"] == "mean" else (0.0, float(asked["records"]))
    whole = (low > ends[0]) & (high < ends[1])
    planned = np.full(low.shape, said)
    if asked["kind"] == "mean" and asked["adjacency"] == "add-remove" and whole.all():
        # planned for the number of records and a mean in the middle; released with a noisy number and a noisy mean
        number, half = float(paid["count"]), (asked["high"] - asked["low"]) / 2.0
        total = (estimate - asked["low"] - half) / half * number
        sigma = paid["public"]["sigma"]
        planned *= _mean_margin(number, total, sigma) / _mean_margin(asked["records"], 0.0, sigma)
    np.testing.assert_allclose(((high - low) / 2.0)[whole], planned[whole], rtol=2e-3)
    assert estimate.shape == low.shape


def _mean_margin(number: float, total: Any, sigma: float) -> Any:
    """Half the width of Fieller's interval of total/number, both with noise of σ."""
    square = (1.959963985 * sigma) ** 2
    return np.sqrt(square * (number**2 + total**2 - square)) / (number**2 - square)


@pytest.mark.gate(each="kind")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "images"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_numbers_equal_those_of_privot_synth(
    kind: str, adjacency: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(28)
    monkeypatch.chdir(tmp_path)
    asked = drawn(rng, kind, adjacency=adjacency, records=300, classes=3, columns=4 if kind == "table" else 64)
    found = answer(asked)
    if kind == "table":
        schema = table_schema(4, 3)
        schema.save("schema.json")
        rows = [",".join([*(f"{v:.3f}" for v in rng.random(4)), f"class {i % 3}"]) for i in range(300)]
        Path("data.csv").write_text("\n".join(["c0,c1,c2,c3,label", *rows]) + "\n")
        paid = command_answer(found["command"], capsys)
    else:
        np.savez("images.npz", x=rng.integers(0, 256, (300, 8, 8)), y=np.arange(300) % 3)
        paid = command_answer(found["command"] + " --set steps=2 --samples 10", capsys)
    _check_guarantee(found, paid)


@pytest.mark.parametrize("kind", ["embedding", "gradient", "projection"])
def test_the_python_to_copy_gives_the_same_sigma(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(drawn(np.random.default_rng(3), kind, records=1000, batch=100, epochs=2.5))
    exec(found["python"], {})
    assert float(capsys.readouterr().out) == found["numbers"]["sigma"]


@pytest.mark.parametrize("kind", ["mean", "count", "histogram"])
def test_the_python_to_copy_releases_at_the_same_sigma(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savetxt("data.csv", np.full((400, 1), 0.5), header="a", comments="")
    found = answer(drawn(np.random.default_rng(4), kind, low=0.0, high=1.0, records=400))
    held: dict[str, Any] = {}
    exec(found["python"].replace("print(", "made = (").replace(".value)", ")"), held)
    assert held["made"].public["sigma"] == found["numbers"]["sigma"]
    exec(found["python"], {})
    assert "estimate" in capsys.readouterr().out


def test_the_error_of_a_mean_by_hand() -> None:
    asked = drawn(np.random.default_rng(5), "mean", adjacency="replace-one", records=1000, low=0.0, high=10.0)
    found = answer(asked)
    # 1.96·σ/n of half the range, 5
    expected = 5.0 * 1.959963985 * found["numbers"]["sigma"] / 1000
    assert float(found["errors"][0][1].split()[1].rstrip(",")) == pytest.approx(expected, rel=1e-3)


def test_measured_figures_stand_in_the_results() -> None:
    for result in measured.results():
        page = (ROOT / result["page"]).read_text()
        assert result["commit"] in page
        value = result["value"].removesuffix(" %")
        rows = [line for line in page.splitlines() if value in line.replace("*", "")]
        assert rows, result
        assert result["real"].removesuffix(" %") in page, result
        if result["kind"] == "images":
            assert any(line.startswith(f"| {result['data']} | {result['epsilon']:g} |") for line in rows), result
            # the last of LogReg / MLP / CNN on real data
            assert re.search(rf"/ {result['real'].removesuffix(' %')}\b", page), result


def test_measured_figures_are_the_nearest() -> None:
    assert [r["epsilon"] for r in measured.nearest("images", 8.0)][:2] == [10, 10]
    assert [r["epsilon"] for r in measured.nearest("images", 0.1)][:2] == [0.2, 0.2]
    assert measured.nearest("mean", 1.0) == []
    assert "add-remove, proven" in answer(drawn(np.random.default_rng(1), "table", columns=3))["measured"][0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"adjacency": None}, "nothing is chosen"),
        ({"adjacency": "both"}, "Choose which data sets are neighbours"),
        ({"kind": "sum"}, "Choose what is planned"),
        ({"epsilon": -1}, "ε must be a number from"),
        ({"epsilon": float("nan")}, "ε must be a number from"),
        ({"epsilon": 10**400}, "ε must be a number from"),
        ({"epsilon": True}, "ε must be a number from"),
        ({"epsilon": "1"}, "ε must be a number from"),
        ({"records": 10.5}, "Records must be a whole number"),
        ({"batch": 200}, "at least as many records"),
        ({"path": "/etc/passwd"}, "Unknown setting"),
    ],
)
def test_bad_settings_get_one_sentence(change: dict[str, Any], sentence: str) -> None:
    asked = drawn(np.random.default_rng(2), "gradient", records=100, batch=10)
    found = answer(asked | change)
    assert set(found) == {"refused"}
    assert sentence in found["refused"]


def test_what_is_no_object_or_lacks_a_field_is_refused() -> None:
    assert "object" in answer([1, 2])["refused"]
    assert (
        "Epochs is missing" in answer({"kind": "gradient", "adjacency": "add-remove", **_firsts("epochs")})["refused"]
    )
    with pytest.raises(UsageError, match="Unknown setting"):
        read_settings({"a": 1})


def _firsts(without: str) -> dict[str, float]:
    return {name: field.first for name, field in FIELDS.items() if name != without}


def test_projections_are_refused_under_add_remove_with_the_library_s_sentence() -> None:
    found = answer(drawn(np.random.default_rng(2), "projection", adjacency="add-remove"))
    assert "shows how many records took part" in found["refused"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_number_is_without_adjacency_standing_and_unit(kind: str) -> None:
    asked = drawn(np.random.default_rng(9), kind, records=500, batch=50, columns=64, epochs=1, person=2)
    found = answer(asked)
    for words in (asked["adjacency"], "proven", "δ =", "one record"):
        assert words in found["promise"]
    for words in (asked["adjacency"], "proven", "δ ="):
        assert words in found["people"]


@pytest.mark.parametrize("kind", ["mean", "count", "histogram", "embedding", "table"])
def test_the_page_says_what_a_unit_of_several_records_costs(kind: str) -> None:
    asked = drawn(np.random.default_rng(5), kind, adjacency="add-remove", epsilon=1.0, records=2000, person=3)
    found = answer(asked)
    assert ["unit", "one record"] in found["facts"]
    assert "--unit COLUMN --per-unit 3" in found["people"]
    assert "3 times as large" in found["people"]
    # as said: of noise three times as large, three records cost what one costs beside the noise of the plan
    planned = make_plan(read_settings(asked)).plan
    wider = account(for_unit(_widened(planned.event, 3.0), Unit("who", 3)), asked["delta"])
    assert wider.epsilon() == pytest.approx(planned.guarantee.epsilon(), rel=1e-6)
    assert str(wider.unit) == "one who, at most 3 rows"
    # units are of add-remove alone
    assert "--unit" not in answer({**asked, "adjacency": "replace-one"})["people"]


def _widened(event: Event, factor: float) -> Event:
    if isinstance(event, Gaussian):
        return replace(event, sigma=event.sigma * factor)
    assert isinstance(event, Composed)
    return Composed(tuple(_widened(part, factor) for part in event.events))
