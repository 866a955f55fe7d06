"""Code that only a file names is not run: a folder or a job from elsewhere could name any module."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from privot import Vault
from privot.adaptation import DomainAdapter
from privot.cli import run
from privot.errors import DataError

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved adaptation."""
    dice = np.random.default_rng(0)
    x, y = dice.uniform(size=(60, 4)), np.arange(60) % 2
    vault = Vault(dice.uniform(size=(50, 4)), clip=1.0, adjacency="replace-one", budget=(2.0, 1e-5))
    out = tmp_path_factory.mktemp("saved")
    DomainAdapter(1.0, 1e-5, method="embedding", network="features", device="cpu", seed=1).fit(vault, (x, y)).save(out)
    return out


@pytest.fixture
def folder(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The adaptation, its config.json edited to name a module that leaves a trace when it is imported."""
    out = tmp_path / "model"
    shutil.copytree(saved, out)
    config = json.loads((out / "config.json").read_text())
    config["design"]["networks"]["kind"] = "evil_network:build"
    (out / "config.json").write_text(json.dumps(config))
    (tmp_path / "evil_network.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield out
    sys.modules.pop("evil_network", None)


def test_loading_a_folder_imports_nothing_that_it_names(folder: Path) -> None:
    with pytest.raises(DataError, match="is not built in"):
        DomainAdapter.load(folder)
    assert not (folder.parent / "ran").exists()


def test_loading_runs_a_network_that_the_caller_states(folder: Path) -> None:
    with pytest.raises(Exception, match="build"):
        DomainAdapter.load(folder, network="evil_network:build")
    assert (folder.parent / "ran").exists()


def test_a_report_builds_no_network(folder: Path) -> None:
    assert run(["report", str(folder)]) == 0
    assert not (folder.parent / "ran").exists()
