"""Pages from results: one per paper, with published beside ours and a verdict per claim, and a table of all items.

A full run stands before a quick one: it gives the verdicts, the tables and the figures; the quick run is folded away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from privot.common.files import write_whole
from privot.common.visible import command_line
from privot.errors import DataError
from privot_lab.studies.paper_items import ITEMS, PaperItem
from privot_lab.studies.result_tables import ResultTable, tables_of
from privot_lab.studies.study import MODES, Mode, Paper, Study
from privot_lab.studies.study_list import DP_SWD_FIRST, PAPERS, STUDIES
from privot_lab.studies.study_notes import NOTES
from privot_lab.studies.study_run import read_result

Kept = Mapping[Mode, Mapping[str, Any]]
"""Results of one study, by mode."""
Figures = Mapping[str, list[str]]
"""Files of figures by study, as pages link to them."""
IMAGES = "images"
"""The folder of figures, beside the pages."""
UNJUDGED = "too short to judge"
"""What a quick run says of a claim about long training, in place of a verdict."""
WRITTEN = "<!-- Written by `privot study pages`; do not edit. -->"


def results_in(folder: Path) -> dict[str, dict[Mode, dict[str, Any]]]:
    """What the folder has, by study and mode; charts and other files are left alone."""
    found: dict[str, dict[Mode, dict[str, Any]]] = {}
    for study in STUDIES:
        for mode in MODES:
            path = folder / f"{study.name}.{mode}.json"
            if path.is_file():
                found.setdefault(study.name, {})[mode] = read_result(path)
    return found


def verdict_of(finding: Mapping[str, Any]) -> str:
    """The verdict on a claim, or that the run was too short to judge it."""
    return UNJUDGED if UNJUDGED in finding["why"] else str(finding["verdict"])


def overall(kept: Kept) -> str:
    """The verdicts of a study in a few words, of the full run if there is one: "3 reproduced, 1 refuted (quick)"."""
    mode = _first(kept)
    if mode is None:
        return "not run yet"
    count = Counter(verdict_of(f) for f in kept[mode]["result"]["findings"])
    return ", ".join(f"{many} {verdict}" for verdict, many in count.items()) + f" ({mode})"


def _first(kept: Kept) -> Mode | None:
    """The mode whose results are shown first: full, if there is one."""
    return next((mode for mode in reversed(MODES) if mode in kept), None)


def write_pages(results: Path, out: Path) -> list[Path]:
    """One page per paper, their figures, and README.md with all items, in `out`; returns the pages."""
    kept = results_in(results)
    if not kept:
        first = command_line(["privot", "study", "run", "all", "--out", str(results)])
        raise DataError(f"There are no results in {results}: run {first} first.")
    out.mkdir(parents=True, exist_ok=True)
    for name, held in kept.items():
        draw_figures(name, held, out / IMAGES)
    figures = figures_in(out / IMAGES)
    written = []
    for paper in PAPERS:
        path = out / f"{paper.key}.md"
        write_whole(path, paper_page(paper, kept, figures).encode(), mode=0o644)
        written.append(path)
    path = out / "README.md"
    write_whole(path, items_page(kept).encode(), mode=0o644)
    return [*written, path]


def draw_figures(name: str, kept: Kept, folder: Path) -> None:
    """Draw the result of a study that is shown first, into `folder`, in place of its earlier figures."""
    mode = _first(kept)
    if mode is None:
        return
    for link in figures_in(folder).get(name, []):
        (folder / Path(link).name).unlink()
    study = next(s for s in STUDIES if s.name == name)
    with TemporaryDirectory() as scratch:
        for drawn in study.draw(kept[mode]["result"], Path(scratch)):
            if drawn.suffix == ".png":
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(folder / drawn.name, drawn.read_bytes(), mode=0o644)


def figures_in(folder: Path) -> dict[str, list[str]]:
    """Figures in a folder beside the pages, by study: a file belongs to the longest name with which its own begins."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.png")):
        owners = [study.name for study in STUDIES if path.name.startswith(study.name)]
        if owners:
            found.setdefault(max(owners, key=len), []).append(f"{folder.name}/{path.name}")
    return found


def paper_page(paper: Paper, kept: Mapping[str, Kept], figures: Figures | None = None) -> str:
    """The page of one paper: its items first, then one section per study."""
    lines = [f"# {paper.citation}", "", WRITTEN, "", "Published beside ours.", ""]
    lines += ["## All items", "", *_items_lines([item for item in ITEMS if item.paper is paper], kept, "")]
    for study in STUDIES:
        if study.paper is paper:
            lines += _study_lines(study, kept.get(study.name, {}), (figures or {}).get(study.name, []))
    return "\n".join(lines) + "\n"


def items_page(kept: Mapping[str, Kept]) -> str:
    """Every definition, theorem, algorithm, table and figure: the command that runs it, and the verdict."""
    lines = [
        "# Every published item, and what came of it",
        "",
        WRITTEN,
        "",
        "Data sets are open, and nothing here protects anybody.",
        "",
        "    privot study list",
        "    privot study run all --quick --data DIR",
        "    privot study run NAME --full --data DIR --device cuda",
        "",
        "| verdict | of a claim |",
        "|---|---|",
        "| reproduced | it was measured again and holds |",
        "| reproduced with the corrected method | it holds for privot's method, where the published one is wrong |",
        "| not reproduced | it was measured again and does not hold; the page says why, as far as that is known |",
        "| refuted | a counterexample was computed |",
        "| cannot be run | the data set that is missing is named |",
        f"| {UNJUDGED} | a quick run of training, which ends long before the claim could hold |",
        "",
        "A verdict is that of the full run where there is one.",
        "",
    ]
    for paper in (*PAPERS, DP_SWD_FIRST):
        # the first version has no page of its own: its studies are those of the final one
        title = f"[{paper.citation}]({paper.key}.md)" if paper in PAPERS else paper.citation
        lines += [f"## {title}", ""]
        lines += _items_lines([item for item in ITEMS if item.paper is paper], kept, _page_of(paper))
    return "\n".join(lines) + "\n"


def _page_of(paper: Paper) -> str:
    """The page that holds the studies of a paper."""
    return f"{paper.key}.md" if paper in PAPERS else "dp-swd.md"


def _study_lines(study: Study, kept: Kept, figures: list[str]) -> list[str]:
    lines = [
        f'<a id="{study.name}"></a>',
        "",
        f"## {study.item}: {study.title}",
        "",
        f"    {_command(study, kept)}",
        "",
    ]
    mode = _first(kept)
    if mode is None:
        return [*lines, "Not run yet.", ""]
    lines += [f"**{overall(kept)}.**", ""]
    for figure in figures:
        lines += [f"![{_cell(study.title)}]({figure})", ""]
    lines += _result_lines(study, mode, kept[mode])
    if study.name in NOTES:
        lines += [NOTES[study.name], ""]
    for other in MODES:
        if other in kept and other != mode:
            lines += ['<details markdown="1">', f"<summary>The {other} run</summary>", ""]
            lines += [*_result_lines(study, other, kept[other]), "</details>", ""]
    return lines


def _command(study: Study, kept: Kept) -> str:
    """What runs the result that is shown first."""
    mode = _first(kept) or "quick"
    data = " --data DIR" if study.needed(mode) else ""
    device = " --device cuda" if mode == "full" and study.full_on == "GPU" else ""
    return f"privot study run {study.name}{' --full' if mode == 'full' else ''}{data}{device}"


def _result_lines(study: Study, mode: str, record: Mapping[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    settings = ", ".join(f"{name} {_short(value)}" for name, value in record["settings"].items())
    busy = f", {record['processor_seconds']:g} s of processors" if "processor_seconds" in record else ""
    lines = []
    for table in tables_of(study, record["result"]):
        lines += _table_lines(table)
    lines += ["| claim | published | ours | verdict |", "|---|---|---|---|"]
    for finding in record["result"]["findings"]:
        why = f": {finding['why']}" if finding["why"] and finding["verdict"] != "reproduced" else ""
        verdict = f"**{verdict_of(finding)}**{why if verdict_of(finding) != UNJUDGED else ''}"
        cells = (finding["text"], finding["published"] or "–", finding["measured"], verdict)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return [
        *lines,
        "",
        f"*{mode.capitalize()} run: {record['date']}, commit {record['commit'] or '–'}, seed {record['seed']}, "
        f"{record['seconds']:g} s{busy} on {record['device']} ({record['machine']}); {versions}.* "
        f"Settings: {_cell(settings)}.",
        "",
    ]


def _table_lines(table: ResultTable) -> list[str]:
    """A table in Markdown beneath its title."""
    rows = [table.header, ("---",) * len(table.header), *table.rows]
    return [f"{table.title}:", "", *("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows), ""]


def _items_lines(items: list[PaperItem], kept: Mapping[str, Kept], page: str) -> list[str]:
    lines = ["| item | what | command | verdict |", "|---|---|---|---|"]
    for item in items:
        verdict = overall(kept.get(item.study, {})) if item.study else item.verdict
        command = f"`privot study run {item.study}`" if item.study else item.command
        if item.study:
            verdict = f"[{verdict}]({page}#{item.study})"
        lines.append(f"| {_cell(item.item)} | {_cell(item.what)} | {_cell(command or '–')} | {_cell(verdict)} |")
    return [*lines, ""]


def _cell(text: str) -> str:
    """Text that cannot end a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ", ".join(_short(entry) for entry in value) if len(value) != 1 else _short(value[0])
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {_short(entry)}" for name, entry in value.items()) + ")"
    return str(value)
