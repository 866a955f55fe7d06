"""The coverage table: every numbered item of the papers has a row with a verdict, and every command it names exists."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import Any

import pytest
from typer.main import get_command

from privot.adaptation.adaptation_methods import METHODS as ADAPTATION_METHODS
from privot.cli.app import build_app
from privot.cli.parsing.settings import with_settings
from privot.cli.running.comparisons import PROTOCOLS, RECORD_METHODS
from privot.synthesis.methods import METHODS as SYNTHESIS_METHODS
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.defaults.streaming_defaults import sinkhorn_options
from privot_lab.studies.paper_items import ITEMS
from privot_lab.studies.study import MODES
from privot_lab.studies.study_list import DP_SINKHORN, DP_SWD, DP_SWD_FIRST, STUDIES, TRIANGLE_WAD, WDP

NUMBERED = {
    DP_SWD: {
        "Definition": 3, "Remark": 4, "Proposition": 2, "Lemma": 2, "Property": 2, "Algorithm": 2, "Figure": 7,
        "Table": 5, "Equation": 10,
    },
    DP_SWD_FIRST: {
        "Definition": 3, "Remark": 2, "Proposition": 2, "Lemma": 2, "Property": 2, "Algorithm": 2, "Figure": 6,
        "Table": 2, "Equation": 8,
    },
    WDP: {
        "Definition": 11, "Proposition": 13, "Theorem": 3, "Lemma": 1, "Corollary": 1, "Figure": 4, "Table": 2,
        "Equation": 16,
    },
    TRIANGLE_WAD: {
        "Definition": 5, "Property": 1, "Theorem": 2, "Remark": 3, "Algorithm": 1, "Figure": 6, "Table": 1,
        "Equation": 9,
    },
}  # fmt: skip
"""How many of each the texts number, from 1; equations of proofs in appendices are not items."""
SINKHORN = {
    "Definition": {"3.1", "3.2", "4.1", "4.2", "4.3"}, "Theorem": {"4.1"}, "Algorithm": {"1"}, "Table": set("123"),
    "Figure": set("1234"), "Equation": set("123456"),
}  # fmt: skip
PLURAL = {"Property": "Properties", "Corollary": "Corollaries"}


def numbers_of(text: str, kind: str) -> set[str]:
    """The numbers that a row states of one kind: "Figures 1 (a, b), 3 and 5 to 7" are 1, 3, 5, 6 and 7."""
    found: set[str] = set()
    for run in re.findall(
        rf"\b(?:{kind}|{PLURAL.get(kind, kind + 's')})\s((?:[\d.]+(?:\s\([^)]*\))?(?:, | and | to )?)+)",
        text,
        re.IGNORECASE,
    ):
        numbers = re.findall(r"\d+(?:\.\d+)?", re.sub(r"\([^)]*\)", "", run))
        if " to " in run and "." not in run:
            first, last = re.search(r"(\d+) to (\d+)", run).groups()  # type: ignore[union-attr]
            numbers += [str(n) for n in range(int(first), int(last) + 1)]
        found |= set(numbers)
    return found


def test_no_numbered_item_of_the_papers_is_without_a_row() -> None:
    wanted = {paper: {k: {str(n + 1) for n in range(m)} for k, m in kinds.items()} for paper, kinds in NUMBERED.items()}
    wanted[DP_SINKHORN] = SINKHORN
    for paper, kinds in wanted.items():
        for kind, numbers in kinds.items():
            rows = [item.item for item in ITEMS if item.paper is paper]
            found = set().union(*(numbers_of(row, kind) for row in rows))
            assert found == numbers, (paper.key, kind, numbers ^ found)


def test_every_item_has_a_verdict_and_none_is_open() -> None:
    studies = {study.name for study in STUDIES}
    for item in ITEMS:
        assert bool(item.study) != bool(item.verdict), item.item
        assert not item.study or item.study in studies
        assert not re.search(r"not done|not yet|open\b|todo", item.verdict), item.item
        if item.verdict.startswith("cannot be run"):
            assert re.search(r"\b(is|are) missing", item.verdict), item.item
        assert item.study or item.command or item.verdict.startswith("a drawing"), item.item


VALUES = {
    ("compare", "--method"): ("dp-swd", "sketch", *RECORD_METHODS, *PROTOCOLS),
    ("compare", "--set factor"): ("corrected", "published"),
    ("compare", "--set defence"): ("constant", "random"),
    ("adapt", "--method"): tuple(ADAPTATION_METHODS.names),
    ("adapt", "--set network"): ("digits", "features"),
    ("synth", "--method"): tuple(SYNTHESIS_METHODS.names),
    ("synth", "--set"): tuple(sinkhorn_options(Problem(784, 10, 1.0, 60_000, (28, 28)), {})),
    ("projection", "--bound"): ("published",),
    ("projection", "--frame"): ("independent",),
}
"""What an option or setting takes, where that is a word; of --set, the names of the method's own."""


def commands_in(text: str) -> list[list[str]]:
    """Commands in backquotes, and options that change the command before them."""
    return [shlex.split(found) for found in re.findall(r"`(privot [^`]+|--[^`]+)`", text)]


@pytest.fixture(scope="module")
def app() -> Any:
    return with_settings(get_command(build_app()))


@pytest.mark.parametrize("item", [i for i in ITEMS if i.command], ids=lambda i: f"{i.paper.key} {i.item}")
def test_every_command_that_is_named_can_be_typed(item, app) -> None:
    command, typed = None, []
    for words in commands_in(item.command + " " + item.verdict):
        if words[0] == "privot":
            command, typed = app, words[1:]
            while typed and hasattr(command, "commands"):
                assert typed[0] in command.commands, words
                command, typed = command.commands[typed[0]], typed[1:]
        else:
            # stands for an option of the command before it, or comes to those it has
            typed = typed + words
        assert command is not None, words
        assert not hasattr(command, "commands"), f"{words} names a group of commands, not one"
        # refuses what is missing, unknown or of the wrong type
        command.make_context(command.name, list(typed))
        for option, value in pairwise(typed):
            name, _, of_setting = value.partition("=")
            known = VALUES.get((command.name, f"{option} {name}"))
            said = name if known is None else of_setting
            known = known or VALUES.get((command.name, option))
            assert known is None or said in known, (words, option, value)
        if command.name == "run":
            assert set(typed) <= {study.name for study in STUDIES}, words


def test_every_study_states_settings_for_both_modes_and_data_that_are_known() -> None:
    from privot_lab.studies.study_run import DATA_SETS

    for study in STUDIES:
        for mode in MODES:
            assert study.settings(mode)
            assert set(study.needed(mode)) <= set(DATA_SETS)
