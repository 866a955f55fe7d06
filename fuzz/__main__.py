"""`python -m fuzz`: makes the kit, runs cases of all kinds, and prints a table and every failure."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fuzz import files, folders, frames, judging, kit, messages, options, places, running, signals, texts
from fuzz.case import Case

# read when the libraries start, which is later
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

SHARES = {
    "options": 0.3, "files": 0.18, "folders": 0.14, "messages": 0.1,
    "texts": 0.14, "frames": 0.06, "places": 0.04, "signals": 0.04,
}  # fmt: skip


def main() -> int:
    """Run; 0 if no case failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=None, help="of all choices; a new one unless given")
    parser.add_argument("--only", action="append", default=[], help="KIND, or KIND:NUMBER; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--kit", type=Path, default=None, help="folder of valid inputs, made if it is not there")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="where failed cases are kept")
    parser.add_argument("--timeout", type=float, default=running.MAX_SECONDS, help="seconds that a case may take")
    parser.add_argument("--valid", action="store_true", help="run every call as it is, undamaged: all must end in 0")
    parser.add_argument("--bombs", type=float, default=0.03, help="share of damaged files that unpack to gigabytes")
    given = parser.parse_args()
    running.limits["seconds"] = given.timeout
    seed = random.randrange(10**6) if given.seed is None else given.seed  # noqa: S311
    print(f"seed {seed}", flush=True)
    _import_all()
    with tempfile.TemporaryDirectory(prefix="privot-fuzz-") as place:
        os.environ["MPLCONFIGDIR"] = str(Path(place) / "cache")
        made = given.kit or Path(place) / "kit"
        _make_kit(made.resolve())
        keep = given.keep.resolve()
        cases = valid() if given.valid else chosen(seed, given.count, given.only, given.bombs)
        failed = _run(cases, made.resolve(), Path(place) / "work", keep, given.jobs, seed)
    return 1 if failed else 0


def chosen(seed: int, count: int, only: list[str], bombs: float) -> list[Case]:
    """The cases of this seed, shuffled, so that slow kinds do not come last; or those that `only` names."""
    makers = {
        "options": lambda number: options.case(seed, number),
        "files": lambda number: files.case(seed, number, bombs),
        "folders": lambda number: folders.case(seed, number, bombs),
        "messages": lambda number: messages.case(seed, number, bombs),
        "texts": lambda number: texts.case(seed, number),
        "frames": lambda number: frames.case(seed, number),
        "places": lambda number: places.case(seed, number),
        "signals": lambda number: signals.case(seed, number),
    }
    found = []
    for kind, make in makers.items():
        numbers = [int(name.split(":")[1]) for name in only if name.startswith(kind + ":")]
        if not only or kind in only:
            numbers = list(range(round(count * SHARES[kind]) if not only else count))
        found += [make(number) for number in numbers]
    random.Random(seed).shuffle(found)  # noqa: S311
    return found


def valid() -> list[Case]:
    """Every call that other cases damage, undamaged: where one of them does not end in 0, its cases test little."""
    calls = [(words, needs) for words, needs in options.CALLS]
    calls += [(words, [file, *needs]) for file, words, needs, _ in files.CALLS]
    calls += [(words, [f"out/{name}", *needs]) for name, words, needs in folders.CALLS if not name.endswith("-done")]
    calls += [(words, needs) for _, words, needs in folders.EXCHANGED]
    calls += [(words, [file, *needs]) for file, words, needs, _, _ in messages.CALLS if words[0] != "federate"]

    def preparing(needs: list[str]) -> Callable[[Path, Path], None]:
        def prepare(source: Path, folder: Path) -> None:
            (folder / "out").mkdir(parents=True)
            kit.take(source, folder, needs)

        return prepare

    codes = {"audit": frozenset({0, 7})}
    return [
        Case("valid", number, words, preparing(needs), codes.get(words[0], frozenset({0})))
        for number, (words, needs) in enumerate(calls)
    ]


def _import_all() -> None:
    """Import what cases import, once."""
    import importlib
    import pkgutil

    import privot

    for module in pkgutil.walk_packages(privot.__path__, "privot."):
        if module.name.endswith("__main__") or ".flower" in module.name:
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            # kernels: only machines with a GPU have Triton
            if error.name != "triton":
                raise
    import matplotlib.figure  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import sklearn.linear_model
    import sklearn.neural_network  # noqa: F401
    import torch

    torch.set_num_threads(1)


def _make_kit(place: Path) -> None:
    if (place / "done").exists():
        return
    began = time.monotonic()
    # in a process of its own: the parent stays as it is for the cases
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            kit.build(place)
            (place / "done").touch()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit("The kit of valid inputs could not be made.")
    print(f"kit made in {time.monotonic() - began:.0f} s", flush=True)


def _run(cases: list[Case], made: Path, work: Path, keep: Path, jobs: int, seed: int) -> int:
    began, table, failed = time.monotonic(), Counter[tuple[str, int]](), 0
    slowest, largest = 0.0, 0
    taken: Counter[str] = Counter()
    shown: Counter[str] = Counter()

    def wrong(outcome: running.Outcome) -> bool:
        return bool(judging.faults(outcome))

    for outcome in running.run_all(cases, made, work, jobs, wrong):
        table[outcome.case.kind, outcome.code] += 1
        taken[f"{outcome.case.kind} {outcome.case.arguments[0]}"] += outcome.seconds
        slowest, largest = max(slowest, outcome.seconds), max(largest, outcome.peak)
        for number, fault in enumerate(judging.faults(outcome)):
            failed += number == 0
            shown[f"{outcome.case.arguments[0]}: {fault}"] += 1
            print(_told(outcome, fault, _kept(outcome, keep), seed), flush=True)
    _summary(table)
    for fault, many in shown.most_common():
        print(f"{many:5}  {fault}")
    minutes = (time.monotonic() - began) / 60
    print(f"{len(cases)} inputs, {failed} failed, {minutes:.1f} minutes, seed {seed}")
    print("seconds: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in taken.most_common(12)))
    print(f"longest {slowest:.1f} s, largest {largest / 2**30:.2f} GiB")
    return failed


def _kept(outcome: running.Outcome, keep: Path) -> Path:
    place = keep / outcome.case.name.replace(":", "-")
    if outcome.folder.exists() and not place.exists():
        keep.mkdir(exist_ok=True, parents=True)
        outcome.folder.rename(place)
        (place / "command").write_text(json.dumps(outcome.case.arguments) + "\n")
    return place


def _told(outcome: running.Outcome, fault: str, place: Path, seed: int) -> str:
    words = " ".join(repr(a) if a.split() != [a] or not a.isascii() else a for a in outcome.case.arguments)
    short = words if len(words) < 400 else words[:400] + "…"
    return (
        f"FAILED {outcome.case.name} ({outcome.case.note[:100]}): {fault}\n"
        f"  in {place}: privot {short}\n  again: python -m fuzz --seed {seed} --only {outcome.case.name}"
    )


def _summary(table: Counter[tuple[str, int]]) -> None:
    codes = sorted({code for _, code in table})
    print("kind      " + "".join(f"{code:>7}" for code in codes))
    for kind in (*SHARES, "valid"):
        if any(k == kind for k, _ in table):
            print(f"{kind:<10}" + "".join(f"{table[kind, code]:>7}" for code in codes))


if __name__ == "__main__":
    sys.exit(main())
