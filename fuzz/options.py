"""Cases of hostile option values: every option and argument of every command, in a call that is valid otherwise."""

# ruff: noqa: E501 — a call is easier to read in one line

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzz import kit, values
from fuzz.case import BUDGET, CONVERGENCE, DATA, DONE, REFUTED, UNPROVEN, USAGE, Case, random_of
from privot.cli.parsing.settings import spelled

DATA_FILES = ["in/a.npz", "in/b.npz"]
ACCOUNT = ["--delta", "1e-5", "--adjacency", "replace-one", "--epsilon", "1"]
AUDIT = ["--adjacency", "add-remove", "--epsilon", "1", "--trials", "2000", "--runs", "200"]
CALLS: list[tuple[list[str], list[str]]] = [
    (["compare", "in/a.npz", "in/b.npz", "--slices", "9"], DATA_FILES),
    (["compare", "in/a.npz", "in/b.npz", "--method", "exact", "--most", "20", "--labels"], DATA_FILES),
    (["compare", "in/a.npz", "in/b.npz", "--method", "sinkhorn", "--most", "20", "--reg", "0.5"], DATA_FILES),
    (["compare", "in/a.npz", "in/b.npz", "--method", "fedwad", "--set", "rounds=2", "--allow-unproven"], DATA_FILES),
    (["compare", "in/a.npz", "in/b.npz", "--method", "triangle", "--allow-unproven"], DATA_FILES),
    (["compare", "in/a.sketch", "in/b.sketch", "--trust", "in/a.key.pub", "--trust", "in/b.key.pub"], ["in/a.sketch", "in/b.sketch", "in/a.key.pub", "in/b.key.pub"]),
    (["compare", "in/a.txt", "in/b.txt", "--words", "in/words.npz", "--slices", "5"], ["in/a.txt", "in/b.txt", "in/words.npz"]),
    (["release", "count", "in/a.npz", *kit.TERMS, "--column", "0", "--between", "0,1", "--budget", "9"], ["in/a.npz"]),
    (["release", "mean", "in/a.npz", *kit.TERMS, "--column", "0", "--range", "0,1", "--out", "out/mean.npz"], ["in/a.npz"]),
    (["release", "histogram", "in/table.csv", *kit.TERMS, "--schema", "in/schema.json", "--column", "age", "--bins", "4"], ["in/table.csv", "in/schema.json"]),
    (["release", "quantile", "in/a.npz", *kit.TERMS, "--column", "0", "--range", "0,1", "--at", "0.2,0.5", "--cells", "16"], ["in/a.npz"]),
    ([*kit.SYNTH["rows"], "--out", "out/new"], ["in/a.npz"]),
    ([*kit.SYNTH["sinkhorn"], "--out", "out/new"], ["in/a.npz"]),
    ([*kit.SYNTH["sliced"], "--set", "clip=1", "--set", "records=40", "--shape", "2,2", "--out", "out/new"], ["in/a.npz"]),
    ([*kit.SYNTH["table"], "--out", "out/new"], ["in/table.csv", "in/schema.json"]),
    ([*kit.SYNTH["rows"], "--ledger", "in/rows.ledger", "--out", "out/rows", "--resume"], ["in/a.npz", "in/rows.ledger", "out/rows"]),
    ([*kit.ADAPT, "--out", "out/new"], ["in/source.npz", "in/target.npz"]),
    ([*kit.ASK, "--out", "out/new"], ["in/source.npz"]),
    (
        ["adapt", "in/source.npz", "--answer", "in/answer.release", "--trust", "in/answer.key.pub", "--out", "out/asked", "--device", "cpu"],
        ["in/source.npz", "in/answer.release", "in/answer.key.pub", "out/asked"],
    ),
    (
        ["answer", "in/request.json", "in/target.npz", "--epsilon", "5", "--delta", "1e-5", "--out", "out/answer", "--key", "out/key"],
        ["in/request.json", "in/target.npz"],
    ),
    (["sample", "out/rows", "-n", "20", "--out", "out/more.npz", "--seed", "1"], ["out/rows"]),
    (["sample", "out/table", "--count", "20", "--out", "out/more.csv"], ["out/table"]),
    (["evaluate", "in/made.npz", "--test", "in/a.npz", "--device", "cpu"], ["in/made.npz", "in/a.npz"]),
    (["evaluate", "in/made.csv", "--test", "in/table.csv", "--schema", "in/schema.json"], ["in/made.csv", "in/table.csv", "in/schema.json"]),
    (["report", "out/rows"], ["out/rows"]),
    (["audit", "embedding", *AUDIT], []),
    (["audit", "projection", *AUDIT, "--adjacency", "replace-one", "--dim", "4", "--slices", "2"], []),
    (["audit", "gradient", *AUDIT, "--records", "6", "--batch", "2", "--steps", "2"], []),
    (["audit", "sketch", *AUDIT, "--dim", "3", "--classes", "2"], []),
    (["audit", "one-run", "--sigma", "1", "--canaries", "40", "--steps", "2", "--batch", "10", "--records", "100"], []),
    (["audit", "out/rows", "--trials", "1000", "--runs", "100"], ["out/rows"]),
    (["sketch", "in/a.npz", *kit.TERMS, "--range", "0,1", "--classes", "2", "--key", "out/key", "--out", "out/a.sketch"], ["in/a.npz"]),
    (["sketch", "in/a.npz", *kit.TERMS, "--prototypes", "in/b.npz", "--seed", "1", "--out", "out/a.sketch"], DATA_FILES),
    (["value", "in/a.npz", "in/b.npz", "--validation", "in/source.npz", "--draws", "100"], [*DATA_FILES, "in/source.npz"]),
    (["points", "in/a.npz", "--validation", "in/b.npz", "--top", "3", "--most", "20"], DATA_FILES),
    (["points", "in/a.npz", "--validation", "in/b.sketch", "--range", "0,1"], ["in/a.npz", "in/b.sketch"]),
    (["study", "claims", "--steps", "3", "--points", "2", "--rate", "0.1"], []),
    (["account", "projection", *ACCOUNT, "--dim", "20", "--slices", "5"], []),
    (["account", "projection", *ACCOUNT, "--dim", "20", "--slices", "5", "--records", "100", "--batch", "10", "--steps", "3"], []),
    (["account", "gradient", *ACCOUNT, "--clipping", "matrix", "--records", "100", "--batch", "10", "--epochs", "1"], []),
    (["account", "embedding", *ACCOUNT, "--releases", "2", "--norm", "1"], []),
    (["account", "laplace", "--adjacency", "add-remove", "--epsilon", "1", "--releases", "3"], []),
    (["account", "compare", *ACCOUNT[:4], "--dim", "20", "--slices", "5", "--steps", "2", "--points", "2"], []),
    (["ledger", "init", "out/new.ledger", "--data", "in/a.npz", *kit.TERMS], ["in/a.npz"]),
    (["ledger", "show", "in/rows.ledger"], ["in/rows.ledger"]),
    (["ledger", "raise", "in/rows.ledger", "--epsilon", "50", "--reason", "a vote", "--i-am-the-steward"], ["in/rows.ledger"]),
    (["ledger", "verify", "in/rows.ledger"], ["in/rows.ledger"]),
    (["schema", "propose", "--header", "in/table.csv", "--dictionary", "in/dictionary.json", "--label", "ill", "--out", "out/schema.json"], ["in/table.csv", "in/dictionary.json"]),
    (["schema", "propose", "--sample", "in/table.csv", "--public", "--out", "out/schema.json"], ["in/table.csv"]),
    (["study", "list"], []),
    (["doctor"], []),
    (["federate", "enrol", "out/party", "--name", "north"], []),
    (["federate", "setup", "out/hub", "--host", "127.0.0.1"], []),
    (["federate", "matrix", "in/a.sketch", "in/b.sketch", "--workers", "1"], ["in/a.sketch", "in/b.sketch"]),
]  # fmt: skip
"""(a valid call, what it takes of the kit)."""
REFUSED_ONLY: list[tuple[list[str], list[str]]] = [
    (["study", "run", "no-such-study"], []),
    (["demo", "--out", "in/folder", "--steps", "1"], []),
    (["federate", "coordinate", "in/hub", "in/missing.toml"], ["in/hub"]),
    (["federate", "join", "in/missing", "--link", "127.0.0.1:1", "--authority", "in/hub/ca.pem", "--patience", "1"], ["in/hub"]),
    (["bench", "transport", "--sizes", "0", "--jobs", "none"], []),
    (["bench", "growth", "--sizes", "0"], []),
]  # fmt: skip
"""Calls that would take long, start servers or wait: refused already, and to be refused in the right way still."""
_KEPT = {("demo", "out")}
"""What alone makes such a call refused: with another folder it would tell the whole story, which takes a minute."""
_OUTPUTS = ("out", "ledger", "key", "ask", "plot")
_DATA = ("data", "first", "second", "source", "target", "synthetic", "test", "private", "prototypes", "validation",
         "parties", "network", "public")  # fmt: skip
_CODES = frozenset({DONE, USAGE})
_FURTHER = {
    "epsilon": {BUDGET}, "delta": {BUDGET}, "reg": {CONVERGENCE}, "adjacency": {UNPROVEN, BUDGET}, "method": {UNPROVEN},
    "classes": {DATA, BUDGET}, "shape": {DATA}, "value_range": {DATA}, "span": {DATA}, "radius": {DATA, CONVERGENCE},
    "sigma": {CONVERGENCE, BUDGET}, "clip": {CONVERGENCE}, "set_": {BUDGET, CONVERGENCE, DATA}, "clipping": {UNPROVEN},
    "settings": {BUDGET, CONVERGENCE, DATA}, "frame": {UNPROVEN}, "bound": {UNPROVEN}, "records": {BUDGET, DATA},
    "steps": {BUDGET, CONVERGENCE}, "batch": {BUDGET, CONVERGENCE}, "p": {CONVERGENCE, DATA}, "trust": {DATA},
    "label": {DATA}, "target": {DATA}, "device": {DATA}, "name": {DATA}, "link": {DATA}, "jobs": {DATA},
    "seed": {BUDGET}, "ledger": {BUDGET}, "norm": {CONVERGENCE}, "rate": {CONVERGENCE}, "budget": {BUDGET}, "unit": {DATA},
}  # fmt: skip
"""By parameter: what is right beside 0 and 2."""


@cache
def tree() -> dict[str, Any]:
    """Every command by its words, from the application itself."""
    from typer.main import get_command

    from privot.cli.app import build_app
    from privot.cli.parsing.settings import with_settings

    found: dict[str, Any] = {}

    def walk(command: Any, words: list[str]) -> None:
        for name, below in getattr(command, "commands", {}).items():
            walk(below, [*words, name])
        # hidden ones only say where they went
        if not hasattr(command, "commands") and not command.hidden:
            found[" ".join(words)] = command

    walk(with_settings(get_command(build_app())), [])
    return found


def cases(seed: int, count: int) -> list[Case]:
    """`count` cases."""
    return [case(seed, number) for number in range(count)]


def case(seed: int, number: int) -> Case:
    """One valid call with one or two values made hostile; the calls take turns, so that every command is reached."""
    random = random_of(seed, "options", number)
    calls = CALLS + REFUSED_ONLY
    arguments, needs = calls[number % len(calls)]
    arguments = list(arguments)
    command = command_of(arguments)
    codes = set(_CODES)
    open_to_change = [p for p in command.params if (arguments[0], p.name) not in _KEPT]
    chosen = random.sample(open_to_change, min(len(open_to_change), random.choice([1, 1, 1, 2])))
    notes = []
    for parameter in chosen:
        value = _hostile(parameter, random)
        notes.append(f"{parameter.name}={value[:40]!r}")
        _put(arguments, command, parameter, value)
        codes |= _right(parameter)
    if random.random() < 0.4 and "--json" not in arguments and any("--json" in p.opts for p in command.params):
        arguments.append("--json")
    if arguments[:1] == ["audit"]:
        codes |= {REFUTED, DATA}
    if (arguments, needs) in REFUSED_ONLY or calls[number % len(calls)] in REFUSED_ONLY:
        codes |= {DATA, UNPROVEN}

    def prepare(source: Path, folder: Path) -> None:
        (folder / "out").mkdir(parents=True)
        kit.take(source, folder, needs)
        kit.traps(folder)

    return Case("options", number, arguments, prepare, frozenset(codes), ", ".join(notes))


def command_of(arguments: list[str]) -> Any:
    """The command that these arguments call."""
    known = tree()
    return known.get(arguments[0]) or known[" ".join(arguments[:2])]


def _right(parameter: Any) -> set[int]:
    found = set(_FURTHER.get(parameter.name, ()))
    if _kind(parameter) in ("path", "output"):
        found |= {DATA, BUDGET}
    if parameter.name == "data":
        found |= {BUDGET, CONVERGENCE}
    return found


def _kind(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return "flag"
    shown = str(parameter.type)
    if any(word in shown for word in ("INT", "FLOAT", "IntRange", "Tuple")):
        return "number"
    if parameter.name in _OUTPUTS or (parameter.name in ("folder", "file") and parameter.param_type_name == "argument"):
        return "output" if parameter.name != "folder" else "path"
    return "path" if "Path" in shown or parameter.name in _DATA else "text"


def _hostile(parameter: Any, random: Random) -> str:
    kind = _kind(parameter)
    return "" if kind == "flag" else values.of_option(str(parameter.name), kind, random)


def _put(arguments: list[str], command: Any, parameter: Any, value: str) -> None:
    """Replace what `parameter` is given, or add it."""
    option, _, setting = spelled(parameter).partition(" ")
    if setting:
        given = next((at for at, word in enumerate(arguments) if word.startswith(f"{setting}=")), None)
        typed = f"{setting}={value or 'yes'}"
        if given is None:
            arguments += [option, typed]
        else:
            arguments[given] = typed
        return
    if _kind(parameter) == "flag":
        if parameter.opts[0] not in arguments:
            arguments.append(parameter.opts[0])
        return
    width = getattr(parameter, "nargs", 1)
    if parameter.param_type_name == "argument":
        places = positions(arguments, command)
        order = [p.name for p in command.params if p.param_type_name == "argument"].index(parameter.name)
        if value.startswith("-"):
            value = f"./{value}"
        if order < len(places):
            arguments[places[order]] = value
        else:
            arguments.append(value)
        return
    given = [value] * max(1, width)
    for option in parameter.opts:
        if option in arguments:
            at = arguments.index(option)
            arguments[at + 1 : at + 1 + len(given)] = given
            return
    arguments += [parameter.opts[0], *given]


def positions(arguments: list[str], command: Any) -> list[int]:
    """Where the arguments are that belong to no option."""
    takes = {o: 0 if getattr(p, "is_flag", False) else p.nargs for p in command.params for o in p.opts}
    at = 1 if arguments[0] in tree() else 2
    found = []
    while at < len(arguments):
        if arguments[at] in takes and arguments[at].startswith("-"):
            at += 1 + takes[arguments[at]]
        else:
            found.append(at)
            at += 1
    return found
