"""`--resume --out DIR` alone: all other options of the job are recalled from its folder.

`job.json` is untrusted input. Only options that a job may keep are taken from it, and only as text that is then parsed
and checked like typed text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privot.cli.parsing.settings import as_typed, option_set
from privot.errors import DataError, brief

COMMANDS = ("synth", "adapt")
KEY = "command"
_FORMER = {"--child": "", "--child-schema": "--schema", "--parent-key": "--unit", "--per-parent": "--per-unit"}
"""Options of jobs that were started before related tables were several DATA, by what states the same today."""
"""The field of `job.json` with the arguments and options of its command."""
_NOT_KEPT = {
    "out", "resume", "pay_again", "new_records", "allow_unproven", "as_json", "ask", "answer", "trust", "dry_run",
    "help",
}  # fmt: skip
"""Options that must be typed each time, or that mean nothing to a resumed job."""
_MAX_WORDS, _MAX_LETTERS = 500, 100_000


def kept(context: Any, ledger: Path | None = None) -> list[list[str]]:
    """What a job keeps of its command: [option, value], or ["", value] for arguments; paths are made absolute."""
    found = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name)
        if (
            parameter.name in _NOT_KEPT
            or value is None
            or context.get_parameter_source(parameter.name).name == "DEFAULT"
        ):
            continue
        option = parameter.opts[0] if parameter.param_type_name == "option" else ""
        if getattr(parameter, "is_flag", False):
            found += [[option]] if value else []
        else:
            several = value if isinstance(value, list | tuple) else [value]
            found += [[option, _absolute(v)] for v in several]
    if ledger is not None:
        found = [entry for entry in found if entry[0] != "--ledger"] + [["--ledger", str(ledger.absolute())]]
    return found


def _absolute(value: Any) -> str:
    """Files by their absolute path, so that a job can be resumed from any folder; everything else as it is."""
    text = str(value)
    is_file = isinstance(value, Path) or (bool(text) and text != "digits" and _exists(_before_wildcards(text)))
    return str(Path(text).absolute()) if is_file else text


def _before_wildcards(text: str) -> str:
    """The folders of a pattern of files; other text as it is."""
    from privot.opening.addresses import is_remote
    from privot.opening.remote_files import fixed_part

    if is_remote(text) or _exists(text) or not any(mark in text for mark in "*?["):
        return text
    return str(fixed_part(text)) if "/" in text else ""


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def recalled(arguments: list[str], commands: Any) -> tuple[list[str], str]:
    """`arguments`, and beside `--resume` whatever else the job in `--out` was started with; and a line that says so.

    `commands` maps names to commands with their parameters. What is typed counts; the job's own checks refuse it where
    the job was started with something else. The line is empty unless the data was recalled.
    """
    # options of privot itself may come first
    at = 0 if arguments and not arguments[0].startswith("-") else _first(arguments)
    if at is None or arguments[at] not in COMMANDS or "--resume" not in arguments or "--answer" in arguments:
        return arguments, ""
    command = commands[arguments[at]]
    options = {
        name: parameter
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("-")
    }
    given, typed = _typed(arguments[at + 1 :], options, command)
    out = Path(given.get("--out", ""))
    if not given.get("--out") or not (out / "job.json").exists():
        return arguments, ""
    # code that only a file names is not run, and what only a file says to be public is not: both are typed again
    entries = [entry for entry in _entries(out, options) if not _names_code(entry) and entry[0] != "--public"]
    more = [word for e in entries if e[0] and e[0] not in given for word in as_typed(e, command)]
    values = [entry[1] for entry in entries if not entry[0]]
    # arguments have a fixed order: those that were not typed are the last ones
    rest = values[typed:]
    if not rest:
        return [*arguments, *more], ""
    named = {entry[0]: entry[1] for entry in entries if len(entry) == 2 and entry[0] not in given}
    return [*arguments, *more, "--", *rest], _note(out, rest, named)


def _names_code(entry: list[str]) -> bool:
    """Whether an entry names, or describes, code or a network that a file would have read."""
    return entry[0].startswith(("--encoder", "--label-encoder")) or (entry[0] == "--network" and ":" in entry[1])


def _note(out: Path, data: list[str], options: dict[str, str]) -> str:
    """One line about what was recalled. It quotes `job.json`, which is untrusted, so control characters are escaped."""
    found = [f"data {' and '.join(map(_shown, data))}"]
    if "--ledger" in options:
        found.append(f"ledger {_shown(options['--ledger'])}")
    found += [f"{name} = {_number(options[o])}" for o, name in (("--epsilon", "ε"), ("--delta", "δ")) if o in options]
    return f"Going on with the job in {out}: {', '.join(found)}."


def _number(text: str) -> str:
    """A number as all commands print it; text that is none is shown as text."""
    try:
        return f"{float(text):g}"
    except ValueError:
        return _shown(text)


def _shown(text: str) -> str:
    """Text as it is where that is harmless, else escaped and cut."""
    return text if text.isprintable() and len(text) <= 300 else brief(text)


def _first(arguments: list[str]) -> int | None:
    return next((at for at, word in enumerate(arguments) if word in COMMANDS), None)


def _typed(words: list[str], options: dict[str, Any], command: Any) -> tuple[dict[str, str], int]:
    """The options that were typed with their last value, and how many arguments."""
    given: dict[str, str] = {}
    count, at = 0, 0
    while at < len(words):
        name, equals, value = words[at].partition("=")
        parameter = options.get(name)
        if parameter is None:
            count += 1
        elif getattr(parameter, "is_flag", False):
            given[name] = ""
        else:
            if not equals:
                value = words[at + 1] if at + 1 < len(words) else ""
                at += parameter.nargs
            given[option_set(value, command) if name == "--set" else name] = value
        at += 1
    return given, count


def _entries(out: Path, options: dict[str, Any]) -> list[list[str]]:
    """What the job in `out` keeps; nothing if an earlier version, or Python, started it."""
    from privot.jobs.job import Job

    entries = Job.open(out).settings.get(KEY, [])
    wrong = DataError(f"{out / 'job.json'} keeps a command that cannot be read: type all options again.")
    if not isinstance(entries, list) or len(entries) > _MAX_WORDS:
        raise wrong
    allowed = {name for name, parameter in options.items() if parameter.name not in _NOT_KEPT} | {""}
    found = []
    for entry in entries:
        if not isinstance(entry, list) or not entry or not all(isinstance(word, str) for word in entry):
            raise wrong
        entry = [_FORMER.get(entry[0], entry[0]), *entry[1:]]
        flag = entry[0] in options and getattr(options[entry[0]], "is_flag", False)
        if entry[0] not in allowed or len(entry) != (1 if flag else 2) or sum(map(len, entry)) > _MAX_LETTERS:
            raise wrong
        found.append(entry)
    return found
