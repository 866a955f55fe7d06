"""Labels by the codes of another encoder than the one that pictures are made with: paid, named, kept and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_networks import Grouped, honest, saved, stripes
from killed_jobs import killed_at
from torch import nn

from privot import Ledger, Vault
from privot.cli import run
from privot.errors import DataError, PrivotError, UsageError
from privot.kinds import Images, Unit
from privot.synthesis import PublicEncoder, Synthesizer
from privot.synthesis.fitted import ENCODER
from privot.synthesis.job_files import LESSON
from privot.synthesis.method_configs import Embedding
from privot.synthesis.neural.after_training.relabelling import Labelling
from privot.synthesis.neural.encoders import public_encoder
from privot.synthesis.neural.encoders.exact_arithmetic import is_exact
from privot.synthesis.neural.features.encoder_codes import EncoderClassifier
from privot.synthesis.neural.features.encoder_features import ImageCodes, code_width, codes_among
from privot.synthesis.output.html_report import write_report
from synthesis_asked import flat

SHAPE, TERMS = (16, 16, 3), (8.0, 1e-5)
COUNT = 60


def encoders(folder: Path) -> tuple[PublicEncoder, PublicEncoder]:
    """One for pictures of 8 pixels a side, and another network for labels."""
    first, second = folder / "first", folder / "second"
    first.mkdir(), second.mkdir()
    return PublicEncoder(saved(honest(), first), size=8), PublicEncoder(saved(Grouped().eval(), second), size=8)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[PublicEncoder, PublicEncoder]:
    return encoders(tmp_path_factory.mktemp("encoders"))


def vault(**given: Any) -> Vault:
    x, y = stripes(SHAPE)
    return Vault(x, y, **{"classes": 2, "clip": 28.0, "adjacency": "add-remove", "budget": TERMS, **given})


def synthesizer(both: tuple[PublicEncoder | None, PublicEncoder | None], **given: Any) -> Synthesizer:
    first, second = both
    made = Synthesizer(*TERMS, **flat(encoder=first, label_encoder=second, shape=SHAPE, device="cpu", seed=5, **given))
    if given or first is None:
        return made
    # two steps of training
    rules = made.design(vault().facts).rules
    tuned = {"labelling": {**rules.options["labelling"], "samples": 20}}
    asked = Embedding(replace(rules, steps=2, batch=4, options=tuned), encoder=first, label_encoder=second)
    return Synthesizer(*TERMS, device="cpu", seed=5, kind=Images(SHAPE), method=asked)


def assumption(encoder: PublicEncoder) -> str:
    return f"the encoder with SHA-256 {encoder.digest} was not trained on these records"


def test_labels_are_by_the_codes_of_their_own_encoder(both: tuple[PublicEncoder, PublicEncoder]) -> None:
    design = synthesizer(both).design(vault().facts)
    first, second = both
    width = code_width(second, SHAPE)
    assert width != code_width(first, SHAPE)
    assert (design.labelling.kind, design.labelling.columns) == ("encoder", width)
    assert design.label_encoder.digest == second.digest
    shown = codes_among(design.mechanism.maps)
    assert shown is not None
    assert shown.encoder.digest == first.digest
    # the same budget, divided alike; and named only where there is one
    alone = synthesizer((first, None)).design(vault().facts)
    assert alone.mechanism.sigma == design.mechanism.sigma
    assert alone.labelling.sigma == design.labelling.sigma
    assert "encoder" not in alone.labelling.to_dict()
    assert alone.label_encoder.digest == first.digest
    assert json.loads(json.dumps(design.labelling.to_dict()))["encoder"] == second.to_dict()
    assert Labelling.from_dict(design.labelling.to_dict()) == design.labelling


@pytest.mark.slow
def test_both_encoders_are_assumed_kept_and_needed(
    both: tuple[PublicEncoder, PublicEncoder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "job"
    with killed_at("privot.synthesis.methods.after_training_steps.tuned_head"):
        synthesizer(both).fit(held, folder=folder)
    lesson = (folder / LESSON).read_bytes()
    done = synthesizer(both).fit(held, folder=folder)
    assert len(ledger.entries()) == 2
    assert {assumption(e) for e in both} <= set(done.guarantee_.assumptions)
    assert done.guarantee_.standing == "proven"
    assert done.guarantee_.epsilon() <= TERMS[0]
    assert isinstance(done.labeller_, EncoderClassifier)
    assert done.labeller_.map.encoder.digest == both[1].digest
    _, y = done.sample(30, seed=1)

    model = tmp_path / "model"
    done.save(model)
    assert (model / ENCODER).read_bytes() == both[1].content
    page = write_report(model).read_text()
    assert "--encoder FILE --set encoder_range=0,1 --set encoder_size=8" in page
    assert "--set label_encoder=FILE --set label_encoder_range=0,1 --set label_encoder_size=8" in page
    monkeypatch.setattr(public_encoder, "_LOADED", {})
    assert np.array_equal(Synthesizer.load(model).sample(30, seed=1)[1], y)

    # what a job's labels rest on is what it was designed with
    first, second = encoders(tmp_path)
    (folder / LESSON).write_bytes(lesson)
    brighter = PublicEncoder.from_dict({**second.to_dict(), "range": [0.0, 2.0]})
    for other in (first, brighter):
        with pytest.raises(UsageError, match="another label_encoder"):
            synthesizer((first, other)).fit(held, folder=folder)
    rules = synthesizer(both).config.rules
    assert rules is not None
    labelling = {name: value for name, value in rules.options["labelling"].items() if name != "encoder"}
    plain = replace(rules, options={"labelling": {**labelling, "columns": code_width(first, SHAPE)}})
    given: dict[str, Any] = {"encoder": first, "shape": SHAPE, "device": "cpu", "seed": 5}
    with pytest.raises(DataError, match="another encoder for labels, or with none"):
        Synthesizer(*TERMS, **flat(rules=plain, **given)).fit(held, folder=folder)
    with pytest.raises(UsageError, match="an encoder of their own"):
        Synthesizer(*TERMS, **flat(rules=rules, **given)).fit(held)
    (folder / "labels.npz").unlink()
    found = json.loads((folder / "job.json").read_text())
    found["settings"]["design"]["rules"]["options"]["labelling"]["encoder"]["range"] = [0.0, 2.0]
    (folder / "job.json").write_text(json.dumps(found))
    with pytest.raises(DataError, match="another encoder for labels"):
        synthesizer((first, second)).fit(held, folder=folder)
    assert len(ledger.entries()) == 2


@pytest.mark.slow
@pytest.mark.gate(2)
@pytest.mark.parametrize(
    ("moment", "paid"),
    [
        ("privot.synthesis.methods.embedding_method.MeanEmbedding.run", 0),
        ("privot.synthesis.methods.embedding_method.train", 1),
        ("privot.synthesis.methods.after_training_steps.PretrainedLabeller.save", 1),
        ("privot.synthesis.methods.after_training_steps.labeller", 2),
    ],
)
def test_a_job_that_is_killed_anywhere_pays_twice_in_all_and_lists_both(
    both: tuple[PublicEncoder, PublicEncoder], tmp_path: Path, moment: str, paid: int
) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger, budget=(20.0, 1e-5)), tmp_path / "job"
    with killed_at(moment):
        synthesizer(both).fit(held, folder=folder)
    assert len(list(folder.glob("*.npz"))) == paid
    before = len(ledger.entries())
    # a release that was lost between its charge and the disk is paid for again, knowingly
    done = synthesizer(both).fit(held, folder=folder, pay_again=True)
    assert len(ledger.entries()) == 2 + (before - paid)
    assert {assumption(e) for e in both} <= set(done.guarantee_.assumptions)


@pytest.mark.slow
def test_pictures_are_not_made_with_another_encoder_than_the_one_given(
    both: tuple[PublicEncoder, PublicEncoder], tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "job"
    with killed_at("privot.synthesis.methods.embedding_method.train"):
        synthesizer(both).fit(held, folder=folder)
    text = (folder / "job.json").read_text()
    features = json.loads(text)["settings"]["design"]["features"]
    shown = next(part["encoder"] for part in features["maps"] if "encoder" in part)
    assert shown == both[0].to_dict()
    for wrong in (both[1].to_dict(), {**shown, "range": [0.0, 3.0]}):
        edited = json.loads(text)
        for part in edited["settings"]["design"]["features"]["maps"]:
            part |= {"encoder": wrong} if "encoder" in part else {}
        (folder / "job.json").write_text(json.dumps(edited))
        with pytest.raises(DataError, match="designed with another encoder"):
            synthesizer(both).fit(held, folder=folder)
    assert len(ledger.entries()) == 1


@pytest.mark.slow
def test_an_encoder_for_labels_that_fails_is_found_before_anything_is_paid(
    both: tuple[PublicEncoder, PublicEncoder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, usual = vault(ledger=ledger), ImageCodes.codes
    for exact in (True, False):

        def failing(codes: ImageCodes, x: torch.Tensor, kind: bool = exact) -> torch.Tensor:
            if codes.encoder.digest == both[1].digest and is_exact(x) is kind:
                raise PrivotError("The encoder cannot be evaluated here.")
            return usual(codes, x)

        monkeypatch.setattr(ImageCodes, "codes", failing)
        for folder in (None, tmp_path / "job"):
            with pytest.raises(PrivotError, match="cannot be evaluated here"):
                synthesizer(both).fit(held, folder=folder)
        assert not ledger.entries()


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [5, "x", [], {}, {"digest": "a", "size": None}, {"digest": 1, "size": None, "range": [0, 1]},
     {"digest": "a", "size": "8", "range": [0, 1]}, {"digest": "a", "size": 8, "range": [0, 1, 2]},
     {"digest": "a", "size": 8, "range": ["0", 1]}],
)  # fmt: skip
@pytest.mark.parametrize("name", ["encoder", "label_encoder"])
def test_a_folder_with_a_damaged_encoder_is_refused(folder: Path, name: str, wrong: Any, capsys: Any) -> None:
    text = (folder / "config.json").read_text()
    fields = json.loads(text)
    fields["params"][name] = wrong
    (folder / "config.json").write_text(json.dumps(fields))
    try:
        with pytest.raises(DataError, match=r"of a synthesis|of an encoder"):
            Synthesizer.load(folder)
        # the page shows what can be shown
        code = run(["report", str(folder)])
        assert code == 0 or (code == 3 and "config.json" in capsys.readouterr().err)
    finally:
        (folder / "config.json").write_text(text)


@pytest.fixture(scope="module")
def folder(both: tuple[PublicEncoder, PublicEncoder], tmp_path_factory: pytest.TempPathFactory) -> Path:
    first, second = both
    darker = PublicEncoder.from_dict({**second.to_dict(), "range": [-0.9921875, 16777215.0]})
    place = tmp_path_factory.mktemp("made") / "model"
    synthesizer((first, darker)).fit(vault()).save(place)
    return place


def test_the_command_on_the_page_has_every_digit(folder: Path) -> None:
    assert "--set label_encoder_range=-0.9921875,16777215" in write_report(folder).read_text()


@pytest.mark.slow
def test_an_encoder_for_labels_is_refused_where_nothing_is_labelled_by_codes(
    both: tuple[PublicEncoder, PublicEncoder], tmp_path: Path
) -> None:
    held = vault(ledger=(ledger := Ledger.create(tmp_path / "ledger")))
    with pytest.raises(UsageError, match="stands beside one for pictures"):
        synthesizer((None, both[1])).fit(held)
    with pytest.raises(UsageError, match="sinkhorn takes no label encoder"):
        Synthesizer(*TERMS, **flat(device="cpu", shape=SHAPE, method="sinkhorn", label_encoder=both[1])).fit(held)
    normed = PublicEncoder(saved(nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU()).eval(), tmp_path))
    with pytest.raises(UsageError, match="As an encoder for labels"):
        synthesizer((both[0], normed)).fit(held)
    with pytest.raises(UsageError, match="colour images of at least"):
        synthesizer(both, options={"labelled": 0.0}).fit(held)
    # the classifier would be tuned on single records that are kept between its steps
    x, y = stripes(SHAPE)
    people = vault(unit=Unit("person", 2), units=np.arange(COUNT))
    with pytest.raises(UsageError, match="without a unit"):
        synthesizer(both, records=100).fit(people)
    grey = Vault(x[:, :256], y, classes=2, clip=16.0, adjacency="add-remove", budget=TERMS)
    with pytest.raises(UsageError, match="colour images of at least"):
        Synthesizer(
            *TERMS, device="cpu", kind=Images((16, 16)), method=Embedding(encoder=both[0], label_encoder=both[1])
        ).fit(grey)
    labelling = synthesizer(both).design(vault().facts).labelling
    with pytest.raises(UsageError, match="names one"):
        replace(labelling, kind="scattering")
    rules = synthesizer(both).design(vault().facts).rules
    brighter = PublicEncoder.from_dict({**both[1].to_dict(), "range": [0.0, 2.0]})
    with pytest.raises(UsageError, match="an encoder of their own"):
        synthesizer((both[0], brighter), rules=rules).fit(held)
    other = {**labelling.to_dict(), "columns": labelling.columns + 1}
    with pytest.raises(UsageError, match="The labelling is for codes of"):
        synthesizer(both, rules=replace(rules, options={"labelling": other})).fit(held)
    assert not ledger.entries()


@pytest.mark.slow
def test_the_command_takes_an_encoder_for_labels_and_asks_for_it_again(tmp_path: Path, capsys: Any) -> None:
    x, y = stripes(SHAPE)
    data, out = tmp_path / "data.npz", tmp_path / "out"
    np.savez(data, x=x.reshape(COUNT, *SHAPE), y=y)
    first, second = encoders(tmp_path)
    paths = [tmp_path / name / "network.pt2" for name in ("first", "second")]
    for path, encoder in zip(paths, (first, second), strict=True):
        path.write_bytes(encoder.content)
    words = ["synth", str(data), "--epsilon", "8", "--delta", "1e-5", "--adjacency", "add-remove", "--classes", "2"]
    words += ["--shape", "16,16,3", "--range", "0,1", "--samples", "40", "--set", "steps=2", "--device", "cpu"]
    words += ["--encoder", str(paths[0]), "--set", "encoder_size=8", "--seed", "1", "--out", str(out)]
    named = ["--set", f"label_encoder={paths[1]}", "--set", "label_encoder_size=8"]
    assert run([*words, "--set", "label_encoder_size=8"]) == 2
    assert "label_encoder_range and label_encoder_size describe an encoder" in capsys.readouterr().err
    assert run([*words, "--set", f"label_encoder={tmp_path / 'absent.pt2'}"]) == 3
    assert not out.exists()
    with killed_at("privot.synthesis.methods.after_training_steps.tuned_head"):
        run([*words, *named])
    capsys.readouterr()
    with_first = ["--encoder", str(paths[0]), "--set", "encoder_size=8"]
    assert run(["synth", "--resume", "--out", str(out), *with_first]) == 2
    assert "type --set label_encoder=FILE again" in capsys.readouterr().err
    assert run(["synth", "--resume", "--out", str(out), *with_first, *named, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {assumption(first), assumption(second)} <= set(answer["guarantee"]["assumptions"])
    assert run(["sample", str(out), "-n", "30", "--joined", "0.5", "--out", str(tmp_path / "more.npz")]) == 0
    assert set(np.load(tmp_path / "more.npz")["y"]) <= {0, 1}
