"""Kills jobs at chosen moments and goes on with them: `python job_killer.py FOLDER TIMES [few] [NAME …]`.

As `release_killer`, for `synth`, `adapt` and `demo`: prints a JSON line for each kill, with what is `wrong` about it:
an empty text where all is well.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

# this is run as a file, so the fuzzer's lives are found by the root of the project
sys.path.insert(0, str(Path(__file__).parents[2]))

# loaded here, so that a life is spent on the command
from fuzz.lives import charges, life

import privot.adaptation
import privot.cli.app
import privot.cli.running.adapt_job
import privot.cli.running.demo_runs.demonstration
import privot.cli.running.synth_runs.synth_job
import privot.mechanisms
import privot.synthesis.output.output_folder
import privot.tables  # noqa: F401

TERMS = "--epsilon 5 --delta 1e-5 --adjacency add-remove --device cpu --seed 1"
ROWS = f"synth data.npz {TERMS} --classes 2 --range 0,1 --samples 20 --ledger a.ledger --out made"
JOBS = {
    "synth embedding": f"{ROWS} --set steps=4",
    "synth table": f"synth data.csv {TERMS} --schema schema.json --samples 20 --ledger a.ledger --out made",
    "synth sinkhorn": f"{ROWS} --method sinkhorn --set steps=4 --set blocks=2",
    "adapt": "adapt source.npz data.npz --epsilon 5 --delta 1e-5 --device cpu --seed 1 --range 0,1 --set fit=3 "
    "--set finish=10 --ledger a.ledger --out made",
    "demo": "demo --out made --steps 2",
}
CHARGES = {"synth sinkhorn": 2}
"""In all; one where a job is not named."""
ROW = {"synth sinkhorn": 3}
"""Which row of a ledger is the first charge: two where a job is not named, for the budget is the first."""
MOMENTS = {
    "at the charge": "privot.ledger.ledger.Ledger._append",
    "after the charge": "privot.ledger.ledger.Ledger._anchor",
    "before the noise": "privot.vault.vault.run_paid",
    "before it is kept": "privot.release.Release.save",
    "while it is printed": "privot.cli.printing.printed_answer.print_facts",
}
AROUND = tuple(MOMENTS)[:2]
WITHIN = {"synth sinkhorn": (*AROUND, "while it is printed"), "demo": AROUND}
"""The moments of a job that is paid in a stream, or tells more than it releases."""
SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
FEW = [
    ("synth embedding", "after the charge", "SIGTERM"),
    ("synth table", "before it is kept", "SIGKILL"),
    ("synth sinkhorn", "after the charge", "SIGINT"),
    ("adapt", "at the charge", "SIGKILL"),
]


def killed(name: str, moment: str, number: str) -> dict[str, Any]:
    """One kill, and the job gone on with."""
    at = ROW.get(name, 2) if moment in AROUND else 1
    code, out, err = life(JOBS[name], (MOMENTS[moment], int(signal.Signals[number]), at))
    found: dict[str, Any] = {"name": name, "moment": moment, "signal": number, "code": code, "out": out, "err": err}
    found["charged_then"] = sum(charges())
    again = JOBS[name] + (" --resume" if Path("made/job.json").exists() else "")
    if name == "demo":
        # a demonstration tells its story from the beginning, in another folder
        again = again.replace("--out made", "--out other")
    code, out, err = life(again)
    found |= {"code_again": code, "out_again": out, "err_again": err, "charged": sum(charges())}
    found["wrong"] = wrong(found)
    for path in Path().iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif not path.name.endswith((".npz", ".csv", "schema.json")):
            path.unlink()
    return found


def wrong(found: dict[str, Any]) -> str:
    """What is wrong with one kill: money not told truly, a value lost without a word, a second charge."""
    name, lost = found["name"], found["signal"] == "SIGKILL"
    if found["code"] != (-signal.SIGKILL if lost else 130):
        return f"it ended in {found['code']}"
    said = found["err"].splitlines()[-1] if found["err"] else ""
    if not lost and not _told(said, found["charged_then"]):
        return f"{found['charged_then']} charges, and it says: {said}"
    if name == "demo":
        return "" if found["code_again"] == 0 else "the demonstration cannot be told again"
    if found["code_again"] == 4 and lost and "is lost, so allow a second charge" in found["err_again"]:
        return "" if found["charged"] == found["charged_then"] else "it is charged, and says that the release is lost"
    if found["code_again"]:
        return f"it does not go on: {found['err_again']}"
    due = CHARGES.get(name, 1)
    return "" if found["charged"] == due else f"{found['charged']} charges where {due} are due"


def _told(said: str, paid: int) -> bool:
    """Whether a sentence says how often was paid."""
    if not paid:
        return "paid nothing" in said or "nothing was paid" in said or "nothing of it is released" in said
    # each ledger is named, or the one of the job is not
    words = re.findall(r"(once|\d+ times)(?= to )", said) or re.findall(r"charged (once|\d+ times)", said)
    return sum(1 if word == "once" else int(word.split()[0]) for word in words) == paid


def main(folder: Path, times: int, few: bool, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    dice, y = np.random.default_rng(0), np.arange(80) % 2
    for name, shift in (("source", 0.0), ("data", 0.1)):
        x = np.clip(0.25 + 0.4 * y[:, None] + shift + 0.05 * dice.standard_normal((80, 2)), 0, 1)
        np.savez(f"{name}.npz", x=x, y=y)
    lines = ["age,ill", *(f"{20 + k % 60},{('no', 'yes')[k % 2]}" for k in range(400))]
    Path("data.csv").write_text("\n".join(lines) + "\n")
    ill = {"name": "ill", "type": "boolean", "categories": ["no", "yes"]}
    columns = [{"name": "age", "type": "integer", "low": 0, "high": 99}, ill]
    Path("schema.json").write_text(json.dumps({"label": "ill", "columns": columns}))
    every = [(name, moment, number) for name in JOBS for moment in WITHIN.get(name, MOMENTS) for number in SIGNALS]
    for _ in range(times):
        for case in FEW if few else every:
            if not names or case[0] in names:
                print(json.dumps(killed(*case)), flush=True)


if __name__ == "__main__":
    given = sys.argv[3:]
    main(Path(sys.argv[1]), int(sys.argv[2]), "few" in given, [name for name in given if name != "few"])
