"""Every figure of a table's evaluation, in JSON, on pages and on standard output, counted again from the two files.

The tables are odd on purpose: up to 300 categories of which the commonest come last, constant and one-valued columns,
values that are missing everywhere, dates, booleans in several spellings, ordered pairs. The counting here uses the csv
module, `Counter` and `fractions`; nothing of `privot.evaluation` and no coded row.
"""

from __future__ import annotations

import csv
import math
import random
import re
import statistics
from collections import Counter
from datetime import date, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from privot.cli.commands.evaluate import _print_table_scores
from privot.cli.running.evaluations import evaluate_table_data
from privot.report.evaluation_parts import evaluation_sections, public_part
from privot.report.html_page import Page, render
from privot.synthesis.output.html_report import _columns
from privot.synthesis.tabular.table_folder import figures_of
from privot.tables import Schema, TableCodec, read_table

BOOLEANS = [("false", "true"), ("0", "1"), ("no", "yes"), ("f", "t"), ("n", "y"), ("nein", "ja")]
EPOCH = date(1970, 1, 1)


def made_up(seed: int) -> tuple[dict[str, Any], list[list[Any]], list[list[Any]]]:
    """A schema and the rows of two tables; None is missing."""
    dice = random.Random(seed)
    columns: list[dict[str, Any]] = []
    draws: list[Any] = []
    for place in range(dice.randint(2, 6)):
        kind = dice.choice(["words", "words", "whole", "real", "date", "boolean", "pair"])
        gone = dice.choice([0.0, 0.0, 0.2, 1.0])
        column: dict[str, Any] = {"name": f"{kind} {place}, “{dice.choice('aß&<')}”", "missing": gone > 0.0}
        if kind == "words":
            size = dice.choice([1, 2, 7, 14, 15, 60, 61, 90, 167, 300])
            words = [f"w{k:03d}" for k in range(size)]
            skew = dice.choice([0.0, 1.0, 3.0])
            weights = [[(k + 1) ** skew * dice.choice([0.2, 1.0]) for k in range(size)] for _ in range(2)]
            column |= {"type": dice.choice(["categorical", "ordinal"]), "categories": words}
            draws.append((gone, lambda t, w=words, v=weights: dice.choices(w, v[t])[0]))
        elif kind == "boolean":
            words = list(dice.choice(BOOLEANS))
            column |= {"type": "boolean"} | ({"categories": words} if words[0] == "nein" else {})
            draws.append((gone, lambda t, w=words: w[dice.random() < (0.1, 0.4)[t]]))
        elif kind == "real":
            high = dice.choice([1.0, 60.0, 1e6])
            column |= {"type": "continuous", "low": 0, "high": high, "decimals": 4}
            draws.append((gone, lambda t, h=high: round(h * dice.random() ** (3 + t), 4)))
        elif kind == "date":
            days = dice.choice([0, 20, 127, 800])
            start = date(2019, 3, 1)
            column |= {"type": "date", "low": str(start), "high": str(start + timedelta(days))}
            draws.append((gone, lambda t, d=days, s=start: str(s + timedelta(dice.randint(0, d)))))
        else:
            high = dice.choice([0, 5, 60, 200, 5000])
            column |= {"type": "integer", "low": 0, "high": high}
            most = min(high, dice.choice([1, high]))
            draws.append((gone, lambda t, h=most: int(h * dice.random() ** (8 - 4 * t))))
            if kind == "pair":
                columns.append(column | {"name": f"first {place}", "missing": False})
                draws.insert(-1, (0.0, lambda t, h=most: int(h * dice.random())))
        columns.append(column)
    tables = [
        [[None if dice.random() < gone else draw(t) for gone, draw in draws] for _ in range(dice.randint(2, 99))]
        for t in range(2)
    ]
    for rows in tables:
        for place, column in enumerate(columns):
            if column["name"].startswith("first"):
                for row in rows:
                    if row[place + 1] is not None:
                        row[place], row[place + 1] = sorted((row[place], row[place + 1]))
    return {"columns": columns}, tables[0], tables[1]


class Counted:
    """One column, counted in plain Python: `cells` of values in both tables."""

    def __init__(self, column: dict[str, Any], both: list[list[Any]]) -> None:
        self.name, self.type, self.gone = column["name"], column["type"], column["missing"]
        self.number = self.type in ("integer", "continuous", "date")
        self.whole = self.type in ("integer", "date")
        if self.number:
            self.low, self.high = (self.value(column[end]) for end in ("low", "high"))
            self.values = [[None if v is None else self.value(v) for v in values] for values in both]
        elif self.type == "boolean":
            self.words = column.get("categories", ["false", "true"])
            yes = {"true", "1", "yes", "t", "y", "ja"}
            self.values = [[None if v is None else self.words[v in yes] for v in values] for values in both]
        else:
            self.words, self.values = column["categories"], both

    def value(self, v: Any) -> float:
        return float((date.fromisoformat(v) - EPOCH).days) if self.type == "date" else float(v)

    def written(self, v: float) -> Any:
        return str(EPOCH + timedelta(round(v))) if self.type == "date" else pytest.approx(v, rel=1e-5)

    def variation(self, cell: Any) -> float:
        a, b = (Counter(None if v is None else cell(v) for v in values) for values in self.values)
        n, m = (len(values) for values in self.values)
        return 0.5 * sum(abs(a[k] / n - b[k] / m) for k in a.keys() | b.keys())

    def range_of(self, v: float) -> int:
        """One of the ranges that are drawn, at most 32."""
        if self.whole:
            return int(v - self.low) // math.ceil((self.high - self.low + 1) / 32)
        return min(int((v - self.low) / (self.high - self.low) * 32), 31)

    def cell(self, v: Any, most: int | None = None) -> Any:
        """One of the schema's cells: of few whole numbers each, else 64 even ones; at most `most`."""
        if not self.number:
            return v
        if self.whole and self.high - self.low + 1 <= 128:
            cell, size = int(v - self.low), int(self.high - self.low) + 1
        else:
            cuts = {self.low + k / 64 * (self.high - self.low) for k in range(1, 64)}
            if self.whole:
                cuts = {math.floor(c) + 0.5 for c in cuts}
            cell, size = sum(v >= c for c in cuts), len(cuts) + 1
        return cell if most is None or size <= most else cell * most // size

    def conditions(self) -> dict[str, Any]:
        """What is asked about the column: words, and which values satisfy them."""
        if self.number:
            edges = [self.low + share * (self.high - self.low) for share in (0.25, 0.5, 0.75)]
            edges = [float(round(e)) for e in edges] if self.whole else edges
            names = [str(EPOCH + timedelta(e)) if self.type == "date" else f"{e:.12g}" for e in edges]
            return {
                (place, f"{self.name} ≥ {shown}"): (lambda v, e=e: v is not None and v >= e)
                for place, (shown, e) in enumerate(zip(names, edges, strict=True))
            }
        words = [*self.words, *([None] if self.gone else [])]
        p, q = ([values.count(w) / len(values) for w in words] for values in self.values)
        kept = sorted(range(len(words)), key=lambda k: -max(p[k], q[k]))[:8] if len(words) > 8 else range(len(words))
        far = max(range(len(words)), key=lambda k: abs(p[k] - q[k]))
        return {
            (k, f"{self.name} = {words[k] or 'missing'}"): (lambda v, w=words[k]: v == w) for k in sorted({*kept, far})
        }


def quantile(values: list[float], share: float) -> float:
    ordered, at = sorted(values), share * (len(values) - 1)
    low = math.floor(at)
    return ordered[low] + (at - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def check_columns(shown: list[dict[str, Any]], counted: list[Counted], beside: bool) -> None:
    for column, own in zip(shown, counted, strict=True):
        assert column["name"] == own.name
        for which, values in zip(("shares", "real") if beside else ("shares",), own.values, strict=False):
            if own.number:
                bins = Counter(own.range_of(v) for v in values if v is not None)
                assert column[which] == pytest.approx([bins[k] / len(values) for k in range(len(column[which]))])
                gone = values.count(None) / len(values) if own.gone else None
                assert column["missing" if which == "shares" else "real_missing"] == (gone and pytest.approx(gone))
            else:
                named = [None if own.gone and w == "missing" else w for w in column["words"]]
                assert column[which] == pytest.approx([values.count(w) / len(values) for w in named])
        if not own.number:
            assert len(column["words"]) + column["others"] == len(own.words) + own.gone
            tables = own.values if beside else own.values[:1]
            rank = {w: max(v.count(w) / len(v) for v in tables) for w in [*own.words, None]}
            named = {None if own.gone and w == "missing" else w for w in column["words"]}
            left = [rank[w] for w in [*own.words, *([None] if own.gone else [])] if w not in named]
            top = max(rank, key=lambda w: tables[0].count(w))
            assert max(left, default=0.0) <= min((rank[w] for w in named if w != top), default=1.0)
        if beside:
            assert column["distance"] == pytest.approx(own.variation(own.range_of if own.number else own.cell))


def check_answer(answer: dict[str, Any], counted: list[Counted]) -> dict[str, float]:
    marginals = {c.name: c.variation(c.cell) for c in counted}
    assert answer["marginals"] == pytest.approx(marginals)
    assert answer["marginal_distance"] == pytest.approx(statistics.fmean(marginals.values()))
    pairs = {}
    for a, b in combinations(counted, 2):
        at = [[tuple(None if v is None else c.cell(v, 16) for c, v in zip((a, b), row, strict=True))
               for row in zip(*both, strict=True)] for both in zip(a.values, b.values, strict=True)]  # fmt: skip
        p, q = (Counter(rows) for rows in at)
        pairs[a.name, b.name] = 0.5 * sum(abs(p[k] / len(at[0]) - q[k] / len(at[1])) for k in p.keys() | q.keys())
    assert answer["pair_distance"] == pytest.approx(statistics.fmean(pairs.values()) if pairs else 0.0)
    for first, second, distance in answer["pairs"]:
        assert distance == pytest.approx(pairs[first, second])
    if pairs:
        assert answer["pairs"][0][2] == pytest.approx(max(pairs.values()))
    numbers = {entry["name"]: entry for entry in answer["numbers"]}
    means = {}
    for own in counted:
        made, real = ([v for v in values if v is not None] for values in own.values)
        if not own.number or not made or not real:
            assert own.name not in numbers
            continue
        entry = numbers[own.name]
        for which, values in (("synthetic", made), ("real", real)):
            found = [own.written(quantile(values, share)) for share in (0.05, 0.25, 0.5, 0.75, 0.95)]
            assert entry["quantiles"][which] == found
            assert entry["means"][which] == own.written(statistics.fmean(values))
        spread = statistics.pstdev(real) or statistics.pstdev(made + real)
        means[own.name] = abs(statistics.fmean(made) - statistics.fmean(real)) / spread if spread else 0.0
        assert entry["mean_error"] == pytest.approx(means[own.name], abs=1e-9)
    check_queries({query["what"]: query for query in answer["queries"]}, counted, means)
    return means


def check_queries(queries: dict[str, Any], counted: list[Counted], means: dict[str, float]) -> None:
    met = {}
    for own in counted:
        for (_, words), test in own.conditions().items():
            met.setdefault((own.name, words), []).extend([[test(v) for v in values] for values in own.values])
    # a condition whose words are those of another one twice would not be told apart
    errors = {words: abs(statistics.fmean(found[0]) - statistics.fmean(found[1])) for (_, words), found in met.items()}
    one = queries["a share, by one condition"]
    assert one["worst"] == pytest.approx(max(errors.values()))
    assert errors[one["where"]] == pytest.approx(one["worst"])
    assert one["typical"] <= one["high"] <= one["worst"] + 1e-12
    if len(errors) == one["count"]:
        assert one["typical"] == pytest.approx(statistics.median(errors.values()))
        assert one["high"] == pytest.approx(quantile(list(errors.values()), 0.95))
    two = queries.get("a share, by two conditions")
    if two is not None:
        stated = [
            abs(statistics.fmean(map(min, a[0], b[0])) - statistics.fmean(map(min, a[1], b[1])))
            for (_, first), a in met.items() for (_, second), b in met.items() if f"{first}, {second}" == two["where"]
        ]  # fmt: skip
        assert stated == [pytest.approx(two["worst"])]
    if means:
        assert queries["a mean"]["worst"] == pytest.approx(max(means.values()), abs=1e-9)
        assert queries["a mean"]["typical"] == pytest.approx(statistics.median(means.values()), abs=1e-9)
        assert means[queries["a mean"]["where"].rsplit(": ", 1)[0]] == pytest.approx(max(means.values()), abs=1e-9)
    else:
        assert "a mean" not in queries


def check_page(html: str, counted: list[Counted], beside: bool) -> None:
    drawn = {d.find("title").text: d for d in map(fromstring, re.findall(r"<svg.*?</svg>", html, re.S))}  # type: ignore[union-attr]
    for own in counted:
        svg = drawn[f"Column {own.name}"]
        texts = [e.text or "" for e in svg.iter("text")]
        if beside:
            far = own.variation(own.range_of if own.number else own.cell)
            assert f"differs by {100 * far:.1f} %" in texts
        if own.number:
            continue
        made, real = ({w: v.count(w) / len(v) for w in [*own.words, None]} for v in own.values)
        words = [*own.words, *([None] if own.gone else [])]
        top = max(made[w] for w in words)
        said = re.search(r"Most frequent: (.*), (.*) %", svg.find("desc").text or "")  # type: ignore[union-attr]
        assert said is not None
        assert said[2] == f"{100 * top:.1f}"
        assert made[None if said[1] == "missing" and own.gone else said[1]] == top
        bars = [(e.find("title").text or "") for e in svg.iter("rect")]  # type: ignore[union-attr]
        shown = [None if b.startswith("missing: ") and own.gone else b.rsplit(": ", 1)[0] for b in bars]
        named = [w for w in shown if w is None or not w.startswith("others (")]
        assert len(named) == min(len(words), 14)
        for bar, word in zip(bars, shown, strict=True):
            shares = [made.get(word, 0.0), real.get(word, 0.0)]
            if word not in named:
                assert word == f"others ({len(words) - len(named)})"
                shares = [1.0 - sum(of[w] for w in named) for of in (made, real)]
            told = f", of real records {100 * abs(shares[1]):.1f} %" if beside else ""
            assert bar.split(": ", 1)[1] == f"{100 * abs(shares[0]):.1f} %{told}"


@pytest.mark.gate(8)
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.slow) for s in range(6, 200))])
def test_every_figure_is_what_the_files_say(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema, made, real = made_up(seed)
    names = [column["name"] for column in schema["columns"]]
    for name, rows in (("made.csv", made), ("real.csv", real)):
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([names, *(["" if v is None else v for v in row] for row in rows)])
    codec = TableCodec(Schema.from_dict(schema | {"marks": [""]}))
    files = [str(tmp_path / name) for name in ("made.csv", "real.csv")]
    answer = evaluate_table_data(files[0], None, files[1], codec=codec, private=None, public_test=True, seed=0)
    counted = [
        Counted(column, [[row[place] for row in rows] for rows in (made, real)])
        for place, column in enumerate(schema["columns"])
    ]
    means = check_answer(answer, counted)
    check_columns(answer["columns"], counted, beside=True)
    for fields in (answer, public_part(answer) or {}):
        check_page(render(Page("t", "s", "l", [], evaluation_sections(fields))).decode(), counted, beside=True)
    alone = figures_of(*codec.encode(read_table(files[0]), compact=True), codec)
    check_columns(alone["columns"], counted, beside=False)
    check_page(render(Page("t", "s", "l", [], _columns(alone))).decode(), counted, beside=False)
    _print_table_scores(answer)
    said = " ".join(capsys.readouterr().out.split())
    assert f"columns total variation {statistics.fmean(c.variation(c.cell) for c in counted):.4f} on average" in said
    if means:
        assert f"at worst by {100 * max(means.values()):.2g} %" in said
