"""Images of which one unit has several: σ, charges and pages are for the unit; what cannot protect it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthesis_samples import BARS, bars

from privot.accounting import account
from privot.accounting.events import PerUnit, leaves
from privot.audit.simulation.noiseless import NoNoise
from privot.audit.targets.synth_folder import audit_folder
from privot.cli import run
from privot.common.privacy_unit import Unit
from privot.errors import DataError, UsageError
from privot.evaluation.classifiers import CLASSIFIERS
from privot.kinds import Images
from privot.ledger import Ledger
from privot.mechanisms import MeanEmbedding
from privot.noise import SystemNoise
from privot.synthesis import Rules, Synthesizer
from privot.synthesis.method_configs import Embedding
from privot.synthesis.neural.after_training.relabelling import Labelling
from privot.synthesis.neural.after_training.warp_selection import WarpSelection
from privot.synthesis.neural.features.fourier import Fourier
from privot.vault import Vault
from synthesis_asked import flat

pytestmark = pytest.mark.slow

TERMS = (8.0, 1e-5)
CHOOSING = WarpSelection(sigma=40.0, factors=(0.5, 1.0), samples=60)
LABELLING = Labelling(sigma=1.0, rounds=4, length=0.5, columns=8, samples=60)
FEATURES = Fourier(64, 60, [2.0], 1)


def rules(**options: Any) -> Rules:
    generator = {
        "kind": "mapped", "dim": 64, "classes": 3, "segments": [[0, 64, "interval"]], "latent": 10, "hidden": 8,
        "channels": 8, "shape": list(BARS), "doublings": 1, "warp": 0.05,
    }  # fmt: skip
    return Rules(generator, 20, 8, 1e-2, options)


def small(**given: Any) -> Synthesizer:
    fields = {"shape": BARS, "features": FEATURES, "rules": rules(), "device": "cpu", "seed": 5, **given}
    return Synthesizer(*TERMS, **flat(**fields))


def vault(per_unit: int | None = 4, **given: Any) -> Vault:
    x, y = bars()
    held: dict[str, Any] = {"budget": TERMS, "adjacency": "add-remove", "classes": 3, "clip": 8.0} | given
    if per_unit is not None:
        held |= {"units": np.arange(len(x)) % 30, "unit": Unit("child", per_unit)}
    return Vault(x, y, **held)


@pytest.mark.parametrize("per_unit", [1, 4])
def test_noise_is_that_of_as_many_records_as_a_unit_may_have(per_unit: int) -> None:
    alone = small().design(vault(None).facts).mechanism.sigma
    design = small().design(vault(per_unit).facts)
    # the search for σ stops two parts in ten thousand above the smallest
    assert per_unit * alone <= design.mechanism.sigma * (1 + 1e-9)
    assert design.mechanism.sigma == pytest.approx(per_unit * alone, rel=5e-4)
    done = small().fit(vault(per_unit))
    assert done.guarantee_.unit == Unit("child", per_unit)
    assert 7.9 < done.guarantee_.epsilon() <= 8.0


def test_a_warp_and_the_means_together_cost_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, recipe in CLASSIFIERS.items():
        monkeypatch.setitem(CLASSIFIERS, name, replace(recipe, epochs=2))
    done = small(rules=rules(choosing=CHOOSING.to_dict())).fit(vault())
    events = done.guarantee_.events
    assert [(event["kind"], event["rows"]) for event in events] == [("unit", 4)] * 2
    # two classifiers per factor, each count moved by up to one per row
    assert events[1]["event"]["sensitivity"] == pytest.approx(4 * np.sqrt(4))
    assert 7.9 < done.guarantee_.epsilon() <= 8.0


def test_the_design_charges_what_the_vault_charges() -> None:
    facts = vault().facts
    event = small(rules=rules(choosing=CHOOSING.to_dict())).design(facts).event(facts)
    assert all(isinstance(part, PerUnit) for part in event.events)
    assert account(event, TERMS[1]).epsilon() <= TERMS[0]
    assert [leaf.sensitivity for leaf, _ in leaves(event)] == pytest.approx([4.0, 8.0])


@pytest.mark.gate(each="planted")
@pytest.mark.parametrize("planted", [1, 5, 500])
@pytest.mark.parametrize("per_unit", [1, 5])
def test_means_of_neighbours_differ_by_at_most_what_is_charged(planted: int, per_unit: int) -> None:
    """Sums and counts without noise, of images with and without one child, in other orders."""
    x, y = bars()
    x, y = np.vstack([x, np.repeat(x[:1], planted, axis=0)]), np.append(y, np.repeat(y[:1], planted))
    units = [*(f"child {k % 30}" for k in range(len(y) - planted)), *["planted"] * planted]
    mechanism = MeanEmbedding(FEATURES, 1.0, labels=True)

    def joint(places: np.ndarray) -> tuple[np.ndarray, float]:
        held = Vault(
            x[places], y[places], classes=3, clip=8.0, adjacency="add-remove", budget=(1e300, 0.5),
            units=[units[place] for place in places], unit=Unit("child", per_unit), noise=NoNoise(SystemNoise()),
        )  # fmt: skip
        release = held.release(mechanism, purpose="test", allow_unproven=True)
        value: Any = release.value
        public = release.public
        weights = public["sigma"] / public["sums_sigma"], public["sigma"] / public["counts_sigma"]
        (event,) = release.guarantee.events
        inner: Any = event.get("event")
        while inner["kind"] != "gaussian":
            inner = inner["event"]
        return np.append(weights[0] * value["sums"], weights[1] * value["counts"]), float(inner["sensitivity"])

    dice = np.random.default_rng(planted)
    with_child, charged = joint(dice.permutation(len(y)))
    without, _ = joint(dice.permutation(len(y) - planted))
    moved = float(np.linalg.norm(with_child - without))
    assert moved <= charged == pytest.approx(per_unit)
    # equal images: the bound is reached, up to the part of the norm that the features leave
    assert moved == pytest.approx(min(planted, per_unit), rel=1e-2)


def test_what_no_unit_is_protected_for_is_refused_before_anything_is_paid() -> None:
    held = vault()
    for method in ("sinkhorn", "sliced", "sinkhorn-parameters"):
        with pytest.raises(UsageError, match="single records"):
            Synthesizer(*TERMS, method=method, device="cpu", kind=Images(BARS)).fit(held)
    with pytest.raises(UsageError, match="tuning of labels"):
        small(rules=rules(labelling=LABELLING.to_dict())).fit(held)
    with pytest.raises(UsageError, match="tuning of labels"):
        Synthesizer(*TERMS, device="cpu", kind=Images(BARS), method=Embedding(options={"labelled": 0.1})).fit(held)
    # nothing was paid: all of the budget is there
    assert small().fit(held).guarantee_.epsilon() <= 8.0


def test_labels_are_not_tuned_by_default_where_there_is_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    from privot.synthesis.methods import embedding_method

    monkeypatch.setattr(embedding_method, "choose_labelling", lambda problem: LABELLING)
    plain = Synthesizer(*TERMS, device="cpu", kind=Images(BARS))
    assert plain.design(vault(None).facts).labelling == LABELLING
    assert plain.design(vault().facts).labelling is None


def test_a_job_goes_on_with_its_unit_and_with_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, recipe in CLASSIFIERS.items():
        monkeypatch.setitem(CLASSIFIERS, name, replace(recipe, epochs=2))
    with Ledger.create(tmp_path / "a.ledger") as book:
        chosen = rules(choosing=CHOOSING.to_dict())
        first = small(rules=chosen).fit(vault(ledger=book), folder=tmp_path / "job")
        # both releases are read from the folder, and are the ones that the design pays for
        again = small(rules=chosen).fit(vault(ledger=book, budget=None), folder=tmp_path / "job")
        assert len(book.entries(book.datasets()[0].fingerprint)) == 2
        assert again.guarantee_.events == first.guarantee_.events
        (tmp_path / "job" / "release.npz").unlink()
        with pytest.raises(DataError, match="unit differs"):
            small(rules=chosen).fit(vault(3, ledger=book, budget=None), folder=tmp_path / "job", pay_again=True)


def test_an_audit_of_the_folder_is_of_the_unit(tmp_path: Path) -> None:
    small().fit(vault()).publish(tmp_path / "made", samples=50)
    found = audit_folder(tmp_path / "made", trials=2000)
    findings, guarantee = found.findings, found.guarantee
    assert not found.tests
    assert "protects one child" in found.untested
    assert all(finding.passed for finding in findings if hasattr(finding, "passed"))
    claims = [finding.claim for finding in findings if hasattr(finding, "claim")]
    assert [claim.relation for claim in claims] == [guarantee.relation] == ["add-remove of one child, at most 4 rows"]


def test_the_command_protects_the_unit_of_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = bars()
    texts = np.array([f"CHILD-{k % 30}" for k in range(len(x))])
    np.savez(tmp_path / "a.npz", x=x.reshape(-1, *BARS), y=y, child=texts)
    terms = "--epsilon 4 --delta 1e-6 --adjacency add-remove --range 0,1 --classes 3 --shape 8,8".split()
    quick = "--set steps=5 --samples 30 --seed 1 --device cpu --json".split()
    made = ["synth", str(tmp_path / "a.npz"), *terms, *quick, "--out", str(tmp_path / "made")]
    assert run([*made, "--unit", "child", "--per-unit", "4"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["guarantee"]["unit"] == {"column": "child", "rows": 4}
    page = (tmp_path / "made" / "report.html").read_text(encoding="utf-8")
    assert "one child, at most 4 rows" in page
    assert "one record" not in page
    for file in tmp_path.rglob("made/*"):
        assert b"CHILD-" not in file.read_bytes()
    assert "CHILD-" not in shown.out + shown.err
    # another bound is another job, and no unit is another budget
    assert run([*made, "--resume", "--unit", "child", "--per-unit", "2"]) == 2
    again = [*made[:-1], str(tmp_path / "again")]
    assert run(again) == 2
    assert "give --unit child" in capsys.readouterr().err
    # nobody's, or neither texts nor whole numbers
    for name, units in (("a", np.array(["a", ""] * (len(x) // 2))), ("b", np.linspace(0, 1, len(x)))):
        np.savez(tmp_path / f"bad-{name}.npz", x=x, y=y, child=units)
        bad = ["synth", str(tmp_path / f"bad-{name}.npz"), *made[2:-1], str(tmp_path / "bad"), "--unit", "child"]
        assert run(bad) == 3
        assert not (tmp_path / f"bad-{name}.npz.ledger").exists()
