"""`privot bench transport`, `growth`, `accounting` and `noise`: what is measured, and what is drawn of it."""

from __future__ import annotations

import json

import pytest

from privot.cli import run


@pytest.mark.slow
def test_bench_transport_measures_all_libraries_and_draws(capsys, tmp_path):
    assert run(["bench", "transport", "--sizes", "20", "--device", "cpu", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {(r["job"], r["who"]) for r in found["rows"]} >= {
        ("sliced", "privot"),
        ("sliced", "privot checked"),
        ("sliced", "PyTorch"),
        ("sinkhorn", "privot checked"),
        ("sliced", "floor"),
        ("sliced", "POT"),
        ("sinkhorn", "privot"),
        ("sinkhorn", "GeomLoss"),
        ("sinkhorn", "POT"),
    }
    assert all(row["single"] > 0.0 for row in found["rows"] if row["seconds"])
    asked = next(r["error"] for r in found["rows"] if r["who"] == "GeomLoss")
    reached = next(r["error"] for r in found["rows"] if r["job"] == "sinkhorn" and r["who"] == "privot")
    assert reached <= asked * 1.01 + 1e-6
    assert all(
        key.startswith(("job", "n", "times", "checked_times", "over")) for ratio in found["ratios"] for key in ratio
    )
    assert (tmp_path / "transport.png").exists()
    assert json.loads((tmp_path / "transport.json").read_text())["rows"] == found["rows"]
    assert run(["bench", "transport", "--sizes", "ten"]) == 2
    assert run(["bench", "transport", "--jobs", "juggling", "--device", "cpu"]) == 2


def test_bench_typed_types_what_people_type(capsys, monkeypatch):
    import ot
    import torch

    from privot_lab.bench import transport_bench

    seen = []
    for owner, name in ((transport_bench, "sliced"), (ot, "sliced_wasserstein_distance")):
        call = getattr(owner, name)

        def told(*given, name=name, call=call, **more):
            seen.append((name, len(given), *more.items(), torch.get_num_threads()))
            return call(*given, **more)

        monkeypatch.setattr(owner, name, told)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    before = torch.get_num_threads()
    assert run(["bench", "typed", "--sizes", "20", "--threads", "1,2", "--json"]) == 0
    assert torch.get_num_threads() == before
    rows = json.loads(capsys.readouterr().out)["rows"]
    wanted = [(t, g, d) for t in (1, 2) for g in (False, True) for d in (2, 64, 784)]
    assert [(r["threads"], r["gradient"], r["dim"]) for r in rows] == wanted
    assert all(r["seconds"] > 0 and set(r["shares"]) == {"POT", "POT 1000", "PyTorch"} for r in rows)
    plain = {(name, 2, t) for name in ("sliced", "sliced_wasserstein_distance") for t in (1, 2)}
    assert set(seen) == plain | {("sliced_wasserstein_distance", 2, ("n_projections", 1000), t) for t in (1, 2)}
    assert run(["bench", "typed", "--sizes", "20", "--threads", "1"]) == 0
    assert "| 20 | 784 | gradient |" in capsys.readouterr().out
    assert run(["bench", "typed", "--threads", "two"]) == 2
    assert run(["bench", "typed", "--sizes", "1"]) == 2


def test_bench_growth_fits_exponents_and_draws(capsys, tmp_path):
    arguments = ["bench", "growth", "--sizes", "20,40", "--slices", "10", "--device", "cpu", "--out", str(tmp_path)]
    assert run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["n"] for row in found["rows"]] == [20, 40]
    assert all(row["sliced"] > 0 and row["sinkhorn_an_iteration"] > 0 for row in found["rows"])
    assert set(found["exponents"]) == {"sliced in n log n", "Sinkhorn's iteration in n", "Sinkhorn's memory in n"}
    assert (tmp_path / "growth.png").exists()
    assert run(["bench", "growth", "--sizes", "40,20", "--device", "cpu"]) == 2


def test_the_slope_of_a_power_is_its_exponent():
    from privot_lab.bench.growth import _slope

    assert _slope([(n, 3.0 * n**1.7) for n in (10, 100, 1000)]) == pytest.approx(1.7)
    assert _slope([(1.0, 2.0)]) is None


@pytest.mark.slow
def test_bench_accounting_agrees_with_its_peers(capsys, monkeypatch):
    from privot_lab.bench import accounting_bench

    # what takes peers a second or less: tests of accounting compare with them everywhere
    for name in ("CASES", "HISTORIES"):
        monkeypatch.setattr(accounting_bench, name, getattr(accounting_bench, name)[1:])
    assert run(["bench", "accounting", "--no-calibrations", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["adjacency"], found["calibration"]) == ("add-remove", [])
    for row in found["speed"]:
        if row["epsilon_dp_accounting"] is not None:
            # both are upper bounds; on its usual grid dp-accounting's is looser for many steps; at δ = 1e-12 the
            # rounding of its transforms, which depends on the processor, moves ε by up to a hundredth
            most = 1.01 if row["delta"] < 1e-9 else 1.0005
            assert 0.99 * row["epsilon_dp_accounting"] < row["epsilon"] < most * row["epsilon_dp_accounting"]
    for row in found["agreement"]:
        # a Rényi bound is never below composed losses
        if row["renyi"] is not None:
            assert row["renyi"] == pytest.approx(row["renyi_opacus"], rel=1e-6)
            assert row["losses"] < row["renyi"]
    for row in found["filter"]:
        # what is promised of whoever chooses costs no less than what happened, and Gaussians nothing more
        assert row["composed"] <= row["filter"] * (1.0 + 1e-4)
        if "Gaussians" in row["jobs"]:
            assert row["filter"] == pytest.approx(row["composed"], rel=1e-4)
    # what is printed is what was measured; measuring once is enough
    monkeypatch.setattr("privot_lab.bench.accounting_bench.measure_accounting", lambda *, calibrations: found)
    assert run(["bench", "accounting", "--no-calibrations"]) == 0
    assert "add-remove, proven" in capsys.readouterr().out


def test_calibrations_of_the_benchmark_reach_their_target(monkeypatch):
    pytest.importorskip("torch")
    from privot_lab.bench import accounting_bench

    monkeypatch.setattr(accounting_bench, "STEPS", (1,))
    monkeypatch.setattr(accounting_bench, "DELTAS", (1e-5,))
    rows = accounting_bench._calibrations()
    assert len(rows) == 15
    for row in rows:
        assert 0.99 * row["epsilon"] <= row["epsilon_reached"] <= row["epsilon"]


def test_bench_noise_counts_normals(capsys, monkeypatch):
    pytest.importorskip("torch")
    from privot_lab.bench import noise_bench

    found = noise_bench.measure_noise(1, cpu_normals=4096)
    assert found["cpu_normals_per_second"] > 1e4
    clock = iter([0.0, 2.0, 10.0, 10.5])
    monkeypatch.setattr(noise_bench.time, "perf_counter", lambda: next(clock))
    # the best of two runs: half a second
    assert noise_bench._rate(lambda: None, 1000, 2) == 2000.0
    assert run(["bench", "noise", "--repeats", "0"]) == 2
