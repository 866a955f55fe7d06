"""The study of colour images: verdicts follow accuracy and FID; the wide network learns and is what it says."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.errors import DataError, UsageError
from privot_lab.studies import StudyRun, find_study

torch = pytest.importorskip("torch")


def scored(monkeypatch: pytest.MonkeyPatch, wide: float, fid: float | None) -> list[Any]:
    """Put figures in place of training; what was asked for."""
    asked: list[Any] = []

    def stand_in(run: Any, name: str, kind: str, epsilon: float, seed: int, **more: Any) -> dict[str, Any]:
        asked.append((kind, epsilon, seed))
        shown = {"of": 10, "classes": [3], "shape": [2, 2, 3], "bytes": base64.b64encode(bytes(range(12))).decode()}
        found = {"wide": wide, "cnn": 0.1, "standing": "proven", "epsilon": epsilon, "seconds": 1.0, "shown": shown}
        return found | ({} if fid is None else {"fid": fid})

    monkeypatch.setattr("privot_lab.studies.product.colour_images._scores", stand_in)
    monkeypatch.setattr("privot_lab.studies.product.colour_images._real", lambda *given: 0.6)
    return asked


def test_verdicts_follow_both_goals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = scored(monkeypatch, 0.53, 100.0)
    run = StudyRun(find_study("privot-colour"))
    result = run.result({"steps": 0, "seeds": 2, "epsilons": [10.0, 1.0, 0.2], "kinds": ["plain", "encoder"]})["result"]
    # without its file nothing is said of an encoder
    assert {kind for kind, _, _ in asked} == {"plain"}
    assert [f["verdict"] for f in result["findings"]] == ["reproduced", "not reproduced", "reproduced"]
    assert "5 too much" in result["findings"][1]["why"]
    (tmp_path / "encoder.pt2").write_bytes(b"")
    run = StudyRun(find_study("privot-colour"), data_folder=tmp_path)
    result = run.result({"steps": 0, "kinds": ["encoder"]})["result"]
    assert "9.0 points are missing" in result["findings"][0]["why"]
    # a run that was shortened reaches nothing
    assert {f["verdict"] for f in run.result({"steps": 5})["result"]["findings"]} == {"not reproduced"}
    # faces are compared with real ones
    result = run.result({"steps": 0, "kinds": ["encoder"], "sets": ["celeba"]})["result"]
    assert [f["verdict"] for f in result["findings"]] == ["not reproduced", "not reproduced"]
    assert "5.0 points are missing" in result["findings"][0]["why"]
    # an encoder of faces is for faces alone, and where its file is
    asked.clear()
    given = {"steps": 0, "kinds": ["face encoder"], "sets": ["cifar10", "celeba"], "epsilons": [10.0, 1.0]}
    assert run.result(given)["result"]["rows"] == []
    (tmp_path / "faces-encoder.pt2").write_bytes(b"")
    assert run.result(given)["result"]["rows"] == []
    (tmp_path / "faces-labels.pt2").write_bytes(b"")
    run = StudyRun(find_study("privot-colour"), data_folder=tmp_path)
    found = run.result(given)["result"]
    assert [(row["data"], row["kind"], row["asked"]) for row in found["rows"]] == [("celeba", "face encoder", 10.0)]
    assert [f["verdict"] for f in found["findings"]] == ["not reproduced", "not reproduced"]
    assert any("a public face encoder" in str(words) for words in found["findings"][0].values())
    from privot_lab.studies.product.colour_images import _grid, draw

    grid = _grid(result["rows"][0]["shown"])
    assert grid.shape == (20, 4, 3)
    assert grid[6, 0].tolist() == [0, 1, 2]
    assert (grid[6:8, 2:] == 128).all()
    assert draw(result, tmp_path)[0].stat().st_size > 1000


def test_the_wide_network_has_a_million_weights_and_refuses_bad_input() -> None:
    from privot.evaluation.wide_network import WideNetwork, wide_score

    assert sum(p.numel() for p in WideNetwork(3, 10).parameters()) == 1_000_650
    x, y = np.zeros((30, 192)), np.arange(30) % 2
    with pytest.raises(UsageError, match="8 × 8"):
        wide_score(x[:, :16], y, x[:, :16], y, shape=(4, 4))
    with pytest.raises(UsageError, match="must rise"):
        wide_score(x, y, x, y, shape=(8, 8, 3), span=(1.0, 0.0))
    with pytest.raises(DataError, match="at least 20"):
        wide_score(x[:5], y[:5], x, y, shape=(8, 8, 3))


@pytest.mark.slow
def test_classifiers_learn_from_joined_samples_that_another_encoder_labels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from privot_lab.studies.product import colour_images

    dice = np.random.default_rng(0)
    x, y = dice.integers(0, 256, (80, 16, 16, 3), dtype=np.uint8), np.arange(80) % 2
    np.savez(tmp_path / "celeba32_10k.npz", x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:])
    files = {}
    for number, name in enumerate(("pictures.pt2", "labels.pt2")):
        network = torch.nn.Sequential(torch.nn.Conv2d(3, 4 + number, 3), torch.nn.ReLU()).eval()
        program = torch.export.export(
            network, (torch.zeros(2, 3, 8, 8),), dynamic_shapes=({0: torch.export.Dim("rows")},)
        )
        torch.export.save(program, tmp_path / name)
        files[name] = {"face encoder": (name, 8, (0.0, 1.0))}
    monkeypatch.setattr(colour_images, "ENCODERS", files["pictures.pt2"])
    monkeypatch.setattr(colour_images, "LABEL_ENCODERS", files["labels.pt2"])
    run = StudyRun(find_study("privot-colour"), data_folder=tmp_path)
    asked = {"sets": ["celeba"], "kinds": ["face encoder"], "epsilons": [10.0], "records": 60, "samples": 30}
    found = run.result({**asked, "test": 20, "width": 2, "steps": 1})["result"]
    row = found["rows"][0]
    assert row["standing"] == "proven"
    assert row["joined"] == {"times": 4, "share": 0.5}
    assert "4 times the samples, 0.5 of them joined of two" in str(found["findings"][0])
