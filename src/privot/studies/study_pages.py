"""Pages from results: one per paper, with published beside ours and a verdict per claim, and a table of all items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privot.common.files import write_whole
from privot.errors import DataError
from privot.studies.paper_items import ITEMS, PaperItem
from privot.studies.study import MODES, Mode, Paper, Study
from privot.studies.study_list import DP_SWD_FIRST, PAPERS, STUDIES
from privot.studies.study_run import read_result

Kept = Mapping[Mode, Mapping[str, Any]]
"""Results of one study, by mode."""


def results_in(folder: Path) -> dict[str, dict[Mode, dict[str, Any]]]:
    """What the folder has, by study and mode; charts and other files are left alone."""
    found: dict[str, dict[Mode, dict[str, Any]]] = {}
    for study in STUDIES:
        for mode in MODES:
            path = folder / f"{study.name}.{mode}.json"
            if path.is_file():
                found.setdefault(study.name, {})[mode] = read_result(path)
    return found


def overall(kept: Kept) -> str:
    """The verdicts of a study in a few words, of the full run if there is one: "3 reproduced, 1 refuted (quick)"."""
    for mode in reversed(MODES):
        if mode in kept:
            count = Counter(f["verdict"] for f in kept[mode]["result"]["findings"])
            return ", ".join(f"{many} {verdict}" for verdict, many in count.items()) + f" ({mode})"
    return "not run yet"


def write_pages(results: Path, out: Path) -> list[Path]:
    """One page per paper and README.md with all items, in `out`; returns the files."""
    kept = results_in(results)
    if not kept:
        raise DataError(f"There are no results in {results}: run privot study run all --out {results} first.")
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for paper in PAPERS:
        path = out / f"{paper.key}.md"
        write_whole(path, paper_page(paper, kept).encode(), mode=0o644)
        written.append(path)
    path = out / "README.md"
    write_whole(path, items_page(kept).encode(), mode=0o644)
    return [*written, path]


def paper_page(paper: Paper, kept: Mapping[str, Kept]) -> str:
    """The page of one paper."""
    lines = [f"# {paper.citation}", "", "Published beside ours. Written by `privot study pages`; do not edit.", ""]
    for study in STUDIES:
        if study.paper is paper:
            lines += _study_lines(study, kept.get(study.name, {}))
    lines += ["## All items", "", *_items_lines([item for item in ITEMS if item.paper is paper], kept)]
    return "\n".join(lines) + "\n"


def items_page(kept: Mapping[str, Kept]) -> str:
    """Every definition, theorem, algorithm, table and figure: the command that runs it, and the verdict."""
    lines = [
        "# Every published item, and what came of it",
        "",
        "Written by `privot study pages`; do not edit. Data sets are open, and nothing here protects anybody.",
        "",
        "    privot study list",
        "    privot study run all --quick",
        "    privot study run NAME --full --data DIR --device cuda",
        "",
    ]
    for paper in (*PAPERS, DP_SWD_FIRST):
        # the first version has no page of its own: its studies are those of the final one
        title = f"[{paper.citation}]({paper.key}.md)" if paper in PAPERS else paper.citation
        lines += [f"## {title}", ""]
        lines += _items_lines([item for item in ITEMS if item.paper is paper], kept)
    return "\n".join(lines) + "\n"


def _study_lines(study: Study, kept: Kept) -> list[str]:
    lines = [
        f"## {study.item}: {study.title}",
        "",
        f"    privot study run {study.name}",
        "",
    ]
    if not kept:
        return [*lines, "Not run yet.", ""]
    for mode in MODES:
        if mode in kept:
            lines += _result_lines(mode, kept[mode])
    return lines


def _result_lines(mode: str, record: Mapping[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    settings = ", ".join(f"{name} {_short(value)}" for name, value in record["settings"].items())
    busy = f", {record['processor_seconds']:g} s of processors" if "processor_seconds" in record else ""
    lines = [
        f"**{mode.capitalize()}**: {record['date']}, commit {record['commit'] or '–'}, seed {record['seed']}, "
        f"{record['seconds']:g} s{busy} on {record['device']} ({record['machine']}); {versions}. Settings: {settings}.",
        "",
        "| claim | published | ours | verdict |",
        "|---|---|---|---|",
    ]
    for finding in record["result"]["findings"]:
        why = f": {finding['why']}" if finding["why"] and finding["verdict"] != "reproduced" else ""
        cells = (finding["text"], finding["published"] or "–", finding["measured"], f"**{finding['verdict']}**{why}")
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return [*lines, ""]


def _items_lines(items: list[PaperItem], kept: Mapping[str, Kept]) -> list[str]:
    lines = ["| item | what | command | verdict |", "|---|---|---|---|"]
    for item in items:
        verdict = overall(kept.get(item.study, {})) if item.study else item.verdict
        command = f"`privot study run {item.study}`" if item.study else item.command
        lines.append(f"| {_cell(item.item)} | {_cell(item.what)} | {_cell(command or '–')} | {_cell(verdict)} |")
    return [*lines, ""]


def _cell(text: str) -> str:
    """Text that cannot end a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
