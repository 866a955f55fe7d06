"""Public images in a job: what is refused, that nothing that is released or paid changes, and that jobs resume."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_jobs import Killed, kill
from synthesis_samples import BARS, bars

from privot import Ledger, Vault
from privot.cli import run
from privot.errors import DataError, UsageError
from privot.jobs.job import Job
from privot.jobs.run import Run
from privot.release import Release
from privot.synthesis import PublicImages, Synthesizer
from privot.synthesis.neural.defaults.generator_defaults import choose_rules
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.public.public_means import public_means
from synthesis_asked import flat


def public_bars(seed: int = 9) -> PublicImages:
    return PublicImages(*bars(60, seed))


def vault_of(**changes: Any) -> Vault:
    x, y = bars(200)
    return Vault(x, y, **{"classes": 3, "clip": 100.0, "adjacency": "add-remove", "budget": (5.0, 1e-5), **changes})


def synthesizer(public: Any, **changes: Any) -> Synthesizer:
    rules = replace(choose_rules(Problem(64, 3, 2.0, 200, BARS)), steps=25, batch=8)
    held = {"epsilon": 5.0, "shape": BARS, "public": public, "rules": rules, "device": "cpu", "seed": 3}
    return Synthesizer(**flat(**{**held, **changes}))


def test_what_is_no_set_of_images_is_refused() -> None:
    x, y = bars(60)
    nan = x.copy()
    nan[3, 3] = np.nan
    for wrong, said in (
        ((x[:19],), "at least 20"),
        ((x[:0],), "must be an array"),
        ((nan,), "missing or infinite"),
        ((np.full((30, 4), "a"),), "not an array of numbers"),
        (([[1.0], [1.0, 2.0]],), "not an array of numbers"),
        ((x[:, 0],), "must be an array"),
        ((x, y[:-1]), "one label per public image"),
        ((x, y - 1), "whole numbers from 0"),
        ((x, y + 0.5), "whole numbers from 0"),
    ):
        with pytest.raises(DataError, match=said):
            PublicImages(*wrong)


def test_images_that_do_not_fit_the_records_are_refused_before_anything_is_paid(tmp_path: Path) -> None:
    x, _ = bars(60)
    ledger = Ledger.create(tmp_path / "ledger")
    vault = vault_of(ledger=ledger)
    for wrong, said in ((x[:, :60], "60 values"), (2.0 * x, "leave the range"), (x - 0.5, "leave the range")):
        with pytest.raises(DataError, match=said):
            synthesizer(PublicImages(wrong)).fit(vault)
    for changes, said in (
        ({"method": "sinkhorn", "rules": None}, "sinkhorn takes no public images"),
        ({"shape": None}, "Public images are for"),
    ):
        with pytest.raises(UsageError, match=said):
            synthesizer(public_bars(), **changes).fit(vault)
    with pytest.raises(UsageError, match="Expected PublicImages"):
        synthesizer(x).fit(vault)
    with pytest.raises(UsageError, match="not mixed"):
        synthesizer(public_bars(), rules=None, options={"common": 1.0}).design(vault.facts)
    assert not ledger.entries()
    ledger.close()


@pytest.mark.slow
def test_release_and_charge_are_the_same_with_and_without(tmp_path: Path) -> None:
    public = public_bars()
    plain, helped = (synthesizer(p).design(vault_of().facts) for p in (None, public))
    assert helped.mechanism.identity() == plain.mechanism.identity()
    assert helped.event(helped.facts) == plain.event(plain.facts)
    written = plain.to_dict()
    assert "public" not in json.dumps({**written, **synthesizer(None).to_params()})
    other = helped.to_dict()
    assert other["rules"]["options"].pop("public") == {"digest": public.digest, "images": 60, "classes": 3}
    assert other == written
    entries, guarantees = [], []
    for name, given in (("a", None), ("b", public)):
        with Ledger.create(tmp_path / name) as ledger:
            fitted = synthesizer(given).fit(vault_of(ledger=ledger))
            # each fit is a job of its own name
            entries += [(e.purpose.partition(" (")[0], e.event) for e in ledger.entries()]
            guarantees.append(fitted.guarantee_)
    assert entries[: len(entries) // 2] == entries[len(entries) // 2 :]
    said = f"the public images with SHA-256 {public.digest} hold none of these records"
    assert guarantees[1].assumptions == (*guarantees[0].assumptions, said)
    assert guarantees[1].epsilon() == guarantees[0].epsilon()
    assert guarantees[1].events == guarantees[0].events


@pytest.mark.slow
def test_a_job_is_killed_and_resumed_with_the_same_images_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public, folder = public_bars(), tmp_path / "job"
    with Ledger.create(tmp_path / "ledger") as ledger:
        vault = vault_of(ledger=ledger)
        with monkeypatch.context() as patch:
            patch.setattr("privot.synthesis.methods.embedding_training._train", kill)
            with pytest.raises(Killed):
                synthesizer(public).fit(vault, folder=folder)
        with pytest.raises(UsageError, match="public images: give them again"):
            synthesizer(None).fit(vault, folder=folder)
        with pytest.raises(UsageError, match="another public"):
            synthesizer(public_bars(8)).fit(vault, folder=folder)
        first = synthesizer(public).fit(vault, folder=folder)
        assert len(ledger.entries()) == 1
        (folder / "checkpoint.safetensors").unlink()
        again = synthesizer(public).fit(vault, folder=folder)
        assert len(ledger.entries()) == 1
        for name, held in first.generator_.state_dict().items():
            assert torch.equal(held, again.generator_.state_dict()[name])
        # a file that says nothing of the images is not the release of this job
        release = Release.load(folder / "release.npz")
        assert public.assumption in release.guarantee.assumptions
        bare = tuple(a for a in release.guarantee.assumptions if a != public.assumption)
        replace(release, guarantee=replace(release.guarantee, assumptions=bare)).save(folder / "release.npz")
        with pytest.raises(DataError, match="not the one its job paid for"):
            synthesizer(public).fit(vault, folder=folder)


def test_a_design_that_names_other_images_is_refused(tmp_path: Path) -> None:
    public, folder = public_bars(), tmp_path / "job"
    with Ledger.create(tmp_path / "ledger") as ledger:
        vault = vault_of(ledger=ledger)
        synthesizer(public).fit(vault, folder=folder)
        path = folder / "job.json"
        fields = json.loads(path.read_text())
        fields["settings"]["design"]["rules"]["options"]["public"]["digest"] = "0" * 64
        path.write_text(json.dumps(fields))
        with pytest.raises(DataError, match="other public images"):
            synthesizer(public).run(Run(Job.open(folder), lambda: vault, vault.charges, vault.ledger))


def test_training_is_on_mixed_means_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    from privot.synthesis.methods import embedding_training

    kept = embedding_training._train
    monkeypatch.setattr(
        embedding_training, "_train", lambda t, target, *rest: seen.append(target) or kept(t, target, *rest)
    )
    fitted = synthesizer(public_bars()).fit(vault_of())
    plain = embedding_training.Target.of(fitted.release_)
    used, own = fitted.public_, public_means(plain.features, public_bars(), "cpu")
    assert used is not None
    assert used.outcome == "mixed"
    # noise decides how far the weight falls short of its largest value, of which one run in fifty attains it
    assert 0.4 < used.weight <= 0.5
    np.testing.assert_allclose(seen[0].means, own)
    np.testing.assert_allclose(seen[1].means, (1.0 - used.weight) * plain.means + used.weight * own)
    assert np.array_equal(seen[1].counts, plain.counts)
    assert len(seen) == 2
    fitted.publish(tmp_path, samples=10)
    assert "the generator was first trained on means of their classes" in (tmp_path / "report.html").read_text()
    again = Synthesizer.load(tmp_path)
    assert again.public_ == used
    again.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "config.json").read_bytes() == (tmp_path / "config.json").read_bytes()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    x, y = bars(120)
    np.savez(tmp_path / "data.npz", x=x.reshape(-1, *BARS), y=y)
    return tmp_path / "data.npz"


def words(data: Path, out: Path, *more: str) -> list[str]:
    terms = "--epsilon 5 --delta 1e-5 --adjacency add-remove --device cpu --seed 1 --set steps=2 --samples 10".split()
    facts = ["--shape", "8,8", "--range", "0,1", "--classes", "3", "--out", str(out)]
    return ["synth", str(data), *terms, *facts, *more]


def test_the_command_takes_public_images_and_asks_for_them_again(data: Path, tmp_path: Path, capsys: Any) -> None:
    x, y = bars(60, 9)
    path, out = tmp_path / "public.npz", tmp_path / "out"
    np.savez(path, x=x.reshape(-1, *BARS), y=y)
    assert run(words(data, out, "--set", f"public={path}", "--json")) == 0
    answer = json.loads(capsys.readouterr().out)
    digest = PublicImages(x, y).digest
    assert f"the public images with SHA-256 {digest} hold none of these records" in answer["guarantee"]["assumptions"]
    assert answer["guarantee"]["standing"] == "proven"
    assert answer["public"]["images"] == 60
    assert json.loads((out / "config.json").read_text())["params"]["public"]["digest"] == digest
    assert digest in (out / "report.html").read_text()
    # what only job.json says to be public is not read
    assert run(["synth", "--resume", "--out", str(out)]) == 2
    assert "type --set public=FILE again" in capsys.readouterr().err
    np.savez(tmp_path / "other.npz", x=x[:30].reshape(-1, *BARS), y=y[:30])
    assert run(["synth", "--resume", "--out", str(out), "--set", f"public={tmp_path / 'other.npz'}"]) == 2
    assert "another public" in capsys.readouterr().err
    assert run(["synth", "--resume", "--out", str(out), "--set", f"public={path}"]) == 0
    with Ledger.open(data.with_name("data.npz.ledger")) as book:
        assert len(book.entries()) == 1


def test_the_command_refuses_public_images_before_a_ledger_is_made(data: Path, tmp_path: Path, capsys: Any) -> None:
    x, _ = bars(60, 9)
    nan = np.where(np.arange(64) == 5, np.nan, x)
    for name, array in (("few", x[:5]), ("small", x[:, :49]), ("bright", 255.0 * x), ("nan", nan)):
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "folder").mkdir()
    for given, code, said in (
        (["few.npy"], 3, "at least 20"),
        (["small.npy"], 3, "49 values"),
        (["bright.npy"], 3, "leave the range"),
        (["nan.npy"], 3, "missing or infinite"),
        (["absent.npy"], 3, "no file"),
        (["folder"], 3, "no sub-folder"),
        (["data.npz"], 2, "the records themselves"),
        (["few.npy", "--method", "sinkhorn"], 2, "--method embedding"),
    ):
        assert run(words(data, tmp_path / "out", "--set", f"public={tmp_path / given[0]}", *given[1:])) == code
        assert said in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
        assert not list(tmp_path.glob("*.ledger"))
