"""Membership tests: a generator that copies is detected, one without the records is not; audits of whole folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm

from privot.audit.attacks.membership import area, attack_generator, copying, density_ratio, log_density, nearest
from privot.audit.findings import broken
from privot.synthesis.method_configs import Embedding

torch = pytest.importorskip("torch")

from privot.audit.targets.synth_folder import audit_folder  # noqa: E402
from privot.synthesis import Rules, Synthesizer  # noqa: E402
from privot.synthesis.output.output_folder import write_folder  # noqa: E402
from privot.vault import Vault  # noqa: E402

pytestmark = pytest.mark.slow


def people(count: int, seed: int, dim: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, dim))


def test_distances_and_densities_are_the_textbook_ones() -> None:
    from scipy.spatial.distance import cdist
    from scipy.special import logsumexp

    a, b = people(700, 1), people(50, 2)
    assert nearest(a, b) == pytest.approx(cdist(a, b).min(1), abs=1e-7)
    exact = logsumexp(-(cdist(a, b) ** 2) / (2 * 0.7**2), axis=1) - np.log(50)
    assert log_density(a, b, 0.7) == pytest.approx(exact, abs=1e-7)
    assert density_ratio(a, b, b) == pytest.approx(np.zeros(700), abs=1e-9)


def test_the_area_is_mann_and_whitneys_and_its_interval_covers() -> None:
    generator = np.random.default_rng(3)
    there = generator.random(300) < 0.5
    scores = generator.standard_normal(300) + there
    auc, _ = area(scores, there, 0.95)
    assert auc == pytest.approx(mannwhitneyu(scores[there], scores[~there]).statistic / (there.sum() * (~there).sum()))
    true, covered = norm.cdf(1 / np.sqrt(2)), 0
    for _ in range(200):
        there = np.arange(120) % 2 == 0
        low, high = area(generator.standard_normal(120) + there, there, 0.95)[1]
        covered += low <= true <= high
    assert covered / 200 > 0.95 - 3 * np.sqrt(0.0475 / 200)


def test_both_tests_detect_a_generator_that_copies_and_no_other() -> None:
    candidates, reference = people(600, 4), people(1200, 5)
    there = np.random.default_rng(6).random(600) < 0.5
    terms = {"delta": 1e-5, "confidence": 0.999}
    copies = copying(candidates[there], 2000, 0.02)
    for test in attack_generator("copies", candidates, there, copies, reference, **terms):
        assert test.stands_out
        assert test.auc > 0.95
        assert test.copied > 0.9
        assert test.epsilon > 1.5
    for test in attack_generator("never saw them", candidates, there, people(2000, 7), reference, **terms):
        assert not test.stands_out
        assert test.epsilon == 0.0
        assert test.to_dict()["adjacency"] == "add-remove"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    y = np.arange(300) % 2
    x = np.clip(0.25 + 0.5 * y[:, None] + 0.08 * generator.standard_normal((300, 3)), 0, 1)
    vault = Vault(x, y, classes=2, clip=1.0, adjacency="add-remove", budget=(10.0, 1e-5))
    made = {"kind": "mlp", "dim": 3, "classes": 2, "segments": [[0, 3, "interval"]], "latent": 4, "hidden": [16]}
    synthesizer = Synthesizer(2.0, 1e-5, seed=1, device="cpu", method=Embedding(rules=Rules(made, 80, 16, 1e-2)))
    out = tmp_path_factory.mktemp("made") / "folder"
    synthesizer.fit(vault, folder=out)
    write_folder(synthesizer, out, 200, 1)
    return out


def test_a_folder_is_audited_without_arguments_and_its_report_shows_it(folder: Path) -> None:
    found = audit_folder(folder, candidates=300, runs=60, trials=100_000)
    findings, tests, guarantee = found.findings, found.tests, found.guarantee
    assert broken(findings) == []
    assert not found.untested
    names = [f.name for f in findings]
    assert "the noise of the sums was added on a grid" in names
    assert "a checkpoint holds only what is made from its release" in names
    assert [t.stands_out for t in tests[2:]] == [True, True]
    assert all(t.epsilon <= guarantee.epsilon() for t in tests[:2])
    written = json.loads((folder / "audit.json").read_text())
    assert written["adjacency"] == "add-remove"
    page = (folder / "report.html").read_text()
    for words in ("Audit: claimed and measured", "copying, without privacy", "add-remove, proven", "holds"):
        assert words in page


def test_folders_of_tables_and_of_streams_are_audited_by_their_events(tmp_path: Path) -> None:
    from privot.cli import run

    schema = {
        "label": "y",
        "columns": [
            {"name": "a", "type": "continuous", "low": 0, "high": 1},
            {"name": "y", "type": "categorical", "categories": ["0", "1"]},
        ],
    }
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    (tmp_path / "data.csv").write_text("\n".join(["a,y", *(f"{(i % 10) / 10},{i % 2}" for i in range(60))]) + "\n")
    common = "--epsilon 2 --delta 1e-5 --adjacency add-remove --samples 40 --seed 1 --device cpu".split()
    table = ["synth", str(tmp_path / "data.csv"), "--schema", str(tmp_path / "schema.json"), *common]
    assert run([*table, "--out", str(tmp_path / "table")]) == 0
    # samples of a fair share of the records: tiny ones make the accountant work ten times as long
    stream = "--method sinkhorn --set steps=16 --set blocks=2 --set batch=200 --set points=20 --set sweeps=14".split()
    assert run(["synth", "digits", *common, *stream, "--out", str(tmp_path / "stream")]) == 0
    for name, why in (("table", "holds tables"), ("stream", "comes from the method sinkhorn")):
        found = audit_folder(tmp_path / name, trials=20_000)
        assert broken(found.findings) == []
        assert any(f.name.startswith("events: ") for f in found.findings)
        assert found.tests == []
        page = (tmp_path / name / "report.html").read_text()
        assert "Audit: claimed and measured" in page
        # who reads the page or the terminal is told what was not tried
        assert why in found.untested
        assert page.count(found.untested) == 2


def test_a_folder_that_states_too_little_is_refused(folder: Path, tmp_path: Path) -> None:
    import shutil

    from privot.errors import DataError

    shutil.copytree(folder, tmp_path / "low")
    path = tmp_path / "low" / "guarantee.json"
    fields = json.loads(path.read_text())
    fields["epsilon"] = 0.5
    for point in fields["curve"]:
        point["epsilon"] = min(point["epsilon"], 0.5)
    path.write_text(json.dumps(fields))
    with pytest.raises(DataError, match="events cost"):
        audit_folder(tmp_path / "low", candidates=100, runs=30, trials=1000)
