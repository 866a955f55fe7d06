"""What `privot demo` ends with: an answer, and the whole story on one page with links to the pages of its releases."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.common.visible import command_line

if TYPE_CHECKING:
    from privot.audit.attacks.membership import Membership
    from privot.audit.findings import Findings
    from privot.federation.sketches.sketch_comparison import SketchComparison
    from privot.guarantee import Guarantee
    from privot.report.html_page import Card, Section

REPORT = "report.html"


@dataclass
class DemoAnswer:
    """What the demonstration ends with."""

    out: Path
    comparison: SketchComparison | None = None
    table: dict[str, Any] = field(default_factory=dict)
    digits: dict[str, Any] = field(default_factory=dict)
    findings: Findings = field(default_factory=list)
    membership: list[Membership] = field(default_factory=list)
    refused: str | None = None
    spent: dict[str, Guarantee] = field(default_factory=dict)
    """What each ledger holds in all, by the name of its data set."""
    rows: int = 0
    report: Path | None = None


def write_demo_page(answer: DemoAnswer, epsilon: float, delta: float) -> Path:
    """Write report.html about the demonstration's folder."""
    from privot.jobs.released_files import write_bytes
    from privot.report.html_page import Page, render

    total = sum(spent.epsilon() for spent in answer.spent.values())
    lead = (
        "Two clinics that may not share their patients compared them, published synthetic patients and handwriting, "
        f"tested and attacked what was published. Added up over all data sets that cost ε = {total:.3g} at "
        f"δ = {delta:g}, add-remove, proven; no record is in more than one of them."
    )
    footer = [
        "The patients are invented and the digits are public, so this page shows real records of nobody. In earnest, "
        "figures about real records stay on report-private.html in each folder.",
        f"ε was limited to {epsilon:g} for everything on this page.",
    ]
    page = Page(
        "The privot demonstration", "Private optimal transport", lead, _cards(answer), _sections(answer), footer
    )
    write_bytes(answer.out / REPORT, render(page))
    return answer.out / REPORT


def _cards(answer: DemoAnswer) -> list[Card]:
    from privot.jobs.released_files import read_json
    from privot.report.audit_parts import audit_card
    from privot.report.evaluation_parts import quality_card
    from privot.report.html_page import Card, Paragraph
    from privot.report.verdict import cost_card, promise_card
    from privot.synthesis.output.html_report import AUDIT, EVALUATION

    table, digits, guarantee = answer.out / "table", answer.out / "digits", answer.table["guarantee"]
    refused = [Paragraph("The ledger refused." if answer.refused else "Nothing was refused.", "verdict")]
    refused += [Paragraph(answer.refused)] if answer.refused else []
    return [
        promise_card(guarantee, "the synthetic table"),
        cost_card(table, guarantee),
        _compared(answer),
        quality_card(read_json(table / EVALUATION), "How good the synthetic patients are"),
        quality_card(read_json(digits / EVALUATION), "How good the synthetic digits are"),
        audit_card(read_json(digits / AUDIT)),
        Card("One release too many", refused, "good" if answer.refused else "fair"),
    ]


def _compared(answer: DemoAnswer) -> Card:
    from privot.report.html_page import Card, Chart, Paragraph
    from privot.report.page_charts import distance_line

    found = answer.comparison
    assert found is not None
    assert found.sliced.interval is not None
    assert found.sliced.null_level is not None
    assert found.p_value is not None
    words = "No difference shows." if found.indistinguishable else "Their patients differ: do not just pool them."
    drawn = Chart(distance_line(found.sliced.value, found.sliced.interval, found.sliced.null_level))
    said = f"Sliced Wasserstein distance of coded records, from two sketches, {found.guarantees[0].stated()} each; "
    tested = f"were both of one population, such a difference would show with p = {found.p_value:.2g}."
    return Card("Are the clinics alike?", [Paragraph(words, "verdict"), drawn, Paragraph(said + tested, "quiet")])


def _sections(answer: DemoAnswer) -> list[Section]:
    from privot.jobs.released_files import read_json
    from privot.opening import read_bytes
    from privot.report.evaluation_parts import columns_section, correlations_section
    from privot.report.html_page import Code, Link, Photo, Rows, Section
    from privot.synthesis.output.html_report import EVALUATION, PRIVATE_REPORT

    measured = read_json(answer.out / "table" / EVALUATION)
    columns = columns_section(measured, "Synthetic patients over real ones", over_real=True)
    pairs = correlations_section(measured)
    grid = read_bytes(answer.out / "digits" / "grid.png", inside=answer.out)
    drawn = "Synthetic digits, one line per class, drawn from the released generator."
    ledgers = [[name, spent.stated()] for name, spent in answer.spent.items()]
    pages = [
        Link("The synthetic table: its report", f"table/{REPORT}"),
        Link("The synthetic digits: their report", f"digits/{REPORT}"),
        Link("The synthetic table beside real records (not to be published)", f"table/{PRIVATE_REPORT}"),
        Link("The synthetic digits beside real records (not to be published)", f"digits/{PRIVATE_REPORT}"),
    ]
    return [
        Section("Pages to read on", pages),
        Section("Synthetic handwriting", [Photo(grid, drawn, drawn, pixels=True)]),
        *[section for section in (columns, pairs) if section is not None],
        Section("Ledgers", [Rows("What each ledger holds in all", ["data set", "spent"], ledgers)]),
        Section("The same by hand", [Code(_commands(answer))], folded=True),
    ]


def _commands(answer: DemoAnswer) -> str:
    """Commands that do what the demonstration did, and that read on."""
    table, digits = answer.table["guarantee"], answer.digits["guarantee"]

    def at(name: str) -> str:
        return command_line([f"{answer.out}/{name}"])

    def terms(guarantee: Guarantee) -> str:
        return f"--epsilon {guarantee.epsilon():.2g} --delta {guarantee.at_delta:g} --adjacency add-remove"

    return "\n".join(
        (
            f"privot synth {at('north.csv')} --schema {at('schema.json')} {terms(table)} "
            "--out my-table --ledger my.ledger",
            f"privot evaluate my-table --test {at('registry.csv')} --public-test",
            f"privot synth {at('digits.npz')} --classes 10 --shape 8,8 --range 0,1 {terms(digits)} "
            "--out my-digits --ledger my-digits.ledger",
            "privot audit my-digits",
            f"privot ledger show {at('north.csv.ledger')}",
        )
    )
