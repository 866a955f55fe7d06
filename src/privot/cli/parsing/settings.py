"""Rare options, typed as `--set NAME=VALUE` and listed below the others; it knows no command and none of the settings.

A setting is declared as an option is, with its type and help, and marked by its panel: `typer.Option(…,
rich_help_panel=SETTINGS)`. So it is parsed, bounded, recalled and refused as any option is; only its spelling differs,
and `workers` takes the place of `--workers` on the page of help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from privot.errors import UsageError, brief

SETTINGS = "Settings"
"""Mark of the options that are settings."""
_WORDS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_SET = "--set"
_HELP = "Change one of the settings below; may be repeated."


def settings_of(command: Any) -> dict[str, Any]:
    """The settings of a command by name."""
    return {_name(p): p for p in command.params if getattr(p, "rich_help_panel", None) == SETTINGS}


def spelled(parameter: Any) -> str:
    """What a user types for a parameter: `--seed`, `--set workers`, or DATA."""
    if parameter.param_type_name != "option":
        return str(parameter.name).upper()
    is_setting = getattr(parameter, "rich_help_panel", None) == SETTINGS
    return f"{_SET} {_name(parameter)}" if is_setting else str(parameter.opts[0])


def as_typed(entry: list[str], command: Any) -> list[str]:
    """[option, value] as a user types it, which is another way if the option is a setting."""
    name = next((name for name, p in settings_of(command).items() if entry[0] in p.opts), None)
    return entry if name is None else [_SET, f"{name}={entry[1] if len(entry) > 1 else 'yes'}"]


def option_set(value: str, command: Any) -> str:
    """The option that `--set value` stands for: `--set` itself if the setting is the method's own."""
    found = settings_of(command).get(value.partition("=")[0])
    return _SET if found is None else str(found.opts[0])


def with_settings(command: Any) -> Any:
    """`command` and all its subcommands: settings are typed by `--set`, and help lists them in a panel of their own."""
    if found := settings_of(command):
        parse, own = command.parse_args, any(_SET in p.opts for p in command.params)
        command.parse_args = lambda context, words: parse(context, list(_as_options(words, command, own)))
        command.format_options = _format(command.format_options, found, own)
        for parameter in found.values():
            # neither listed nor completed as options
            parameter.hidden = True
            parameter.get_error_hint = partial(_hint, parameter)
    for below in getattr(command, "commands", {}).values():
        with_settings(below)
    return command


def _name(parameter: Any) -> str:
    return str(parameter.opts[0]).lstrip("-").replace("-", "_")


def _hint(parameter: Any, context: Any) -> str:
    """What is named where a value cannot be read."""
    return f"'{spelled(parameter)}'"


def _as_options(words: list[str], command: Any, own: bool) -> Iterator[str]:
    """The words of a command line, each `--set NAME=VALUE` of a setting as the option that it is.

    Other settings are the method's where the command has such (`own`), and refused elsewhere.
    """
    found = settings_of(command)
    options = {option: parameter for parameter in found.values() for option in parameter.opts}
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if word == "--":
            yield word
            yield from rest
        elif option in options:
            name = spelled(options[option])
            raise UsageError(f"{option} is a setting of this command: type {name}={value if equals else 'VALUE'}.")
        elif option != _SET:
            yield word
        else:
            typed = value if equals else next(rest, "")
            name, separator, text = typed.partition("=")
            parameter = found.get(name)
            if parameter is None and own:
                yield f"{_SET}={typed}"
            elif not separator:
                raise UsageError(f"{_SET} must be NAME=VALUE, got {brief(typed)}.")
            elif parameter is None:
                raise UsageError(f"There is no setting {brief(name)}: there are {', '.join(found)}.")
            elif not parameter.is_flag:
                # in one word, so that a value may begin with a minus
                yield f"{parameter.opts[0]}={text}"
            elif text.lower() not in _WORDS:
                raise UsageError(f"{_SET} {name} must be yes or no, got {brief(text)}.")
            elif _WORDS[text.lower()]:
                yield str(parameter.opts[0])


def _format(listed: Callable[..., None], found: dict[str, Any], own: bool) -> Callable[..., None]:
    """Help of the options as before, and of the settings below them."""

    def format_options(context: Any, formatter: Any) -> None:
        listed(context, formatter)
        if not own:
            with formatter.indentation():
                formatter.write_dl([(f"{_SET} NAME=VALUE", _HELP)])
        with formatter.section(f"Settings, typed as {_SET} NAME=VALUE"):
            formatter.write_dl([_row(name, parameter, context) for name, parameter in found.items()])

    return format_options


def _row(name: str, parameter: Any, context: Any) -> tuple[str, str]:
    parameter.hidden = False
    try:
        shown, words = parameter.get_help_record(context)
    finally:
        parameter.hidden = True
    return f"{name} {'yes|no' if parameter.is_flag else shown.partition(' ')[2]}", words
