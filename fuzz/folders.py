"""Cases of damaged folders: what synth and adapt leave, with one or two files mutated, read by the commands for it."""

from __future__ import annotations

from pathlib import Path

from fuzz import kit
from fuzz.case import BUDGET, CONVERGENCE, DATA, DONE, REFUTED, UNPROVEN, USAGE, Case, random_of
from fuzz.mutations import mutate

SAMPLE = [(name, ["sample", f"out/{name}", "-n", "5", "--out", "out/more" + end], []) for name, end in
          (("rows", ".npz"), ("table", ".csv"), ("sinkhorn", ".npz"), ("sliced", ".csv"))]  # fmt: skip
REPORT = [(name, ["report", f"out/{name}"], []) for name in ("rows", "table", "adapted")]
AUDIT = [
    (name, ["audit", f"out/{name}", "--trials", "1000", "--runs", "50"], []) for name in ("rows", "table", "sliced")
]
RESUME = [
    (name, [*kit.SYNTH[name], "--ledger", f"in/{name}.ledger", "--out", f"out/{name}", "--resume"],
     ["in/a.npz", "in/table.csv", "in/schema.json", f"in/{name}.ledger"])
    for name in kit.SYNTH
]  # fmt: skip
ADAPTED = [
    ("adapted", [*kit.ADAPT, "--ledger", "in/adapted.ledger", "--out", "out/adapted", "--resume"],
     ["in/source.npz", "in/target.npz", "in/adapted.ledger"]),
    ("asked", ["adapt", "in/source.npz", "--answer", "in/answer.release", "--out", "out/asked", "--device", "cpu"],
     ["in/source.npz", "in/answer.release"]),
]  # fmt: skip
EXCHANGED = [
    (name, ["audit", f"in/{name}", "--trials", "1000"], [f"in/{name}"]) for name in ("sketch-done", "fedwad-done")
]
CALLS = [*SAMPLE, *REPORT, *SAMPLE, *AUDIT, *RESUME, *ADAPTED, *EXCHANGED]
_CODES = {
    "sample": {DONE, DATA},
    "report": {DONE, DATA},
    "audit": {DONE, DATA, REFUTED, UNPROVEN},
    "synth": {DONE, DATA, BUDGET, USAGE, UNPROVEN, CONVERGENCE},
    "adapt": {DONE, DATA, BUDGET, USAGE, UNPROVEN, CONVERGENCE},
}
_TELLING = ("config.json", "job.json", "guarantee.json")


def cases(seed: int, count: int, bombs: float = 0.03) -> list[Case]:
    """`count` cases."""
    return [case(seed, number, bombs) for number in range(count)]


def case(seed: int, number: int, bombs: float = 0.03) -> Case:
    """One folder with one or two files damaged, most often one that says what the others are."""
    random = random_of(seed, "folders", number)
    name, arguments, needs = CALLS[number % len(CALLS)]
    arguments = [*arguments, "--json"] if random.random() < 0.3 else list(arguments)
    place = f"in/{name}" if name.endswith("-done") else f"out/{name}"

    def prepare(source: Path, folder: Path) -> None:
        (folder / "out").mkdir(parents=True)
        kit.take(source, folder, [place, *needs])
        files = sorted(p for p in (folder / place).rglob("*") if p.is_file())
        said = []
        for _ in range(random.choice([1, 1, 2])):
            telling = [p for p in files if p.name in _TELLING and p.exists()]
            left = [p for p in files if p.is_file() and not p.is_symlink()]
            if not left:
                break
            chosen = random.choice(telling) if telling and random.random() < 0.6 else random.choice(left)
            if chosen.is_file():
                said.append(f"{chosen.name}: {mutate(chosen, random, bombs)}")
        if "--resume" in arguments and random.random() < 0.5:
            # as a kill leaves it: nothing made yet from what was paid
            for made in ("generator.safetensors", "model.safetensors", "config.json"):
                if not (folder / place / made).is_dir():
                    (folder / place / made).unlink(missing_ok=True)
        (folder / "mutation").write_text(", ".join(said))

    return Case("folders", number, arguments, prepare, frozenset(_CODES[arguments[0]]), name)
