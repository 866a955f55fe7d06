"""Records jobs that are killed at chosen moments: `python record_jobs.py ARCHIVE` writes them into one archive.

`recorded_jobs.tar.xz` was made by it from commit 85c0c839, the last before `job.json` had a second version: what people
have on disk from then must be read, ended and not paid twice for ever. It names functions as they were called then, so
it runs from that commit only. Beside each job lies what that version itself made of it when it went on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo

import privot.adaptation
import privot.cli.app
import privot.synthesis
import privot.synthesis.output.html_report  # noqa: F401
from privot import cli
from privot.ledger import Ledger
from privot.partitions.engines.engine import arithmetic_mark

SMALL = "--samples 20 --seed 1 --device cpu --checkpoint 0"
ADDED = "--epsilon 2 --delta 1e-5 --adjacency add-remove"
REPLACED = "--epsilon 2 --delta 1e-5 --adjacency replace-one"
NUMBER = "--epsilon 0.5 --delta 1e-6"
LEARNER = "--seed 1 --device cpu --range 0,1 --set fit=3 --set finish=10"
SETTINGS = f"{LEARNER} --checkpoint 0"
TABLE = f"synth table.csv --schema table.json {ADDED} {SMALL} --ledger book.ledger --out out"
RELATED = (
    f"synth patients.csv --schema patients.json --child visits.csv --child-schema visits.json --parent-key id {ADDED} "
    f"{SMALL} --ledger book.ledger --out out"
)
PARTS = f"synth parts/*.csv --schema table.json {ADDED} {SMALL} --workers 1 --ledger book.ledger --out out"
IMAGES = f"synth points.npz --classes 2 --range 0,1 --steps 40 {ADDED} {SMALL} --ledger book.ledger --out out"
BLOCKS = "--classes 2 --range 0,1 --records 400 --steps 40 --set blocks=4 --set batch=20"
SINKHORN = f"synth points.npz --method sinkhorn {BLOCKS} {ADDED} {SMALL} --ledger book.ledger --out out"
ADAPT = f"adapt source.npz target.npz --epsilon 5 --delta 1e-5 {SETTINGS} --ledger book.ledger --out out"
ADAPT_SLICED = (
    "adapt source.npz target.npz --method sliced --epsilon 5 --delta 1e-5 --seed 1 --device cpu --range 0,1 "
    "--checkpoint 0 --ledger book.ledger --out out"
)
ASK = f"adapt source.npz --epsilon 5 --delta 1e-5 {LEARNER} --ask request.json --records 80 --out asked"
ANSWER = "answer request.json target.npz --epsilon 5 --delta 1e-5 --out answer.release"
MEAN = f"release mean a.csv --column u --range 0,9 {NUMBER} --adjacency add-remove"
SKETCH = f"sketch a.csv {NUMBER} --adjacency add-remove --range 0,9 --out s.sketch"
COMPARE = f"compare a.csv b.csv --method dp-swd {NUMBER} --adjacency replace-one --clip 9"

AFTER = "after "
"""Before a place: the process is killed when the call has ended."""
CHARGED = (AFTER + "privot.ledger.ledger.Ledger.charge", 1)
SAVED = ("privot.release.Release.save", 1)
CHECKPOINTS = "privot.synthesis.generator_training.checkpoint.write_tensors"
ADAPTED = "privot.adaptation.paid_training.write_tensors"
REPORTED = ("privot.synthesis.output.output_folder.write_report", 1)
CASES: dict[str, tuple[str, tuple[str, int] | None]] = {
    "table-begun": (TABLE, ("privot.vault.vault.check_purpose", 1)),
    "table-charged": (TABLE, CHARGED),
    "table-saved": (TABLE, SAVED),
    "table-released": (TABLE, ("privot.jobs.payments.check_charged", 1)),
    "table-made": (TABLE, REPORTED),
    "table-done": (TABLE, None),
    "related-charged": (RELATED, CHARGED),
    "related-released": (RELATED, ("privot.jobs.payments.check_charged", 1)),
    "related-done": (RELATED, None),
    "parts-begun": (PARTS, ("privot.ledger.ledger.Ledger.charge", 1)),
    "parts-charged": (PARTS, CHARGED),
    "parts-added": (PARTS, SAVED),
    "parts-released": (PARTS, ("privot.jobs.payments.check_charged", 1)),
    "embedding-charged": (IMAGES, CHARGED),
    "embedding-trained": (IMAGES, (CHECKPOINTS, 1)),
    "sinkhorn-lost": (SINKHORN, CHARGED),
    "sinkhorn-reserved": (SINKHORN, (AFTER + "privot.ledger.ledger.Ledger.reserve", 1)),
    "adapt-begun": (ADAPT, ("privot.ledger.ledger.Ledger.charge", 1)),
    "adapt-charged": (ADAPT, CHARGED),
    "adapt-released": (ADAPT, (ADAPTED, 3)),
    "adapt-blocks": (ADAPT_SLICED, (ADAPTED, 9)),
    "adapt-lost": (ADAPT_SLICED, CHARGED),
    "answer-secret": (ANSWER, ("privot.ledger.ledger.Ledger.charge", 1)),
    "answer-charged": (ANSWER, CHARGED),
    "answer-kept": (ANSWER, ("privot.cli.running.paid_answer.PaidAnswer._deliver", 1)),
    "mean-secret": (MEAN, ("privot.ledger.ledger.Ledger.charge", 1)),
    "mean-charged": (MEAN, CHARGED),
    "mean-kept": (MEAN, ("privot.release.Release.load", 1)),
    "sketch-charged": (SKETCH, CHARGED),
    "sketch-kept": (SKETCH, ("privot.federation.sketches.signed_sketch.Sketch.save", 1)),
    "compare-first": (COMPARE, CHARGED),
    "compare-kept": (COMPARE, ("privot.cli.running.private_comparison._answer", 1)),
    "compare-both": (COMPARE, (AFTER + "privot.ledger.ledger.Ledger.charge", 2)),
}
"""What was typed, and the call at which the process was killed."""
PYTHON: dict[str, tuple[str, str, tuple[str, int]]] = {
    "python-begun": ("table.csv", "table", ("privot.ledger.ledger.Ledger.charge", 1)),
    "python-table": ("table.csv", "table", SAVED),
    "python-released": ("table.csv", "table", ("privot.jobs.payments.check_charged", 1)),
    "python-adapt": ("target.npz", "adapt", (ADAPTED, 3)),
}


def write_data() -> None:
    """Made-up records, in the working folder."""
    dice = np.random.default_rng(0)
    for name, numbers in zip("ab", dice.integers(0, 10, size=(2, 60, 2)), strict=True):
        Path(f"{name}.csv").write_text("u,v\n" + "".join(f"{u},{v}\n" for u, v in numbers))
    columns: list[dict[str, Any]] = [{"name": n, "type": "continuous", "low": 0, "high": 9} for n in "ab"]
    label = {"name": "y", "type": "categorical", "categories": ["no", "yes"]}
    Path("table.json").write_text(json.dumps({"label": "y", "columns": [*columns, label]}))
    rows = [f"{a},{b},{'yes' if a + b > 9 else 'no'}\n" for a, b in dice.integers(0, 10, size=(240, 2))]
    Path("table.csv").write_text("a,b,y\n" + "".join(rows))
    Path("parts").mkdir()
    for number in range(3):
        Path(f"parts/{number}.csv").write_text("a,b,y\n" + "".join(rows[80 * number : 80 * (number + 1)]))
    Path("patients.csv").write_text("id,ill\n" + "".join(f"p{i},{('no', 'yes')[i % 3 == 0]}\n" for i in range(60)))
    visits = [f"p{i},{'ab'[j]}\n" for i, j in zip(dice.integers(0, 50, 120), dice.integers(0, 2, 120), strict=True)]
    Path("visits.csv").write_text("id,ward\n" + "".join(visits))
    ill = {"name": "ill", "type": "boolean", "categories": ["no", "yes"]}
    Path("patients.json").write_text(json.dumps({"columns": [ill]}))
    Path("visits.json").write_text(
        json.dumps({"columns": [{"name": "ward", "type": "categorical", "categories": ["a", "b"]}]})
    )
    y = np.arange(400) % 2
    x = np.clip(0.25 + 0.5 * y[:, None] + 0.05 * dice.standard_normal((400, 2)), 0, 1)
    np.savez_compressed("points.npz", x=np.round(x, 3), y=y)
    half = np.arange(120) % 2
    for name, shift in (("source", 0.0), ("target", 0.1)):
        x = np.round(np.clip(0.25 + 0.4 * half[:, None] + shift + 0.05 * dice.standard_normal((120, 2)), 0, 1), 3)
        np.savez_compressed(f"{name}.npz", x_train=x[:80], y_train=half[:80], x_test=x[80:], y_test=half[80:])


def strike(place: str, at: int) -> None:
    """Let the function at `place` kill its own process when it is called for the `at`-th time."""
    after = place.startswith(AFTER)
    owner, name = _found(place.removeprefix(AFTER).split("."))
    real, calls = getattr(owner, name), []

    def struck(*given: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == at and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(*given, **named)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, struck)


def _found(parts: list[str]) -> tuple[Any, str]:
    with suppress(ModuleNotFoundError):
        return import_module(".".join(parts[:-1])), parts[-1]
    return getattr(import_module(".".join(parts[:-2])), parts[-2]), parts[-1]


def life(work: Any, struck: tuple[str, int] | None = None) -> tuple[int, str, str]:
    """(exit code or minus the signal, standard output, standard error) of one life, in a fork."""
    child = os.fork()
    if child == 0:
        for number, name in ((1, "../out"), (2, "../err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        torch.set_num_threads(1)
        if struck is not None:
            strike(*struck)
        code = 1
        try:
            code = int(work() or 0)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, Path("../out").read_text(), Path("../err").read_text()


def typed(words: str) -> Any:
    return lambda: cli.run(words.split())


def fitted(data: str, kind: str) -> Any:
    """A job that is begun from Python, as it is written today."""

    def work() -> None:
        from privot.adaptation import DomainAdapter
        from privot.synthesis import Synthesizer
        from privot.tables import Schema, TableCodec
        from privot.vault import Vault

        place = Path("book.ledger")
        book = Ledger.open(place) if place.exists() else Ledger.create(place)
        budget = None if book.datasets() else (2.0, 1e-5)
        if kind == "table":
            codec = TableCodec(Schema.load("table.json"))
            vault = Vault.open(data, codec.schema, adjacency="add-remove", ledger=book, budget=budget)
            Synthesizer(2.0, 1e-5, device="cpu", seed=1).fit(vault, folder="out")
        else:
            held, source = np.load(data), np.load("source.npz")
            vault = Vault(held["x_train"], clip=1.0, adjacency="replace-one", ledger=book, budget=budget)
            public = (source["x_train"], source["y_train"])
            DomainAdapter(2.0, 1e-5, method="embedding", device="cpu", seed=1).fit(vault, public, folder="out")

    return work


def charges() -> dict[str, int]:
    """How many charges each ledger here holds."""
    found = {}
    for path in sorted(Path().glob("*.ledger")):
        with Ledger.open(path) as book:
            book.verify()
            found[path.name] = len(book.entries())
    return found


def recorded(name: str, place: Path, data: Path) -> dict[str, Any]:
    """One job, killed, in `place`; what it was, and how the version that began it went on."""
    if place.exists():
        shutil.rmtree(place)
    shutil.copytree(data, place)
    os.chdir(place)
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    python = name.startswith("python")
    if python:
        (file, kind, struck), words = PYTHON[name], ""
        work = again = fitted(file, kind)
    else:
        words, struck = CASES[name]
        if words == ANSWER:
            assert life(typed(ASK))[0] == 0
        work = typed(f"{words} --json")
        # what is done a second time is asked for as a person would ask
        resumed = f"{words} --resume --json" if words.startswith(("synth", "adapt")) else f"{words} --json"
        again = typed(resumed)
    code, _, err = life(work, struck)
    assert code == (0 if struck is None else -signal.SIGKILL), (name, code, err)
    found: dict[str, Any] = {"words": words, "charged": charges()}
    left = sorted(str(path) for path in Path().rglob("*") if path.is_file() and path not in before)
    whole = Path("../whole")
    if whole.exists():
        shutil.rmtree(whole)
    shutil.copytree(place, whole)
    os.chdir(whole)
    code, out, err = life(again)
    found |= {"code_again": code, "charged_again": charges(), "out_again": out if code == 0 else "", "err_again": err}
    os.chdir(place)
    for path in before:
        path.unlink()
    for empty in sorted(place.rglob("*"), reverse=True):
        if empty.is_dir() and not any(empty.iterdir()):
            empty.rmdir()
    print(name, found["charged"], code, found["charged_again"], err.strip()[-150:], len(left), flush=True)
    return found


def main(archive: Path, only: list[str]) -> None:
    home = Path(tempfile.mkdtemp())
    data = home / "data"
    data.mkdir()
    os.chdir(data)
    write_data()
    manifest: dict[str, Any] = {"mark": {str(t): arithmetic_mark(("scipy",), t) for t in (False, True)}, "jobs": {}}
    for name in only or [*CASES, *PYTHON]:
        try:
            manifest["jobs"][name] = recorded(name, home / name, data)
        except AssertionError as error:
            print("NOT RECORDED", error, flush=True)
    (home / "recorded.json").write_text(json.dumps(manifest, indent=1))
    with tarfile.open(archive, "w:xz") as packed:
        for part in ("recorded.json", "data", *manifest["jobs"]):
            packed.add(home / part, part)
    shutil.rmtree(home)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
