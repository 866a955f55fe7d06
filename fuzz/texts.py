"""Cases of texts that are parsed: definitions in SQL, dictionaries, formats of dates, queries, closed pipes."""

# ruff: noqa: E501, SIM905 — lists of words are easier to read in long lines

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from fuzz import kit
from fuzz.case import DATA, DONE, USAGE, Case, random_of

_WORDS = """
create table or replace temporary if not exists t a b "a" `a` [a] 'x' N'x' e'\\'' $$x$$ int decimal(5,1) enum('x','y') enum(x) check ( ) , ;
. * = < > <= >= <> || :: -> and or not null is in (1,null) in (²) between 1 2.5 1e5 0x10 -1 1e400 like case when then else end cast(a as int)
primary key unique references default constraint select with from where join on using left positional asof natural cross union all limit offset
order by group having distinct over ( ) rowid ctid query('select 1') read_csv('x') random() now() count(*) sum(a) abs(a) -- /* */ date '2020-01-01'
interval 3 day at time zone 'UTC' exists(select 1) unnest(a) values (1) lateral recursive qualify tablesample
""".split()
_STARTS = [
    "",
    "create table t (a int, ",
    "create table t (a int check (",
    "select a from t where ",
    "select ",
    "with p as (select 1) ",
]
_MARKS = [
    *(f"%{letter}" for letter in "YymdHIMSfpjaAbBwuUWGVcxXzZ%Qq"),
    "%",
    "-",
    "/",
    " ",
    "T",
    "(",
    "[",
    "\\",
    "+",
    "\0",
    "\u202e",
    "²",
]
_FIELDS = [
    "low",
    "high",
    "type",
    "categories",
    "missing",
    "decimals",
    "scale",
    "format",
    "quantiles",
    "unknown",
    "name",
    "min",
    "dtype",
]
_VALUES = [
    None, True, 0, 1, -1.5, 1e308, 10**39, "", "0", "2020-01-01", "date", "integer", "categorical", "x|y", [], ["a", "b"], [1, 1], {}, "\u202e",
    "%Y%Y", "log",
]  # fmt: skip
_SCHEMA = ["schema", "propose", "--out", "out/schema.json", "--json"]


def sql(random: Random) -> str:
    """Words of SQL in any order, now and then many, nested or cut."""
    chance = random.random()
    if chance < 0.1:
        word, many = (
            random.choice(
                ["check(", "create table a(", "not ", "- ", "(", "case when ", "select (", "9", "'", "a.", "["]
            ),
            random.choice([40, 4000]),
        )
        return random.choice(_STARTS) + word * many + random.choice(["", ")" * many])
    text = random.choice(_STARTS) + " ".join(random.choice(_WORDS) for _ in range(random.randint(1, 40)))
    text += random.choice(["", ")", "))", ");"])
    return text[: random.randint(0, len(text))] if chance < 0.2 else text


def format_of(random: Random) -> object:
    """A format of dates, or what is none."""
    if random.random() < 0.1:
        return random.choice([None, 5, True, [], {}, "%Y" * 5000])
    return "".join(random.choice(_MARKS) for _ in range(random.randint(0, 6)))


def _definition(random: Random, folder: Path) -> list[str]:
    (folder / "in/t.sql").write_text(sql(random))
    return [*_SCHEMA, "--ddl", "in/t.sql", *random.choice([[], ["--table", "t"]])]


def _dictionary(random: Random, folder: Path) -> list[str]:
    said = {
        random.choice(["a", "b", "", "ü", "\u202e"]): {
            random.choice(_FIELDS): random.choice(_VALUES) for _ in range(random.randint(0, 5))
        }
        for _ in range(random.randint(0, 3))
    }
    if random.random() < 0.5:
        (folder / "in/d.json").write_text(json.dumps(said))
        return [*_SCHEMA, random.choice(["--dictionary", "--dtypes"]), "in/d.json"]
    names = random.sample(_FIELDS, random.randint(1, 6))
    rows = [",".join(json.dumps(str(random.choice(_VALUES)), ensure_ascii=False) for _ in names) for _ in range(3)]
    (folder / "in/d.csv").write_text("\n".join([",".join(names), *rows]))
    return [*_SCHEMA, "--dictionary", "in/d.csv"]


def _date_format(random: Random, folder: Path) -> list[str]:
    low, high = random.choice([("2020-01-01", "2020-12-31"), (0, 400), ("", ""), ("2020", "2021"), (None, None)])
    fields = {"type": "date", "low": low, "high": high, "format": format_of(random)}
    (folder / "in/d.json").write_text(json.dumps({"day": fields, "age": {"low": 0, "high": 9}}))
    return [*_SCHEMA, "--dictionary", "in/d.json"]


def _query(random: Random, folder: Path) -> list[str]:
    (folder / "in/q.sql").write_text(sql(random))
    return ["@query", "in/q.sql", random.choice(["duckdb", "postgres"])]


def _closed(random: Random, folder: Path) -> list[str]:
    return [
        "@closed",
        *random.choice(
            [
                ["doctor"],
                ["account", "embedding", "--delta", "1e-5", "--adjacency", "replace-one", "--epsilon", "1"],
                ["--help"],
            ]
        ),
    ]


KINDS = (_definition, _dictionary, _date_format, _query, _closed)


def case(seed: int, number: int) -> Case:
    """One text of one kind; the kinds take turns."""
    arguments: list[str] = []

    def prepare(source: Path, folder: Path) -> None:
        random = random_of(seed, "texts", number)
        (folder / "out").mkdir(parents=True)
        (folder / "in").mkdir(exist_ok=True)
        kit.take(source, folder, [])
        arguments[:] = KINDS[number % len(KINDS)](random, folder)

    return Case("texts", number, arguments, prepare, frozenset({DONE, USAGE, DATA}))
