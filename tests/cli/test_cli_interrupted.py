"""Ctrl-C and SIGTERM: exit code 130, one charge, and one sentence with the command that resumes the job."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warm
from privot.cli import run
from privot.jobs.job import Job
from privot.ledger import Ledger
from privot.synthesis import Rules, Synthesizer
from privot.synthesis.method_configs import Embedding
from privot.synthesis.methods.embedding_training import train
from privot.synthesis.neural.generator_training.checkpoint import Keeper, load
from privot.vault import Vault

pytestmark = pytest.mark.kills

TERMS = "--epsilon 5 --delta 1e-5 --adjacency add-remove --device cpu --seed 1".split()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    y = np.arange(200) % 2
    x = np.clip(0.25 + 0.5 * y[:, None] + 0.05 * np.random.default_rng(0).standard_normal((200, 2)), 0, 1)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    return tmp_path / "data.npz"


def charges(path: Path) -> int:
    with Ledger.open(path) as book:
        return len(book.entries())


def interrupted(
    arguments: list[str],
    when: Callable[[int], bool],
    number: int = signal.SIGINT,
    wait: float = 0.0,
    cwd: Path | None = None,
    fresh: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Start `privot …`, send the signal once `when` is true, and wait for its end. `fresh`: nothing is loaded yet."""
    words = ["-m", "privot", *arguments]
    if fresh:
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process: Any = subprocess.Popen([sys.executable, *words], **pipes, cwd=cwd, preexec_fn=warm.hear_interrupts)
    else:
        process = warm.Process(words, cwd)
    until = time.monotonic() + 280
    while not when(process.pid) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(wait)
    process.send_signal(number)
    out, err = process.communicate(timeout=280)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def again(said: str) -> list[str]:
    """The arguments of the command that the sentence names."""
    return shlex.split(said.strip().split("with: privot ")[-1])


def test_an_interrupted_synthesis_is_resumed_without_repeating_options(data: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "some folder"
    words = ["synth", "data.npz", *TERMS, "--classes", "2", "--range", "0,1", "--set", "steps=200", "--samples", "50"]
    checkpoint = out / "checkpoint.safetensors"
    found = interrupted(
        [*words, "--set", "checkpoint=0", "--out", str(out)], lambda _: checkpoint.exists(), cwd=tmp_path
    )
    assert found.returncode == 130, found.stderr
    # on a busy machine lines of progress come before it
    assert found.stderr.count("privot: ") == 1
    assert "charged once; the release is saved, trained up to step " in found.stderr.splitlines()[-1]
    assert again(found.stderr) == ["synth", "--resume", "--out", str(out)]
    assert run([*again(found.stderr), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["samples"], answer["ledger"]) == (50, str(tmp_path / "data.npz.ledger"))
    assert charges(tmp_path / "data.npz.ledger") == 1


def test_interrupted_training_writes_a_checkpoint(tmp_path: Path) -> None:
    """The signal comes during step 20 or 21; the next checkpoint was due hours later."""
    x = np.clip(np.random.default_rng(0).normal(0.5, 0.1, size=(60, 2)), 0, 1)
    vault = Vault(x, clip=1.0, adjacency="add-remove", budget=(5.0, 1e-5))
    generator = {"kind": "mlp", "dim": 2, "classes": 1, "segments": [[0, 2, "interval"]], "latent": 4, "hidden": [16]}
    synthesizer = Synthesizer(5.0, 1e-5, device="cpu", seed=1, method=Embedding(rules=Rules(generator, 60, 16, 1e-2)))
    design = synthesizer.design(vault.facts)
    release = vault.release(design.mechanism, purpose="test", delta=1e-5)
    path = tmp_path / "checkpoint.safetensors"

    def strike(step: int, *_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    warm.hear_interrupts()
    try:
        with pytest.raises(KeyboardInterrupt):
            train(release, design.rules, progress=strike, keep=Keeper(path, release.digest(), every=1e9))
    finally:
        signal.signal(signal.SIGINT, before)
    kept = load(path, design.rules, "cpu", release=release.digest())
    assert (kept.step, len(kept.losses)) in ((20, 20), (21, 21))


def test_a_synthesis_interrupted_before_it_paid_says_so(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = (
        "import os, signal, privot.vault as v, privot.cli as cli\n"
        "release = v.Vault.release_once\n"
        "def early(self, *a, **k): raise KeyboardInterrupt\n"
        "v.Vault.release_once = early\n"
        "cli.main()"
    )
    words = ["synth", str(data), *TERMS, "--classes", "2", "--range", "0,1", "--set", "steps=6", "--samples", "50"]
    found = warm.run(["-c", code, *words, "--json", "--out", str(out)])
    assert (found.returncode, found.stdout) == (130, "")
    assert "nothing was paid" in found.stderr
    assert charges(tmp_path / "data.npz.ledger") == 0
    assert run(again(found.stderr)) == 0
    assert charges(tmp_path / "data.npz.ledger") == 1


def test_an_interrupt_between_charge_and_release_waits_for_the_release(data: Path, tmp_path: Path) -> None:
    """The signal comes right after the charge: the release is made and kept before the command ends."""
    out = tmp_path / "out"
    code = (
        "import os, signal, privot.ledger.ledger as l, privot.cli as cli\n"
        "charge = l.Ledger.charge\n"
        "def struck(self, *a, **k):\n"
        "    entry = charge(self, *a, **k); os.kill(os.getpid(), signal.SIGINT); return entry\n"
        "l.Ledger.charge = struck\n"
        "cli.main()"
    )
    words = ["synth", str(data), *TERMS, "--classes", "2", "--range", "0,1", "--set", "steps=6", "--samples", "50"]
    found = warm.run(["-c", code, *words, "--out", str(out)])
    assert found.returncode == 130, found.stderr
    assert (out / "release.npz").exists()
    assert "the release is saved" in found.stderr
    assert run(again(found.stderr)) == 0
    assert charges(tmp_path / "data.npz.ledger") == 1


@pytest.mark.parametrize("kept", [True, False])
def test_a_second_interrupt_between_charge_and_release_says_what_is_kept_or_spent(
    kept: bool, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code = (
        "import os, signal, pathlib, privot.ledger.ledger as l, privot.cli as cli\n"
        "charge = l.Ledger.charge\n"
        "def struck(self, *a, **k):\n"
        "    charge(self, *a, **k)\n"
        f"    [salt.unlink() for salt in pathlib.Path({str(out)!r}).glob('*.salt') if not {kept}]\n"
        "    for _ in range(2): os.kill(os.getpid(), signal.SIGINT)\n"
        "    [None for _ in range(1000)]\n"
        "l.Ledger.charge = struck\n"
        "cli.main()"
    )
    words = ["synth", str(data), *TERMS, "--classes", "2", "--range", "0,1", "--set", "steps=6", "--samples", "50"]
    found = warm.run(["-c", code, *words, "--out", str(out)])
    assert found.returncode == 130, found.stderr
    if kept:
        assert "what makes the very same one is kept" in found.stderr
        assert run(again(found.stderr)) == 0
        assert charges(tmp_path / "data.npz.ledger") == 1
        return
    assert "stopped before the release was saved: that budget is spent" in found.stderr
    assert "--pay-again" in found.stderr
    assert run(["synth", "--resume", "--out", str(out)]) == 4


def test_an_interrupted_synthesis_in_blocks_finishes_the_paid_block(data: Path, tmp_path: Path) -> None:
    out, ledger = tmp_path / "out", tmp_path / "data.npz.ledger"
    more = "--method sinkhorn --set steps=40 --set blocks=4 --set batch=4 --set points=4".split()
    words = ["synth", str(data), *TERMS, "--classes", "2", "--range", "0,1", *more, "--samples", "50"]
    found = interrupted([*words, "--out", str(out)], lambda _: (out / "checkpoint.safetensors").exists())
    assert found.returncode == 130, found.stderr
    assert "is lost" not in found.stderr
    paid = charges(ledger)
    assert 1 <= paid < 4
    assert run(again(found.stderr)) == 0
    assert charges(ledger) == 4


def test_an_interrupted_table_synthesis_is_resumed_without_repeating_options(tmp_path: Path) -> None:
    lines = ["age,ill", *(f"{20 + k % 60},{('no', 'yes')[k % 2]}" for k in range(400))]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    columns = [
        {"name": "age", "type": "integer", "low": 0, "high": 99},
        {"name": "ill", "type": "boolean", "categories": ["no", "yes"]},
    ]
    (tmp_path / "schema.json").write_text(json.dumps({"label": "ill", "columns": columns}))
    out = tmp_path / "out"
    words = ["synth", "data.csv", *TERMS, "--schema", "schema.json", "--samples", "50", "--out", "out"]
    found = interrupted(words, lambda _: (out / "release.npz").exists(), signal.SIGTERM, cwd=tmp_path)
    assert found.returncode == 130, found.stderr
    assert "the release is saved" in found.stderr
    assert run(["synth", "--resume", "--out", str(out)]) == 0
    assert charges(tmp_path / "data.csv.ledger") == 1


def test_an_interrupted_adaptation_is_resumed_without_repeating_options(tmp_path: Path) -> None:
    dice, y = np.random.default_rng(0), np.arange(80) % 2
    for name, shift in (("source", 0.0), ("target", 0.1)):
        x = np.clip(0.25 + 0.4 * y[:, None] + shift + 0.05 * dice.standard_normal((80, 2)), 0, 1)
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    out = tmp_path / "out"
    words = "adapt source.npz target.npz --epsilon 5 --delta 1e-5 --seed 1 --device cpu --range 0,1".split()
    words += ["--set", "fit=3", "--set", "finish=300", "--test", "target.npz", "--out", "out"]
    found = interrupted(words, lambda _: (out / "block-1.npz").exists(), cwd=tmp_path)
    assert found.returncode == 130, found.stderr
    assert "the release is saved" in found.stderr
    assert run(["adapt", "--resume", "--out", str(out)]) == 0
    assert charges(tmp_path / "target.npz.ledger") == 1


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    "words",
    [
        "compare digits digits --slices 100000",
        "audit embedding --sigma 1 --adjacency add-remove --runs 10000000",
    ],
)
def test_an_interrupted_command_that_pays_nothing_says_so(words: str) -> None:
    # once NumPy is loaded the command is under way
    found = interrupted(
        words.split(), lambda pid: "numpy" in Path(f"/proc/{pid}/maps").read_text(), wait=0.3, fresh=True
    )
    assert (found.returncode, found.stdout) == (130, "")
    assert found.stderr == "privot: Interrupted: this run paid nothing.\n"


def test_a_resumed_job_interrupted_while_it_starts_says_what_it_paid(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["synth", str(data), *TERMS, "--classes", "2", "--range", "0,1", "--set", "steps=6", "--samples", "50"]
    assert run([*words, "--out", str(out)]) == 0
    struck = "import privot.cli as cli\ndef strike(*_, **__): raise KeyboardInterrupt\n{place} = strike\ncli.main()"
    # while modules are imported, while arguments are read, while the job is looked at
    for place in ("cli.run", "cli._command", "import privot.jobs.job as j; j.Job.check_same"):
        found = warm.run(["-c", struck.format(place=place), "synth", "--resume", "--out", str(out)])
        assert found.returncode == 130, found.stderr
        assert "charged once; the release is saved, trained up to step 6." in found.stderr
        assert again(found.stderr) == ["synth", "--resume", "--out", str(out)]
    # what the ledger says is not known without it
    (tmp_path / "data.npz.ledger").rename(tmp_path / "moved.ledger")
    found = warm.run(["-c", struck.format(place="cli.run"), "synth", f"--out={out}", "--resume"])
    assert "this run paid nothing, and what the job paid before is kept. Go on with: privot synth" in found.stderr


def test_a_raise_interrupted_after_its_commit_is_told(data: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "data.ledger"
    terms = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove"]
    assert run(["ledger", "init", str(ledger), "--data", str(data), *terms]) == 0
    struck = (
        "import privot.ledger.ledger as l, privot.cli as cli\n"
        "{name} = l.Ledger.{name}\n"
        "def strike(self, *a, **k): {call}raise KeyboardInterrupt\n"
        "l.Ledger.{name} = strike\n"
        "cli.main()"
    )
    words = ["ledger", "raise", str(ledger), "--epsilon", "3", "--reason", "a test", "--i-am-the-steward"]
    # before the row is written, and after
    for call, said in (("", "this run paid nothing."), ("_append(self, *a, **k); ", "this run paid nothing.")):
        found = warm.run(["-c", struck.format(name="_append", call=call), *words])
        assert (found.returncode, found.stderr) == (130, f"privot: Interrupted: {said}\n")
    found = warm.run(["-c", struck.format(name="_anchor", call=""), *words])
    assert found.stderr == f"privot: Interrupted: this run paid nothing; the budget in {ledger} is raised.\n"
    with Ledger.open(ledger) as book:
        assert [budget.epsilon for budget in book.datasets()] == [3.0]


def test_an_interrupt_says_what_each_ledger_was_charged(data: Path, tmp_path: Path) -> None:
    code = (
        "import numpy as np, privot.cli as cli\n"
        "from privot import Count, Ledger, Vault\n"
        "def pays(*_):\n"
        "    for name, times in (('a', 1), ('b', 2)):\n"
        "        book = Ledger.create(name)\n"
        "        vault = Vault(np.eye(3), clip=1.0, adjacency='add-remove', ledger=book, budget=(5.0, 1e-5))\n"
        "        for _ in range(times): vault.release(Count(epsilon=1.0, delta=1e-5), purpose='a count')\n"
        "    raise KeyboardInterrupt\n"
        "cli._command = pays\n"
        "cli.main()"
    )
    found = warm.run(["-c", code, "demo"], cwd=tmp_path)
    told = f"charged once to {tmp_path / 'a'} and 2 times to {tmp_path / 'b'}; the budget in {tmp_path / 'a'} is set"
    assert found.stderr.startswith(f"privot: Interrupted: {told}; ")


def test_a_failure_after_the_charge_says_what_was_paid_and_how_to_go_on(
    data: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    words = ["synth", str(data), *TERMS, "--classes", "2", "--range", "0,1", "--set", "steps=6", "--samples", "50"]
    going = f"charged once to {data}.ledger, and what is kept of it goes on with: privot synth --resume --out {out}"

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("privot.synthesis.output.output_folder.write_folder", full)
        assert run([*words, "--json", "--out", str(out)]) == 3
    assert capsys.readouterr().err.endswith(f"No space left on device; {going}.\n")
    assert run([*again(going), "--json"]) == 0
    capsys.readouterr()

    # what nobody foresaw, of another job
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("privot.synthesis.output.output_folder.write_folder", fail)
        assert run([*words, "--ledger", str(tmp_path / "b.ledger"), "--out", str(tmp_path / "b")]) == 1
    assert "report it; charged once to " in capsys.readouterr().err
    assert [charges(tmp_path / name) for name in ("data.npz.ledger", "b.ledger")] == [1, 1]


def test_an_interrupt_within_code_that_is_made_from_text_ends_with_130(tmp_path: Path) -> None:
    # dataclasses are: an interrupt while one is defined used to end the process by the signal, after its sentence
    code = """
import sys
from privot import cli
cli.run = lambda *_: exec("raise KeyboardInterrupt")
sys.argv = ["privot"]
cli.main()
"""
    (tmp_path / "starting.py").write_text(code)
    found = subprocess.run([sys.executable, "-m", "starting"], capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 130, found.stderr


def test_a_job_file_with_a_command_that_no_job_keeps_is_refused(data: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    Job.start(out, {"command": []})
    fields = json.loads((out / "job.json").read_text())
    wrong: list[Any] = [3, ["x"], [["--out", "elsewhere"]], [["--new-records"]], [["--epsilon"]], [["--nothing", "1"]]]
    for command in [*wrong, [["--seed", 1]], [["", "a"]] * 501, [["--seed", "1" * 100_001]]]:
        fields["settings"]["command"] = command
        (out / "job.json").write_text(json.dumps(fields))
        assert run(["synth", "--resume", "--out", str(out)]) == 3
        assert "keeps a command that cannot be read" in capsys.readouterr().err


def test_options_typed_beside_resume_must_equal_those_of_the_job(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["synth", str(data), *TERMS, "--classes", "2", "--range", "0,1", "--set", "steps=6", "--samples", "50"]
    assert run([*words, "--out", str(out)]) == 0
    assert run(["synth", "--resume", "--out", str(out), "--epsilon", "6"]) == 2
    assert run(["synth", "--resume", f"--out={out}", "--samples", "70"]) == 0
    with np.load(out / "synthetic.npz") as made:
        assert len(made["x"]) == 70


def test_resuming_with_out_alone_says_what_was_recalled(data: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    words = ["synth", str(data), *TERMS, "--classes", "2", "--range", "0,1", "--set", "steps=6", "--samples", "50"]
    assert run([*words, "--out", str(out)]) == 0
    capsys.readouterr()
    assert run(["synth", "--resume", "--out", str(out)]) == 0
    ledger = tmp_path / "data.npz.ledger"
    said = f"Going on with the job in {out}: data {data}, ledger {ledger}, ε = 5, δ = 1e-05.\n"
    assert capsys.readouterr().err == said
    # what is typed is not recalled
    assert run(["synth", "--resume", "--out", str(out), "--delta", "1e-5"]) == 0
    assert capsys.readouterr().err == said.replace(", δ = 1e-05", "")
    assert run([*words, "--resume", "--out", str(out)]) == 0
    assert capsys.readouterr().err == ""
    # with --json nothing is printed but the answer
    assert run(["synth", "--resume", "--out", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert json.loads(printed.out)["out"] == str(out)


def test_what_was_recalled_is_printed_without_the_control_characters_of_a_job_file(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    hostile = "\x1b[2J\nprivot: all is well"
    Job.start(out, {"command": [["", hostile], ["--epsilon", "1\x07"], ["--ledger", "x" * 5000]]})
    assert run(["synth", "--resume", "--out", str(out)]) == 2
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(f"Going on with the job in {out}: data ")
    assert first.isprintable()
    assert len(first) < 400
    assert len(rest) == 1
