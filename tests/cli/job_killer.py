"""Kills jobs at chosen moments and goes on with them: `python job_killer.py --sweep FOLDER --times 10 --jobs 16`.

As `release_killer`, for `synth`, `adapt` and `demo`, with several kills at a time, each in a folder of its own within
FOLDER. Prints every kill about which something is wrong, and one line about all of them; ends with 1 where one is
wrong. The results lie in FOLDER/kills.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

# read when the libraries start, which is next: kills run beside each other
os.environ.setdefault("OMP_NUM_THREADS", "1")

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
CHARGES = {"synth sinkhorn": 2, "demo": 4}
"""In all; one where a job is not named."""
LEFT = {"adapt": ("model.safetensors",), "demo": ("table/synthetic.csv", "digits/synthetic.npz")}
"""Where the value is, beside a report; `synthetic.*` where a job is not named."""
ROW = {"synth sinkhorn": 3, "demo": 4}
"""Which row of its ledgers is the first charge: two where a job is not named, for a budget comes before it."""
CALL = {("synth table", "before the noise"): 2}
"""Which call is struck where it is not the first one: the design of a table tries its mechanism on nobody's records."""
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
MAX_SECONDS = 1200.0
"""What one kill may take, the job gone on with included."""
SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
FEW = [
    ("synth embedding", "after the charge", "SIGTERM"),
    ("synth table", "before it is kept", "SIGKILL"),
    ("synth sinkhorn", "after the charge", "SIGINT"),
    ("adapt", "at the charge", "SIGKILL"),
]


def killed(name: str, moment: str, number: str) -> dict[str, Any]:
    """One kill, and the job gone on with, in the folder at hand."""
    data()
    at = ROW.get(name, 2) if moment in AROUND else CALL.get((name, moment), 1)
    code, out, err = life(JOBS[name], (MOMENTS[moment], int(signal.Signals[number]), at))
    found: dict[str, Any] = {"name": name, "moment": moment, "signal": number, "code": code, "out": out, "err": err}
    found |= {"charged_then": sum(charges()), "kept_then": Path("made/release.npz").exists()}
    again = going_on(name, err)
    code, out, err = life(again)
    found |= {"again": again, "code_again": code, "out_again": out, "err_again": err, "charged": sum(charges())}
    made = Path("other" if name == "demo" else "made")
    places = ("report.html", *LEFT.get(name, ("synthetic.*", "guarantee.json")))
    found["missing"] = [place for place in places if not any(made.glob(place))]
    found["wrong"] = wrong(found)
    return found


def going_on(name: str, said: str) -> list[str]:
    """The command that goes on: the one that the first life named, as a shell reads it, else the same to resume."""
    if name == "demo":
        # a demonstration tells its story from the beginning, in another folder
        return shlex.split(JOBS[name].replace("--out made", "--out other"))
    named = re.search(r"with: privot (.+)", said)
    if named:
        told = subprocess.run(["bash", "-c", rf"printf '%s\0' {named[1]}"], capture_output=True, check=True)
        return [os.fsdecode(word) for word in told.stdout.split(b"\0")[:-1]]
    return shlex.split(JOBS[name]) + ["--resume"] * Path("made/job.json").exists()


def wrong(found: dict[str, Any]) -> str:
    """What is wrong with one kill: money not told truly, a value lost, a charge too much or too few."""
    name, mute = found["name"], found["signal"] == "SIGKILL"
    if found["code"] != (-signal.SIGKILL if mute else 130):
        return f"it ended in {found['code']}, so the moment was not reached: {found['err'][-200:]}"
    if found["moment"] == "at the charge":
        early, late = False, mute and found["charged_then"] > 0
    else:
        early, late = not found["charged_then"], mute and found["kept_then"] and found["moment"] != tuple(MOMENTS)[-1]
    if early or late:
        return f"the moment was {'passed' if late else 'not reached'}: {found['charged_then']} charges"
    said = found["err"].splitlines()[-1] if found["err"] else ""
    if not mute and not _told(said, found["charged_then"]):
        return f"{found['charged_then']} charges, and it says: {said}"
    if "--pay-again" in found["again"]:
        return f"it would be paid a second time: {said}"
    if found["code_again"]:
        return f"it does not go on: {found['err_again']}"
    # a demonstration pays anew, from the ledgers of its own folder
    due = CHARGES.get(name, 1) + (found["charged_then"] if name == "demo" else 0)
    if found["charged"] != due:
        return f"{found['charged']} charges where {due} are due"
    return f"it is done, and there is no {found['missing'][0]}" if found["missing"] else ""


def _told(said: str, paid: int) -> bool:
    """Whether a sentence says how often was paid."""
    if not paid:
        return "paid nothing" in said or "nothing was paid" in said or "nothing of it is released" in said
    # each ledger is named, or the one of the job is not
    words = re.findall(r"(once|\d+ times)(?= to )", said) or re.findall(r"charged (once|\d+ times)", said)
    return sum(1 if word == "once" else int(word.split()[0]) for word in words) == paid


def data() -> None:
    """What the jobs read, in the folder at hand."""
    dice, y = np.random.default_rng(0), np.arange(80) % 2
    for name, shift in (("source", 0.0), ("data", 0.1)):
        x = np.clip(0.25 + 0.4 * y[:, None] + shift + 0.05 * dice.standard_normal((80, 2)), 0, 1)
        np.savez(f"{name}.npz", x=x, y=y)
    lines = ["age,ill", *(f"{20 + k % 60},{('no', 'yes')[k % 2]}" for k in range(400))]
    Path("data.csv").write_text("\n".join(lines) + "\n")
    ill = {"name": "ill", "type": "boolean", "categories": ["no", "yes"]}
    columns = [{"name": "age", "type": "integer", "low": 0, "high": 99}, ill]
    Path("schema.json").write_text(json.dumps({"label": "ill", "columns": columns}))


def begin(place: Path, case: tuple[str, str, str]) -> int:
    """A process that does one kill in a new folder and leaves what it found there."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        place.mkdir(parents=True)
        os.chdir(place)
        found = killed(*case)
    except BaseException:
        name, moment, number = case
        found = {"name": name, "moment": moment, "signal": number, "wrong": traceback.format_exc()}
    (place / "found").write_text(json.dumps(found))
    os._exit(0)


def sweep(folder: Path, cases: list[tuple[str, str, str]], jobs: int) -> list[dict[str, Any]]:
    """What became of every case, `jobs` at a time; folders where all is well are removed."""
    waiting, running, done = list(enumerate(cases)), {}, []
    while waiting or running:
        while waiting and len(running) < jobs:
            number, case = waiting.pop(0)
            place = folder / f"kill-{number:04}"
            running[begin(place, case)] = (place, case, time.monotonic())
        for child, (place, (name, moment, number), began) in list(running.items()):
            late = time.monotonic() - began > MAX_SECONDS
            if late:
                os.killpg(child, signal.SIGKILL)
            if os.waitpid(child, 0 if late else os.WNOHANG)[0] == 0:
                continue
            del running[child]
            found = {
                "name": name,
                "moment": moment,
                "signal": number,
                "wrong": "it ended without a word or is too slow",
            }
            if (place / "found").exists():
                found = json.loads((place / "found").read_text())
            done.append(found)
            with (folder / "kills.jsonl").open("a") as file:
                print(json.dumps(found), file=file)
            if found["wrong"]:
                print(f"WRONG {name}, {moment}, {number}, in {place}: {found['wrong']}", flush=True)
            else:
                shutil.rmtree(place)
        time.sleep(0.05)
    return done


def main() -> int:
    """Run; 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweep", type=Path, required=True, metavar="FOLDER", help="new folder to work in")
    parser.add_argument("--times", type=int, default=1, help="how often each job is killed at each moment, each way")
    parser.add_argument("--jobs", type=int, default=1, help="kills at a time")
    parser.add_argument("--few", action="store_true", help="one kill of each job")
    parser.add_argument("--only", action="append", choices=list(JOBS), help="a job by name; may be repeated")
    given = parser.parse_args()
    given.sweep.mkdir(parents=True)
    every = [(name, moment, number) for name in JOBS for moment in WITHIN.get(name, MOMENTS) for number in SIGNALS]
    cases = [case for case in (FEW if given.few else every) if case[0] in (given.only or JOBS)] * given.times
    began = time.monotonic()
    done = sweep(given.sweep.resolve(), cases, given.jobs)
    bad = [found for found in done if found["wrong"]]
    names = ", ".join(f"{name} {sum(found['name'] == name for found in done)}" for name in JOBS)
    minutes = (time.monotonic() - began) / 60
    print(f"{len(done)} kills ({names}), {len(bad)} wrong, {minutes:.1f} minutes")
    return 1 if bad or len(done) != len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
