"""`privot synth`, `sample`, `evaluate`, `report`: answers and exit codes; a refusal costs nothing."""

from __future__ import annotations

import html
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import warm
from privot.accounting import Gaussian, account
from privot.cli import run
from privot.guarantee import Adjacency
from privot.ledger import Ledger

pytestmark = pytest.mark.slow

TERMS = "--epsilon 5 --delta 1e-5 --adjacency add-remove".split()
QUICK = "--set steps=6 --samples 60 --seed 1 --device cpu".split()


@pytest.fixture
def data(tmp_path: Path) -> str:
    y = np.arange(200) % 2
    x = np.clip(0.25 + 0.5 * y[:, None] + 0.05 * np.random.default_rng(0).standard_normal((200, 2)), 0, 1)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    return str(tmp_path / "data.npz")


def synth(data: str, out: Path, *more: str, public: tuple[str, ...] = ("--classes", "2", "--range", "0,1")) -> int:
    return run(command(data, out, *more, public=public))


def command(
    data: str, out: Path, *more: str, public: tuple[str, ...] = ("--classes", "2", "--range", "0,1")
) -> list[str]:
    return ["synth", data, *TERMS, *QUICK, *public, "--out", str(out), *more]


def sentence(capsys: Any) -> str:
    # besides what the budget carries, which is said whatever becomes of the job
    lines = capsys.readouterr().err.splitlines(keepends=True)
    said = "".join(line for line in lines if "is private under add-remove" not in line)
    assert said.count("\n") == 1, said
    assert "Traceback" not in said
    return str(said)


@pytest.mark.parametrize(
    "wrong", [["--shape", "3,3"], ["--method", "sinkhorn", "--set", "nothing=1"], ["--classes", "1"]]
)
def test_a_run_that_cannot_be_designed_sets_no_budget(data: str, tmp_path: Path, wrong: list[str]) -> None:
    assert synth(data, tmp_path / "new/out", *wrong) in (2, 3)
    # nor is anything else left behind that was not there
    assert [p.name for p in tmp_path.iterdir()] == ["data.npz"]
    (tmp_path / "mine").mkdir()
    assert synth(data, tmp_path / "mine", *wrong) in (2, 3)
    assert (tmp_path / "mine").is_dir()


def test_synth_writes_its_folder_and_answers_with_a_guarantee(capsys: Any, data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert synth(data, out, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert 4.9 < answer["guarantee"]["epsilon"] <= 5.0
    assert answer["guarantee"]["standing"] == "proven"
    left = {p.name for p in out.iterdir()}
    wanted = {"generator.safetensors", "config.json", "guarantee.json", "synthetic.npz", "report.html"}
    assert wanted <= left
    assert "report-private.html" not in left
    with np.load(out / "synthetic.npz") as made:
        assert made["x"].shape == (60, 2)
        assert made["y"].shape == (60,)
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http-equiv", "")
    # the promise in words, what is left of the budget, all that is assumed, and the noise that was paid for
    assert "A weak promise: ε = 4.9" in page
    assert "of 5 is spent" in page
    assert all(words in html.unescape(page) for words in answer["guarantee"]["assumptions"])
    (event,) = answer["guarantee"]["events"]
    assert f"gaussian, sigma {event['sigma']:.6g}, sensitivity" in page
    assert "<title>Training: squared MMD" in page
    assert "privot synth DATA --epsilon 5 --delta 1e-05 --adjacency add-remove" in page
    # the ledger beside the data holds the one charge, and nothing secret lies in the folder
    assert answer["ledger"] == str(tmp_path / "data.npz.ledger")
    assert run(["ledger", "show", str(tmp_path / "data.npz.ledger"), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["datasets"]
    assert len(shown["entries"]) == 1
    assert not any("key" in name for name in left)
    # sampling and the report need the folder only
    Path(data).unlink()
    assert run(["sample", str(out), "-n", "7", "--out", str(tmp_path / "more.csv"), "--seed", "3"]) == 0
    lines = (tmp_path / "more.csv").read_text().splitlines()
    assert lines[0] == "x0,x1,y"
    assert len(lines) == 8
    assert run(["report", str(out)]) == 0
    # resuming what is finished pays nothing and reads no data
    assert synth(data, out, "--resume") == 0
    assert run(["ledger", "show", str(tmp_path / "data.npz.ledger"), "--json"]) == 0
    text = capsys.readouterr().out
    assert text.count("synthesis by embedding") == 1


@pytest.mark.usefixtures("short_trainings")
def test_images_get_a_grid_and_an_evaluation(capsys: Any, tmp_path: Path) -> None:
    from privot.data.loading import load

    digits = load("digits")
    np.savez(tmp_path / "d.npz", x=(digits.x[:300] * 16).astype(np.uint8).reshape(-1, 8, 8), y=digits.y[:300])
    out = tmp_path / "out"
    public = ("--classes", "10", "--range", "0,16", "--shape", "8,8")
    assert synth(str(tmp_path / "d.npz"), out, public=public) == 0
    assert (out / "grid.png").read_bytes().startswith(b"\x89PNG")
    with np.load(out / "synthetic.npz") as made:
        assert made["x"].shape == (60, 8, 8)
        assert made["x"].max() > 1.0
    capsys.readouterr()
    assert run(["evaluate", str(out), "--test", str(tmp_path / "d.npz"), "--device", "cpu", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["scores"]) == {"logreg", "mlp", "cnn"}
    assert all(0.0 <= s <= 1.0 for s in answer["scores"].values())
    assert "not private" in answer["privacy"]
    page, private = (out / "report.html").read_text(), (out / "report-private.html").read_text()
    # what looked at real records is on a page of its own, which says so
    assert "logreg" in private
    assert answer["privacy"] in private
    assert "Do not publish" in private
    assert "Confusion of" in private
    assert "nothing else of the records was looked at" in page
    assert "logreg" not in page
    assert "Nearest real neighbours" not in page
    assert "data:image/png;base64," in page
    (out / "evaluation.json").write_text(json.dumps({"scores": answer["scores"]}))
    capsys.readouterr()
    assert run(["report", str(out)]) == 0
    assert "report-private.html: about real records, do not publish" in capsys.readouterr().out
    assert "not private" in (out / "report-private.html").read_text()
    # of public test records scores may be shown to anybody, and still no real image
    stated = [
        "--test",
        str(tmp_path / "d.npz"),
        "--public-test",
        "--private",
        str(tmp_path / "d.npz"),
        "--device",
        "cpu",
    ]
    assert run(["evaluate", str(out), *stated]) == 0
    page, private = (out / "report.html").read_text(), (out / "report-private.html").read_text()
    assert "logreg" in page
    assert "Nearest real neighbours" not in page
    assert "one trained on the real records" not in page
    assert "Nearest real neighbours" in private
    assert "one trained on the real records" in private

    class Corner(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :1, 0, 0].repeat(1, 2)

    network = tmp_path / "corner.pt"
    torch.jit.script(Corner()).save(str(network))
    np.savez(tmp_path / "grey.npz", x=np.full((40, 8, 8), 12, dtype=np.uint8), y=np.arange(40) % 10)
    arguments = ["evaluate", str(out), "--test", str(tmp_path / "grey.npz"), "--device", "cpu", "--json"]
    capsys.readouterr()
    assert run([*arguments, "--inception", str(network), "--inception-range", "0,1"]) == 0
    with np.load(out / "synthetic.npz") as made:
        corner = made["x"][:, 0, 0] / 16.0
    # white is the public 16, whatever the brightest pixel is
    expected = 2.0 * ((0.75 - corner.mean()) ** 2 + corner.var(ddof=1))
    assert json.loads(capsys.readouterr().out)["fid"] == pytest.approx(expected, rel=1e-3)
    assert run([*arguments, "--inception", str(network), "--inception-range", "1"]) == 2
    (out / "evaluation.json").unlink()
    capsys.readouterr()
    assert run(["report", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["private"] is None
    page = (out / "report.html").read_text()
    assert "nothing else of the records was looked at" in page
    assert "not private" not in page
    assert not (out / "report-private.html").exists()


@pytest.mark.parametrize(
    ("public", "code", "word"),
    [
        (("--classes", "2"), 2, "--range"),
        (("--range", "0,1"), 2, "--classes"),
        (("--classes", "1", "--range", "0,1"), 3, "labels"),
        (("--classes", "2", "--range", "1,0"), 2, "range"),
        (("--classes", "2", "--range", "zero,one"), 2, "LOW,HIGH"),
        (("--classes", "2", "--range", "0,1", "--shape", "3,3"), 2, "shape"),
        (("--classes", "2", "--range", "0,1", "--shape", "wide"), 2, "HEIGHT"),
        (("--classes", "2", "--range", "0,1", "--method", "magic"), 2, "method"),
        (("--classes", "2", "--range", "0,1", "--device", "abacus"), 2, "device"),
        (("--classes", "2", "--range", "0,1", "--samples", "0"), 2, "samples"),
        (("--classes", "2", "--range", "0,1", "--epsilon", "-1"), 2, "ε"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence_and_cost_nothing(
    capsys: Any, data: str, tmp_path: Path, public: tuple[str, ...], code: int, word: str
) -> None:
    assert synth(data, tmp_path / "out", public=public) == code
    assert word in sentence(capsys)
    if (tmp_path / "data.npz.ledger").exists():
        assert run(["ledger", "show", str(tmp_path / "data.npz.ledger"), "--json"]) == 0
        assert not any(d["entries"] for d in json.loads(capsys.readouterr().out)["datasets"])


def test_an_exhausted_budget_refuses_a_second_synthesis(capsys: Any, data: str, tmp_path: Path) -> None:
    ledger = ("--ledger", str(tmp_path / "ledger"))
    assert synth(data, tmp_path / "one", *ledger) == 0
    capsys.readouterr()
    assert synth(data, tmp_path / "two", *ledger) == 4
    assert "budget" in sentence(capsys)
    # a refused job can be resumed once there is budget, and until then refuses again
    assert synth(data, tmp_path / "two", *ledger, "--resume") == 4


def test_one_record_under_replace_one_and_missing_files_are_bad_data(capsys: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", x=np.ones((1, 2)))
    one, public = str(tmp_path / "one.npz"), ("--range", "0,1", "--adjacency", "replace-one")
    assert synth(one, tmp_path / "out", public=public) == 3
    assert "single record" in sentence(capsys)
    # its number is private under add-remove: a refusal would tell one record from two
    assert synth(one, tmp_path / "out", public=public[:2]) == 0
    capsys.readouterr()
    np.savez(tmp_path / "nan.npz", x=np.full((5, 2), np.nan))
    assert synth(str(tmp_path / "nan.npz"), tmp_path / "out2", public=("--range", "0,1")) == 3
    sentence(capsys)
    assert synth(str(tmp_path / "none.npz"), tmp_path / "out3", public=("--range", "0,1")) == 3
    sentence(capsys)
    assert run(["sample", str(tmp_path), "--out", "x.npz"]) == 3
    sentence(capsys)
    assert run(["report", str(tmp_path)]) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_refused(capsys: Any, data: str, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    assert synth(data, tmp_path / "shut" / "out", "--ledger", str(tmp_path / "ledger")) == 3
    sentence(capsys)


def test_an_output_folder_inside_a_file_costs_nothing(capsys: Any, data: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert synth(data, tmp_path / "file" / "out", "--ledger", str(tmp_path / "ledger")) == 3
    assert "cannot be written" in sentence(capsys)


def test_a_corrupt_checkpoint_or_release_is_bad_data(capsys: Any, data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert synth(data, out) == 0
    capsys.readouterr()
    for name in ("checkpoint.safetensors", "release.npz", "job.json"):
        held = (out / name).read_bytes()
        (out / name).write_bytes(held[:100])
        assert synth(data, out, "--resume") == 3, name
        assert "damaged" in sentence(capsys)
        (out / name).write_bytes(held)
    assert synth(data, out, "--resume") == 0


def test_resuming_with_other_terms_is_refused(capsys: Any, data: str, tmp_path: Path) -> None:
    assert synth(data, tmp_path / "out") == 0
    capsys.readouterr()
    assert synth(data, tmp_path / "out", "--resume", "--epsilon", "1") == 2
    assert "epsilon" in sentence(capsys)
    assert synth(data, tmp_path / "out", "--resume", "--adjacency", "replace-one") == 2
    assert "adjacency" in sentence(capsys)
    assert synth(data, tmp_path / "out", "--resume", "--set", "steps=7") == 2
    assert "steps" in sentence(capsys)
    assert synth(data, tmp_path / "out", "--resume", "--classes", "3") == 2
    assert "classes" in sentence(capsys)
    # before paying, the records must be those that were looked at when it started
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privot.jobs.run.Run.release", _stopped)
        assert synth(data, tmp_path / "other", "--ledger", str(tmp_path / "ledger")) == 130
    with np.load(data) as held:
        np.savez(data, x=np.repeat(held["x"], 2, axis=1), y=held["y"])
    capsys.readouterr()
    book = ("--ledger", str(tmp_path / "ledger"))
    assert synth(data, tmp_path / "other", *book, "--resume") == 4
    assert "--new-records" in sentence(capsys)
    assert synth(data, tmp_path / "other", *book, "--resume", "--new-records") == 2
    assert "the records it was started with" in sentence(capsys)
    assert entries(tmp_path / "ledger", capsys) == []


def test_a_job_that_was_refused_buys_no_second_budget_for_changed_records(
    capsys: Any, data: str, tmp_path: Path
) -> None:
    assert synth(data, tmp_path / "one") == 0
    assert synth(data, tmp_path / "two") == 4
    with np.load(data) as held:
        np.savez(data, x=held["x"][1:], y=held["y"][1:])
    capsys.readouterr()
    # nothing was paid, so without --resume the job is begun again, and refused again
    for more in ([], ["--resume"]):
        assert synth(data, tmp_path / "two", *more) == 4
        assert "guards other records" in capsys.readouterr().err
    assert synth(data, tmp_path / "three") == 4
    assert "--new-records" in sentence(capsys)
    # nor does setting a budget by hand
    init = ["ledger", "init", f"{data}.ledger", "--data", data, "--epsilon", "9", "--delta", "1e-5"]
    init += ["--adjacency", "add-remove"]
    assert run(init) == 4
    assert "--new-records" in sentence(capsys)
    assert len(entries(Path(f"{data}.ledger"), capsys)) == 1
    assert run([*init, "--new-records"]) == 0
    assert synth(data, tmp_path / "three", "--epsilon", "9") == 0


def test_resuming_without_a_job_starts_one_and_says_so(capsys: Any, data: str, tmp_path: Path) -> None:
    assert synth(data, tmp_path / "out", "--resume") == 0
    assert "no job" in sentence(capsys)


def test_classes_hidden_by_the_noise_are_listed(capsys: Any, tmp_path: Path) -> None:
    y = np.array([0] * 300 + [1] * 3)
    np.savez(tmp_path / "data.npz", x=np.clip(0.3 + 0.4 * y[:, None] + np.zeros((303, 2)), 0, 1), y=y)
    out, data = tmp_path / "out", str(tmp_path / "data.npz")
    assert synth(data, out, "--epsilon", "1") == 0
    # noise may put the class back, one time in a hundred
    gone = set(np.load(out / "synthetic.npz")["y"]) == {0}
    assert ("No sample is of class 1" in capsys.readouterr().out) is gone
    assert ("left out" in (out / "report.html").read_text(encoding="utf-8")) is gone
    assert synth(data, tmp_path / "more", "--new-records", "--ledger", str(tmp_path / "l"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["left_out"] in ([], [1])


@pytest.mark.parametrize("wrong", [["--set", "checkpoint=nan"], ["--set", "checkpoint=-1"], ["--set", "clip=3"]])
def test_options_without_a_meaning_are_refused(capsys: Any, data: str, tmp_path: Path, wrong: list[str]) -> None:
    assert synth(data, tmp_path / "out", *wrong) == 2
    assert wrong[0] in sentence(capsys)
    assert [p.name for p in tmp_path.iterdir()] == ["data.npz"]


def test_an_evaluation_that_was_edited_is_refused(capsys: Any, data: str, tmp_path: Path) -> None:
    assert synth(data, tmp_path / "out") == 0
    for name, text in (("evaluation.json", '{"scores": 5}'), ("audit.json", '{"findings": [1]}')):
        (tmp_path / "out" / name).write_text(text)
        capsys.readouterr()
        assert run(["report", str(tmp_path / "out")]) == 3
        assert f"{name} is damaged" in sentence(capsys)
        (tmp_path / "out" / name).unlink()
    assert run(["evaluate", str(tmp_path / "out"), "--test", data, "--shape", "4,4"]) == 2
    assert "16 values" in sentence(capsys)
    assert run(["evaluate", str(tmp_path / "out"), "--test", data, "--seed", "-1"]) == 2
    assert "--seed" in sentence(capsys)


def entries(ledger: Path, capsys: Any) -> list[Any]:
    capsys.readouterr()
    assert run(["ledger", "show", str(ledger), "--json"]) == 0
    return [e for d in json.loads(capsys.readouterr().out)["datasets"] for e in d["entries"]]


def test_one_data_set_has_one_budget_for_all_output_folders(capsys: Any, data: str, tmp_path: Path) -> None:
    assert synth(data, tmp_path / "one") == 0
    said = capsys.readouterr().out
    assert f"{tmp_path / 'data.npz.ledger'}" in said
    # the budget that the first run set holds: neither another folder nor a link nor other terms buy a second one
    assert synth(data, tmp_path / "two") == 4
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.npz").symlink_to(data)
    assert synth(str(tmp_path / "elsewhere" / "link.npz"), tmp_path / "three") == 4
    assert synth(data, tmp_path / "four", "--epsilon", "9") == 4
    assert len(entries(tmp_path / "data.npz.ledger", capsys)) == 1
    assert sorted(p.name for p in tmp_path.rglob("*.ledger")) == ["data.npz.ledger"]


def test_built_in_data_has_its_ledger_beside_the_output_folder(capsys: Any, tmp_path: Path) -> None:
    for out, code in (("one", 0), ("two", 4)):
        assert run(["synth", "digits", *TERMS, *QUICK, "--out", str(tmp_path / out)]) == code
    assert len(entries(tmp_path / "digits.ledger", capsys)) == 1


def test_an_unreadable_file_leaves_no_ledger(tmp_path: Path) -> None:
    assert synth(str(tmp_path / "none.npz"), tmp_path / "out") == 3
    assert not list(tmp_path.rglob("*.ledger*"))


def test_a_job_is_resumed_with_its_own_ledger_only(capsys: Any, data: str, tmp_path: Path) -> None:
    out, own, other = tmp_path / "out", tmp_path / "own", tmp_path / "other"
    assert synth(data, out, "--ledger", str(own)) == 0
    (out / "release.npz").unlink()
    capsys.readouterr()
    # no ledger is made for a job that has one, and a ledger that never saw its charge cannot pay a second time
    assert synth(data, out, "--ledger", str(other), "--resume") == 3
    sentence(capsys)
    assert not other.exists()
    # its own ledger is remembered, and knows of a charge whose release is lost
    assert synth(data, out, "--resume") == 4
    assert "second time" in sentence(capsys)
    assert run(["ledger", "init", str(other), "--data", data, *TERMS]) == 0
    capsys.readouterr()
    for again in ((), ("--pay-again",)):
        assert synth(data, out, "--ledger", str(other), "--resume", *again) == 3
        assert "another ledger" in sentence(capsys)
    assert entries(other, capsys) == []
    assert len(entries(own, capsys)) == 1


def changed(path: Path, change: Any) -> None:
    """Write other facts into a release."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    facts = json.loads(members["release.json"])
    change(facts)
    members["release.json"] = json.dumps(facts).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_release_that_the_job_did_not_pay_for_is_refused(capsys: Any, data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert synth(data, out) == 0
    path = out / "release.npz"
    held = path.read_bytes()
    quiet = account(Gaussian(200.0, 1.0, Adjacency.ADD_REMOVE), 1e-5).to_dict()
    for change in (
        lambda f: f.update(guarantee=quiet),
        lambda f: f["public"].update(sigma=200.0),
        lambda f: f["public"]["features"].update(seed=2),
        lambda f: f.update(guarantee=quiet, public={**f["public"], "sigma": 200.0}),
    ):
        changed(path, change)
        capsys.readouterr()
        assert synth(data, out, "--resume") == 3
        assert "not the one" in sentence(capsys)
        path.write_bytes(held)
    assert synth(data, out, "--resume") == 0
    # another job's release, and a folder whose job was never charged
    assert synth(data, tmp_path / "poor") == 4
    (tmp_path / "poor" / "release.npz").write_bytes(held)
    capsys.readouterr()
    assert synth(data, tmp_path / "poor", "--resume") == 3
    assert "never paid" in sentence(capsys)


def test_a_job_file_with_less_noise_is_refused_before_paying(capsys: Any, data: str, tmp_path: Path) -> None:
    for name, value in (("sigma", 0.2), ("delta", 1e-2), ("facts", {"classes": 3})):
        out, ledger = tmp_path / name, tmp_path / f"{name}.ledger"
        assert run(["ledger", "init", str(ledger), "--data", data, "--epsilon", "50", *TERMS[2:]]) == 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("privot.jobs.run.Run.release", _stopped)
            assert synth(data, out, "--ledger", str(ledger)) == 130
        job = json.loads((out / "job.json").read_text())
        design = job["settings"]["design"]
        design[name] = {**design[name], **value} if isinstance(value, dict) else value
        (out / "job.json").write_text(json.dumps(job))
        capsys.readouterr()
        assert synth(data, out, "--ledger", str(ledger), "--resume") == 3, name
        sentence(capsys)
        assert entries(ledger, capsys) == []


def _stopped(*arguments: Any, **named: Any) -> Any:
    raise KeyboardInterrupt


def test_two_processes_on_one_folder_pay_once(capsys: Any, data: str, tmp_path: Path) -> None:
    ledger, out = tmp_path / "ledger", tmp_path / "out"
    assert run(["ledger", "init", str(ledger), "--data", data, "--epsilon", "50", *TERMS[2:]]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privot.jobs.run.Run.release", _stopped)
        assert synth(data, out, "--ledger", str(ledger)) == 130
    # fresh processes: one that has used tensors cannot be forked safely
    program = "import sys; from privot.cli import run; sys.exit(run(sys.argv[1:]))"
    words = command(data, out, "--ledger", str(ledger), "--resume")
    children = [warm.Process(["-c", program, *words]) for _ in range(3)]
    codes = [child.wait() for child in children]
    assert 0 in codes
    assert set(codes) <= {0, 2}
    assert len(entries(ledger, capsys)) == 1


def test_classes_0_leaves_the_labels_out(data: str, tmp_path: Path) -> None:
    assert synth(data, tmp_path / "out", public=("--classes", "0", "--range", "0,1")) == 0
    with np.load(tmp_path / "out" / "synthetic.npz") as made:
        assert made.files == ["x"]


@pytest.mark.parametrize("method", ["sinkhorn", "sliced"])
def test_methods_that_pay_in_blocks_write_the_same_folder(method: str, tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).uniform(size=(60, 4)), np.arange(60) % 2
    data, out = tmp_path / "data.npz", tmp_path / "out"
    np.savez(data, x=x, y=y)
    arguments = ["synth", str(data), *"--epsilon 3 --delta 1e-5 --adjacency replace-one --classes 2".split()]
    arguments += ["--range", "0,1", "--shape", "2,2", "--samples", "20", "--device", "cpu", "--out", str(out)]
    arguments += ["--method", method, "--set", "steps=4", "--set", "blocks=2", "--set", "batch=10", "--json"]
    assert run(arguments) == 0
    assert {"generator.safetensors", "guarantee.json", "synthetic.npz", "grid.png", "report.html"} <= {
        p.name for p in out.iterdir()
    }
    # resumed when all is done it pays nothing, and other options are another job
    assert run([*arguments, "--resume"]) == 0
    assert run([*arguments, "--set", "batch=11", "--resume"]) == 2
    assert run([*arguments[:-1], "--set", "batch"]) == 2
    with Ledger.open(tmp_path / "data.npz.ledger") as book:
        assert len(book.entries()) == 2


def test_a_paid_job_is_not_resumed_with_other_records(capsys: Any, data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert synth(data, out) == 0
    (out / "release.npz").unlink()
    with np.load(data) as held:
        np.savez(data, x=held["x"][:-3], y=held["y"][:-3])
    capsys.readouterr()
    # they would have a budget of their own, beside the one that was charged before
    assert synth(data, out, "--resume", "--pay-again") == 4
    assert "--new-records" in sentence(capsys)
    with Ledger.open(tmp_path / "data.npz.ledger") as book:
        assert len(book.datasets()) == 1


def test_the_folder_states_what_the_ledger_spent_in_all(capsys: Any, data: str, tmp_path: Path) -> None:
    budget = "--epsilon 30 --delta 1e-5 --adjacency add-remove".split()
    assert run(["ledger", "init", str(tmp_path / "data.npz.ledger"), "--data", data, *budget]) == 0
    out = tmp_path / "out"
    capsys.readouterr()
    assert synth(data, out, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    once, spent = answer["guarantee"]["epsilon"], answer["spent_in_ledger"]
    assert answer["ledger"] == str(tmp_path / "data.npz.ledger")
    assert spent["job"] == {"epsilon": spent["epsilon"], **_terms(answer["guarantee"]), "charges": 1}
    assert spent["epsilon"] == pytest.approx(once, rel=1e-6)
    assert "more than the guarantee" not in (out / "report.html").read_text()
    # the release is lost, as if killed between charge and release, and paid for again
    (out / "release.npz").unlink()
    assert synth(data, out, "--resume") == 4
    assert "--pay-again" in sentence(capsys)
    assert synth(data, out, "--resume", "--pay-again", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    spent = answer["spent_in_ledger"]
    assert answer["guarantee"]["epsilon"] == pytest.approx(once, rel=1e-6)
    with Ledger.open(tmp_path / "data.npz.ledger") as book:
        [event, again] = [entry.event for entry in book.entries()]
    # the same Gaussian mechanism twice is one with σ/√2
    assert event == again
    twice = gaussian_epsilon(event.sensitivity * 2**0.5 / event.sigma, 1e-5)
    assert spent["job"]["charges"] == 2
    assert spent["job"]["epsilon"] == spent["epsilon"] == pytest.approx(twice, rel=1e-3)
    assert json.loads((out / "spent.json").read_text()) == spent
    page = (out / "report.html").read_text()
    assert f"ε = {twice:.3g}"[:6] in page
    assert "more than the guarantee" in page
    # another job on the same records: the data set holds more than either
    assert synth(data, tmp_path / "second", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    spent = answer["spent_in_ledger"]
    assert spent["job"]["epsilon"] == pytest.approx(once, rel=1e-6)
    assert spent["epsilon"] == pytest.approx(gaussian_epsilon(event.sensitivity * 3**0.5 / event.sigma, 1e-5), rel=1e-3)
    assert synth(data, out, "--resume") == 0
    said = capsys.readouterr().out
    assert f"ε = {spent['epsilon']:.6g} at δ = 1e-05, add-remove, proven" in said
    assert "in 2 charges" in said


def _terms(guarantee: dict[str, Any]) -> dict[str, Any]:
    return {name: guarantee[name] for name in ("delta", "adjacency", "unit", "standing")}


def gaussian_epsilon(shift: float, delta: float) -> float:
    """ε of N(0, 1) against N(shift, 1) at δ (Balle & Wang 2018, theorem 8), by bisection."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(epsilon: float) -> float:
        a, b = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
        return float(norm.cdf(a) - np.exp(epsilon) * norm.cdf(b) - delta)

    return float(brentq(excess, 0.0, 100.0))
