"""The three worst things about a synthetic table, each in one sentence, from the figures of an evaluation.

Everything is brought to one scale, shares from 0 to 1: a distance beyond chance, a correlation that is lacking, a score
that a model lacks. So a broken column, a lost dependence and a group that is served badly can be compared. The verdict
is as confidential as the real rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privot.errors import brief
from privot.evaluation.associations import link_sentence

NAMED = 3
NOTABLE = 0.05
"""Faults below this are not named."""
NEAR = 0.5
"""Synthetic rows closer to real ones than this share of what other real rows are, are a fault of privacy."""


def verdict(report: Mapping[str, Any], *, nearness: bool = True) -> dict[str, Any]:
    """`worst` (at most three faults, the worst first, each with a size from 0 to 1) and a `sentence` about them.

    Without `nearness`, distances to the nearest records have no say: those may be the records behind the release, while
    all other figures are about the test records.
    """
    faults = [
        *_broken(report),
        *_columns(report),
        *_means(report),
        *_dependence(report),
        *_pairs(report),
        *_targets(report),
        *_groups(report),
        *(_nearness(report) if nearness else []),
    ]
    kept: list[dict[str, Any]] = []
    for fault in sorted(faults, key=lambda f: -f["size"]):
        about = set(fault["about"])
        # one thing is named once: a column that is broken also breaks its pairs
        if fault["size"] >= NOTABLE and not any(about & set(other["about"]) for other in kept):
            kept.append(fault)
    worst = [{k: v for k, v in fault.items() if k != "about"} for fault in kept[:NAMED]]
    if not worst:
        return {
            "worst": [],
            "sentence": "No fault larger than a twentieth was found in columns, pairs, models or groups.",
        }
    how = "unusable in part" if worst[0]["size"] >= 0.5 else "flawed" if worst[0]["size"] >= 0.15 else "usable"
    return {"worst": worst, "sentence": f"{how}; the worst of it: " + " ".join(fault["sentence"] for fault in worst)}


def _fault(size: float, sentence: str, about: Sequence[str]) -> dict[str, Any]:
    return {"size": round(float(min(max(size, 0.0), 1.0)), 4), "sentence": sentence, "about": list(about)}


def _broken(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = {fields["name"]: fields for fields in report.get("numbers", ())}
    out = []
    for sentence in report.get("broken", ()):
        name = next((n for n in names if sentence.startswith(f"Column {brief(n)}:")), "")
        out.append(_fault(1.0, sentence, [name]))
    return out


def _columns(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    numbers = {fields["name"]: fields for fields in report.get("numbers", ())}
    out = []
    for (name,), distance, chance in report["counts"].get("columns", {}).get("worst", []):
        said = f"Column {brief(name)}: total variation {distance:.2f} from real records"
        if name in numbers:
            middle = len(numbers[name]["quantiles"]["real"]) // 2
            ours, theirs = (numbers[name]["quantiles"][which][middle] for which in ("synthetic", "real"))
            said += f", median {ours} for {theirs}"
        out.append(_fault(distance - chance, said + ".", [name]))
    return out


def _means(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        _fault(
            fields["mean_error"] - fields["mean_chance"],
            f"Column {brief(fields['name'])}: mean {fields['means']['synthetic']}, of real records "
            f"{fields['means']['real']} ({100 * fields['mean_error']:.0f} % of their standard deviation).",
            [fields["name"]],
        )
        for fields in report.get("numbers", ())
    ]


def _dependence(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        _fault(abs(value - real), link_sentence(a, b, kind, value, real), [a, b])
        for a, b, kind, value, real in report["associations"]["worst"]
    ]


def _pairs(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        _fault(
            distance - chance,
            f"Columns {brief(names[0])} and {brief(names[1])} together: total variation {distance:.2f}.",
            names,
        )
        for names, distance, chance in report["counts"].get("pairs", {}).get("worst", [])
    ]


def _targets(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        _fault(
            entry["real"] - entry["synthetic"],
            f"Models of {brief(entry['target'])} reach {entry['measure']} {entry['synthetic']:.2f}, trained on real "
            f"records {entry['real']:.2f}.",
            [f"model of {entry['target']}"],
        )
        for entry in report.get("targets", ())
    ]


def _groups(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        _fault(
            entry["accuracy"]["real"] - entry["accuracy"]["synthetic"],
            f"Records with {entry['column']} = {entry['value']} are predicted right in "
            f"{entry['accuracy']['synthetic']:.0%}, by real records in {entry['accuracy']['real']:.0%}.",
            [f"group of {entry['column']}"],
        )
        for entry in report.get("groups", ())
        if entry["clear"]
    ]


def _nearness(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    ours, theirs = (report["nearest"][key][1] for key in ("synthetic", "held_out"))
    if theirs <= 0.0 or ours >= NEAR * theirs:
        return []
    sentence = f"Synthetic rows are closer to real ones ({ours:.3f}) than other real rows are ({theirs:.3f})."
    return [_fault(1.0 - ours / theirs, sentence, ["nearest"])]
