"""Progress as plain lines: how often, what they say, and that `fit(progress=True)` prints them."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
import pytest

from privot import DomainAdapter, Synthesizer, Vault
from privot.adaptation.adaptation_methods.source_alone import Source
from privot.common.progress_lines import ProgressLines, as_progress
from privot.synthesis import Rules
from privot.synthesis.method_configs import Embedding


def clock(*seconds: float) -> Callable[[], float]:
    moments = iter(seconds)
    return lambda: next(moments)


def test_lines_come_every_few_seconds_with_the_time_left() -> None:
    said = io.StringIO()
    tell = ProgressLines("training", every=3.0, stream=said, clock=clock(0.0, 2.9, 4.0, 6.9, 8.0))
    for step in (1, 10, 20, 40):
        tell(step, 100, 0.5)
    assert said.getvalue().splitlines() == [
        "training: step 10 of 100, loss 0.5, about 36 s left",
        "training: step 40 of 100, loss 0.5, about 12 s left",
    ]


def test_work_without_a_loss_or_a_step_is_told_without_it() -> None:
    said = io.StringIO()
    tell = ProgressLines("a table", every=0.0, stream=said, clock=clock(0.0, 1.0, 2.0))
    tell(0, 4, math.nan)
    tell(2, 4, math.nan)
    assert said.getvalue() == "a table: step 2 of 4, about 2 s left\n"


def test_true_means_lines_and_nothing_means_nothing() -> None:
    def own(step: int, steps: int, loss: float) -> None: ...

    assert as_progress(None, "x") is None
    assert as_progress(False, "x") is None
    assert as_progress(own, "x") is own
    assert isinstance(as_progress(True, "x"), ProgressLines)


def test_fitting_prints_lines_where_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # every call prints: the work is too short for a line in earnest
    monkeypatch.setattr("privot.common.progress_lines.ProgressLines.__init__.__defaults__", (0.0, None, lambda: 0.0))
    x, y = np.random.default_rng(0).uniform(size=(100, 2)), np.arange(100) % 2
    network = {"kind": "mlp", "dim": 2, "classes": 2, "segments": [[0, 2, "interval"]], "latent": 4, "hidden": [8]}
    rules = Rules(network, steps=30, batch=16, learning_rate=1e-3)
    for progress in (None, True):
        vault = Vault(x, y, classes=2, clip=2.0, adjacency="add-remove", budget=(1.0, 1e-5))
        Synthesizer(1.0, 1e-5, device="cpu", seed=1, method=Embedding(rules=rules)).fit(vault, progress=progress)
        assert ("training: step" in capsys.readouterr().err) is (progress is True)


def test_adapting_prints_lines_where_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("privot.common.progress_lines.ProgressLines.__init__.__defaults__", (0.0, None, lambda: 0.0))
    g = np.random.default_rng(0)
    source, target = (g.uniform(size=(60, 3)), np.arange(60) % 2), g.uniform(size=(60, 3))
    settings = Source(finish=30)
    for progress in (None, True):
        vault = Vault(target, clip=2.0, adjacency="replace-one", budget=(1.0, 1e-5))
        adapter = DomainAdapter(1.0, 1e-5, method=settings, device="cpu", seed=1)
        adapter.fit(vault, source, progress=progress)
        assert ("adaptation: step" in capsys.readouterr().err) is (progress is True)
