"""Says what is wrong with an outcome: a traceback, a wrong exit code, more than a sentence, too much time or memory."""

from __future__ import annotations

import json
import re

from fuzz.kit import SENTINEL
from fuzz.running import MAX_BYTES, Outcome, limits

_NOTES = ("There is no job in ", "Going on with ", "Warning: ")
"""Lines on standard error that may come before the sentence."""
_PROGRESS = re.compile(r"[a-zε][^:]*: (.+, )?[\d.]+ (s|min|h) so far(, about [\d.]+ (s|min|h) left)?")
"""A line about work that takes longer than three seconds."""


def faults(outcome: Outcome) -> list[str]:
    """Everything that is wrong with it; nothing where all is well."""
    found = []
    code, err, case = outcome.code, outcome.err, outcome.case
    if outcome.seconds > limits["seconds"]:
        found.append(f"took more than {limits['seconds']:g} s")
    elif code < 0:
        found.append(f"died of signal {-code}")
    if outcome.peak > MAX_BYTES:
        found.append(f"reached {outcome.peak / 2**30:.1f} GiB")
    if outcome.unforeseen:
        found.append("internal error: " + outcome.unforeseen.strip().splitlines()[-1][:160])
    elif "Traceback" in err:
        found.append("traceback")
    elif code >= 0 and code not in case.codes and not (code == 2 and _became_folder(outcome)):
        found.append(f"exit code {code}, right are {', '.join(map(str, sorted(case.codes)))}")
    lines = [line for line in err.splitlines() if not line.startswith(_NOTES) and not _PROGRESS.fullmatch(line)]
    if code > 0 and (len(lines) != 1 or not lines[0].startswith("privot: ")):
        found.append(f"{len(lines)} lines on standard error where one sentence is right")
    if code == 0 and lines:
        found.append("standard error is not empty")
    if code > 0 and any(len(line) > 1000 for line in lines):
        found.append("the sentence is longer than 1,000 characters")
    if SENTINEL in err:
        found.append("the sentence quotes a record")
    if "--json" in case.arguments and code >= 0 and not case.arguments[0].startswith("@"):
        found += _json_faults(outcome)
    if outcome.written:
        found.append("wrote elsewhere: " + outcome.written.splitlines()[0][:160])
    return found


def _became_folder(outcome: Outcome) -> bool:
    """Whether a folder took the place of a file: images are read from folders, and then an option may be missing."""
    return outcome.mutation == "folder"


def _json_faults(outcome: Outcome) -> list[str]:
    if outcome.code not in (0, 7):
        return ["standard output is not empty after a refusal"] if outcome.out.strip() else []
    try:
        json.loads(outcome.out)
    except ValueError:
        return ["standard output is not one JSON object"]
    return []
