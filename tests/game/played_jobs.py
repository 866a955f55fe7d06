"""The jobs that the neighbour game is played with: worst-case neighbours, through the commands and names people use.

Run as a program it plays them all, or those whose names hold a word that is given, and prints the table of the results:

    python tests/game/played_jobs.py [WORD …] [postgresql://…] [tcp://… (a Dask scheduler)]
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from neighbour_game import HEAD, Job, play

from privot.cli import run
from privot.federation.wire.signing import public_name
from privot.kinds import Files

ADD, REPLACE = "add-remove", "replace-one"
QUICK = "--samples 40 --seed 1 --device cpu".split()
AGE = {"name": "age", "type": "integer", "low": 0, "high": 99}
CITY = {"name": "city", "type": "categorical", "categories": ["Ulm", "Bonn"], "missing": True}
ILL = {"name": "ill", "type": "boolean", "categories": ["no", "yes"]}
SCHEMA: dict[str, Any] = {"label": "ill", "columns": [AGE, CITY, ILL]}


def terms(adjacency: str = ADD) -> list[str]:
    """What every job may cost."""
    return ["--epsilon", "2", "--delta", "1e-6", "--adjacency", adjacency]


def commands(*lines: list[str]) -> Callable[[], Any]:
    """The exit codes of some commands, one after another."""
    return lambda: [run(line) for line in lines]


# --- tables


def visits(count: int = 60) -> list[str]:
    """The rows that both neighbours have."""
    dice = random.Random(0)
    return [
        f"{dice.randrange(20, 80)},{dice.choice(['Ulm', 'Bonn'])},{dice.choice(['no', 'yes'])}" for _ in range(count)
    ]


def write(path: Path, head: str, rows: list[str]) -> None:
    """A CSV file."""
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")


def table(folder: Path, second: bool, odd: str = "99,,yes") -> None:
    """A table whose second neighbour lacks one record: the only one at the end of the range, and of no city."""
    write(folder / "data.csv", "age,city,ill", [*visits(), *([] if second else [odd])])
    (folder / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")


def stays(folder: Path, second: bool) -> None:
    """Stays, which are learned in place of the day they end; the second neighbour lacks the longest one."""
    dice = random.Random(0)
    first = [dice.randrange(1, 20) for _ in range(60)]
    rows = [f"2024-01-{a:02},2024-01-{a + dice.randrange(8):02},{dice.choice(['no', 'yes'])}" for a in first]
    write(folder / "data.csv", "admitted,discharged,ill", [*rows, *([] if second else ["2024-01-01,2024-12-31,yes"])])
    ends = {"type": "date", "low": "2024-01-01", "high": "2024-12-31"}
    columns = [{"name": "admitted", **ends}, {"name": "discharged", **ends}, ILL]
    apart = {"kind": "difference", "column": "discharged", "minus": "admitted"}
    (folder / "schema.json").write_text(json.dumps({"columns": columns, "constraints": [apart]}), encoding="utf-8")


def units(folder: Path, second: bool) -> None:
    """Visits of twenty patients; the second neighbour lacks one patient, who has more rows than take part."""
    rows = [f"patient {place % 20},{row}" for place, row in enumerate(visits())]
    write(folder / "data.csv", "patient_id,age,city,ill", [*rows, *([] if second else ["planted,99,,yes"] * 5)])
    (folder / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")


def related(folder: Path, second: bool) -> None:
    """Patients and their visits; the second neighbour lacks one patient with more visits than take part."""
    dice = random.Random(0)
    patients = [f"patient {number},{dice.choice(['no', 'yes'])}" for number in range(40)]
    stays = [f"patient {dice.randrange(40)},{dice.choice('ab')}" for _ in range(80)]
    write(folder / "patients.csv", "patient_id,ill", [*patients, *([] if second else ["planted,yes"])])
    write(folder / "visits.csv", "patient_id,ward", [*stays, *([] if second else ["planted,b"] * 7)])
    (folder / "patients.json").write_text(json.dumps({"columns": [ILL]}), encoding="utf-8")
    ward = {"name": "ward", "type": "categorical", "categories": ["a", "b"]}
    (folder / "visits.json").write_text(json.dumps({"columns": [ward]}), encoding="utf-8")


def parts(folder: Path, second: bool, form: str, unit: bool = False) -> None:
    """The table of `table` or `units` in three files; the second neighbour's last one lacks the record."""
    (units if unit else table)(folder, second)
    head, *rows = (folder / "data.csv").read_text(encoding="utf-8").splitlines()
    (folder / "data.csv").unlink()
    (folder / "parts").mkdir()
    for number in range(3):
        cut = rows[30 * number : 30 * number + 30 if number < 2 else None]
        write(folder / f"parts/{number}.csv", head, cut)
        if form == "parquet":
            from pyarrow import csv, parquet

            read = csv.ConvertOptions(strings_can_be_null=True)
            held = csv.read_csv(folder / f"parts/{number}.csv", convert_options=read)
            parquet.write_table(held.cast(_types(held)), folder / f"parts/{number}.parquet")
            (folder / f"parts/{number}.csv").unlink()


def _types(held: Any) -> Any:
    import pyarrow as pa

    return pa.schema([(name, pa.int64() if name == "age" else pa.string()) for name in held.column_names])


def duckdb(folder: Path, second: bool) -> None:
    """The table of `table` in a DuckDB file."""
    import duckdb

    table(folder, second)
    with duckdb.connect(str(folder / "data.db")) as database:
        database.execute(f"CREATE TABLE visits AS SELECT * FROM read_csv('{folder / 'data.csv'}')")
    (folder / "data.csv").unlink()


def postgresql(address: str, folder: Path, second: bool) -> None:
    """The table of `table` on a running server."""
    from adbc_driver_postgresql import dbapi

    table(folder, second)
    rows = [line.split(",") for line in (folder / "data.csv").read_text(encoding="utf-8").splitlines()[1:]]
    told = [f"({age}, NULLIF('{city}', ''), '{ill}')" for age, city, ill in rows]
    (folder / "data.csv").unlink()
    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS visits")
        cursor.execute("CREATE TABLE visits (age integer, city text, ill text)")
        cursor.execute(f"INSERT INTO visits VALUES {', '.join(told)}")
        connection.commit()


def synth(data: str, *more: str) -> list[str]:
    """One synthesis of a table."""
    return ["synth", data, "--schema", "schema.json", *terms(), *QUICK, *more, "--out", "made"]


def summary(kind: str, *more: str) -> Job:
    """One simple number, kept in a file."""
    words = ["release", kind, "data.csv", "--schema", "schema.json", *terms(), "--out", "number.npz", *more]
    return Job(f"release {kind}", ADD, table, commands(words))


PARTS = ["--set", "workers=1", "--ledger", "data.ledger"]
QUERY = ["--query", "SELECT age, city, ill FROM visits", "--set", "partitions=3"]
UNIT = ["--unit", "patient_id", "--per-unit", "3"]
TABLES = "patients.csv visits.csv --unit patient_id --per-unit 3".split()
SUMMARIES = (
    summary("count"),
    summary("mean", "--column", "age"),
    summary("histogram", "--column", "city"),
    summary("quantile", "--column", "age"),
)
TABLE = Job(
    "synth of a table", ADD, table, commands(synth("data.csv"), ["sample", "made", "-n", "9", "--out", "s.csv"])
)
UNITS = f"{ADD} of one patient, at most 3 rows"
FAMILY = f"{ADD} of one patient with at most 3 visits"
RELATED = ["synth", *TABLES, "--schema", "patients.json", "--schema", "visits.json", *terms(), *QUICK]


def partitioned(name: str, place: str, lay: Callable[[Path, bool], None], *more: str, adjacency: str = ADD) -> Job:
    """Synthesis of partitioned data, which lie beside no ledger."""
    return Job(f"synth of {name}", adjacency, lay, commands(synth(place, *PARTS, *more)), private=("parts", "data.db"))


def of_server(address: str) -> Job:
    """A table on a server of PostgreSQL."""
    return partitioned("PostgreSQL", address, partial(postgresql, address), *QUERY)


def of_dask(address: str) -> tuple[Job, ...]:
    """Partitions that the workers of a running Dask scheduler read, of records and of units."""
    asked = ["--set", "engine=dask", "--set", f"scheduler={address}"]
    parquet, csv = (partial(parts, form="parquet"), partial(parts, form="csv", unit=True))
    return (
        partitioned("Parquet parts on Dask", "parts/*.parquet", parquet, *asked),
        partitioned("CSV parts by unit on Dask", "parts/*.csv", csv, *asked, *UNIT, adjacency=UNITS),
    )


KINDS = (
    Job("synth of stays", ADD, stays, commands(synth("data.csv"))),
    Job("synth of a table by unit", UNITS, units, commands(synth("data.csv", *UNIT))),
    Job("synth of related tables", FAMILY, related, commands([*RELATED, "--out", "made"])),
    partitioned("CSV parts", "parts/*.csv", partial(parts, form="csv")),
    partitioned("Parquet parts", "parts/*.parquet", partial(parts, form="parquet")),
    partitioned("CSV parts by unit", "parts/*.csv", partial(parts, form="csv", unit=True), *UNIT, adjacency=UNITS),
    partitioned("DuckDB", "duckdb://data.db", duckdb, *QUERY),
)

# --- frames: what people read with their own reader, whose dtypes follow from the records


def framed(library: str, odd: str = "99,,yes") -> Job:
    """A DataFrame goes in, and one comes out, with its dtypes."""

    def synthesise() -> Any:
        from privot import Ledger, Schema, Synthesizer, Vault
        from privot.tables import TableCodec

        schema = Schema.load("schema.json")
        with Ledger.create("data.ledger") as ledger:
            vault = Vault.open(
                Files(_read(library), label="frame"), schema, adjacency=ADD, budget=(2.0, 1e-6), ledger=ledger
            )
            made = Synthesizer(2.0, 1e-6, seed=1, device="cpu", kind=TableCodec(schema)).fit(vault)
            made.save(Path("made"))
        return {"frame": made.sample(20, seed=2), "again": Synthesizer.load("made").sample(20, seed=2)}

    return Job(f"a frame of {library}, where {odd!r} is one record", ADD, partial(framing, odd=odd), synthesise)


def _read(library: str) -> Any:
    if library == "pandas":
        import pandas

        return pandas.read_csv("data.csv", keep_default_na=False, na_values=[""])
    if library == "Polars":
        import polars

        return polars.read_csv("data.csv", infer_schema_length=None)
    from pyarrow import csv

    return csv.read_csv("data.csv")


def framing(folder: Path, second: bool, odd: str) -> None:
    """Columns that readers take for whole numbers, dates and truth values unless one cell is odd."""
    dice = random.Random(1)
    word = {"type": "categorical", "missing": True}
    columns = [
        AGE | {"missing": True},
        {"name": "grade", "categories": [1, 2, 3], **word},
        {"name": "seen", "type": "date", "low": "2020-01-01", "high": "2024-12-31", "missing": True},
        {"name": "ill", "type": "boolean", "missing": True, "categories": ["false", "true"]},
    ]
    (folder / "schema.json").write_text(json.dumps({"columns": columns}), encoding="utf-8")
    rows = [
        f"{dice.randrange(20, 80)},{dice.randrange(1, 4)},202{dice.randrange(5)}-05-01,{dice.choice(['true', 'false'])}"
        for _ in range(60)
    ]
    write(folder / "data.csv", "age,grade,seen,ill", [*rows, *([] if second else [odd])])


LIBRARIES = ("pandas", "Polars", "Arrow")
FRAMES = tuple(framed(library, odd) for library in LIBRARIES for odd in ("99,?,2024-12-31,true", "?,3,?,?"))
MORE_FRAMES = tuple(framed(library, odd) for library in LIBRARIES for odd in ("99,,,", "99.5,3,2024-12-31,true"))

# --- vectors and images


def vectors(folder: Path, second: bool, adjacency: str = ADD, columns: int = 2) -> None:
    """Two clouds, and a record in a corner of class 1: the second neighbour's lies in the other corner, of class 0."""
    y = np.arange(60) % 2
    x = np.clip(0.3 + 0.4 * y[:, None] + 0.05 * np.random.default_rng(0).standard_normal((60, columns)), 0, 1)
    if adjacency == ADD:
        odd, label = (np.zeros((0, columns)), []) if second else (np.ones((1, columns)), [1])
    else:
        odd, label = (np.zeros((1, columns)), [0]) if second else (np.ones((1, columns)), [1])
    np.savez(folder / "data.npz", x=np.concatenate([x, odd]), y=np.concatenate([y, label]).astype(np.int64))


def pictures(folder: Path, second: bool, side: int = 8, colour: bool = False) -> None:
    """Images by class; the second neighbour lacks a white one, the only one of its class."""
    from PIL import Image

    dice = np.random.default_rng(0)
    for number in range(40):
        name = "ab"[number % 2]
        (folder / "data" / name).mkdir(parents=True, exist_ok=True)
        shape = (side, side, 3) if colour else (side, side)
        Image.fromarray(dice.integers(0, 200, shape, dtype=np.uint8)).save(folder / f"data/{name}/{number}.png")
    if not second:
        (folder / "data/rare").mkdir()
        Image.fromarray(np.full((side, side, 3) if colour else (side, side), 255, dtype=np.uint8)).save(
            folder / "data/rare/white.png"
        )


def flat(folder: Path, second: bool, side: int, colour: bool = False, adjacency: str = ADD) -> None:
    """Images as rows of an array, with 30 public ones beside them."""
    shape = (side, side, 3) if colour else (side, side)
    size = int(np.prod(shape))
    dice = np.random.default_rng(0)
    x, y = 0.8 * dice.random((40, *shape)), np.arange(40) % 2
    x[y == 0, : side // 2] += 0.2
    odd = np.zeros((0, *shape)) if second and adjacency == ADD else np.full((1, *shape), 0.0 if second else 1.0)
    np.savez(
        folder / "data.npz", x=np.concatenate([x, odd]).reshape(-1, size), y=np.append(y, [1 - int(second)] * len(odd))
    )
    np.savez(folder / "public.npz", x=dice.random((30, size)), y=np.arange(30) % 2)


def trained(data: str, *more: str, adjacency: str = ADD, steps: str = "3") -> list[str]:
    """One short training of a generator."""
    return ["synth", data, *terms(adjacency), *QUICK, "--set", f"steps={steps}", *more, "--out", "made"]


PLAIN = ["--classes", "2", "--range", "0,1"]
GREY, RGB = [*PLAIN, "--shape", "8,8"], [*PLAIN, "--shape", "16,16,3"]


def methods(name: str, *more: str, adjacency: str) -> Job:
    """A method of synthesis on vectors."""
    words = trained("data.npz", *PLAIN, "--method", name, *more, adjacency=adjacency)
    return Job(f"synth --method {name}", adjacency, partial(vectors, adjacency=adjacency), commands(words))


EMBEDDING = tuple(methods("embedding", adjacency=adjacency) for adjacency in (ADD, REPLACE))
METHODS = (
    methods("sinkhorn", adjacency=ADD),
    methods("sinkhorn", adjacency=REPLACE),
    methods("sliced", adjacency=REPLACE),
    methods("sinkhorn-parameters", adjacency=ADD),
)
IMAGES = (
    Job(
        "synth of a folder of images",
        ADD,
        pictures,
        commands(trained("data", "--classes", "a,b,rare", "--shape", "8,8", "--range", "0,255")),
        private=("data",),
    ),
    Job(
        "synth with public images",
        ADD,
        partial(flat, side=8),
        commands(trained("data.npz", *GREY, "--set", "public=public.npz")),
    ),
)


def encoded(folder: Path, second: bool, adjacency: str = ADD) -> None:
    """Colour images, and two public networks."""
    import torch
    from torch import nn

    flat(folder, second, 16, colour=True, adjacency=adjacency)
    torch.manual_seed(1)
    for name, channels in (("encoder", 6), ("labels", 4)):
        network = nn.Sequential(
            nn.Conv2d(3, channels, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(9 * channels, 8)
        ).eval()
        batch = torch.export.Dim("batch", min=2, max=4096)
        example = (torch.zeros(2, 3, 8, 8),)
        torch.export.save(torch.export.export(network, example, dynamic_shapes=({0: batch},)), folder / f"{name}.pt2")


ENCODER = ["--encoder", "encoder.pt2", "--set", "encoder_size=8"]
LABELS = ["--set", "label_encoder=labels.pt2", "--set", "label_encoder_size=8"]
JOINED = ["sample", "made", "-n", "20", "--joined", "0.5", "--seed", "1", "--out", "joined.npz"]
ENCODERS = (
    Job("synth with an encoder", ADD, encoded, commands(trained("data.npz", *RGB, *ENCODER))),
    Job(
        "synth with a label encoder, and joined samples",
        ADD,
        encoded,
        commands(trained("data.npz", *RGB, *ENCODER, *LABELS), JOINED),
    ),
)

# --- adaptation, comparison, sketches


def pair(folder: Path, second: bool, columns: int = 2, adjacency: str = REPLACE) -> None:
    """A public source, and private records as in `vectors`."""
    vectors(folder, second, adjacency, columns)
    y = np.arange(80) % 2
    x = np.clip(0.25 + 0.4 * y[:, None] + 0.05 * np.random.default_rng(1).standard_normal((80, columns)), 0, 1)
    np.savez(folder / "public.npz", x=x, y=y)


def tables(folder: Path, second: bool) -> None:
    """A public table, and a private one of which one record is replaced by the one furthest from it."""
    table(folder, False, "0,Ulm,no" if second else "99,,yes")
    write(folder / "public.csv", "age,city,ill", visits(80)[::-1])


def adapt(name: str, lay: Callable[[Path, bool], None], *more: str, data: str = "npz") -> Job:
    """A classifier for private records."""
    words = ["adapt", f"public.{data}", f"data.{data}", *terms(REPLACE), "--seed", "1", "--device", "cpu", *more]
    return Job(f"adapt, {name}", REPLACE, lay, commands([*words, "--out", "made"]))


def settings(**values: Any) -> list[str]:
    """Settings as they are typed."""
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


SHORT = settings(warmup=3, finish=3, check=3, members=1, samples=40, generator=3, fit=3)
RANGE = ["--range", "0,1"]
ADAPTATION = (
    adapt("stand-in", pair, *RANGE, "--method", "stand-in", *SHORT),
    adapt("stand-in on tables", tables, "--schema", "schema.json", *settings(samples=60), data="csv"),
    adapt("embedding", pair, *RANGE, "--method", "embedding", *settings(fit=3, finish=3)),
    adapt("sliced", pair, *RANGE, "--method", "sliced", *settings(steps=3)),
)


def compared(folder: Path, second: bool, adjacency: str = REPLACE) -> None:
    """A private side, whose record lies on one end of the ball and is replaced by its opposite; and another side."""
    pair(folder, second, 5, adjacency)
    for name in ("data", "public"):
        with np.load(folder / f"{name}.npz") as held:
            np.save(folder / f"{name}.npy", 2.0 * held["x"] - 1.0)
    # a key follows from entropy that is not Python's
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    told = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "a.key").write_bytes(told)
    (folder / "a.key").chmod(0o600)
    (folder / "a.key.pub").write_text(public_name(key) + "\n", encoding="utf-8")


SWD = ["compare", "data.npy", "public.npy", "--method", "dp-swd", *terms(REPLACE), "--clip", "1", "--slices", "5"]


def sketched(adjacency: str, *design: str) -> Job:
    """A sketch that is signed, and then compared with that of public data."""
    names = (("data.npy", "a.sketch"), ("public.npy", "b.sketch"))
    made = [["sketch", x, *terms(adjacency), "--key", "a.key", "--out", out, *design] for x, out in names]
    told = ["compare", "a.sketch", "b.sketch", "--trust", "a.key.pub"]
    lay = partial(compared, adjacency=adjacency)
    return Job(f"sketch {design[0]}, and compare", adjacency, lay, commands(*made, told))


SKETCHES = (
    sketched(REPLACE, "--prototypes", "public.npy"),
    sketched(ADD, "--radius", "3"),
    Job("compare --method dp-swd", REPLACE, compared, commands([*SWD, "--public", "b"])),
    Job("compare --method dp-swd, both private", REPLACE, compared, commands([*SWD, "--json"])),
)
FAST = (*SUMMARIES, TABLE, *KINDS, *EMBEDDING, *IMAGES, *SKETCHES)
SLOW = (*METHODS, *ENCODERS, *ADAPTATION)
ALL = (*FAST, *FRAMES, *MORE_FRAMES, *SLOW)


def main() -> None:
    """Play all jobs that are named, and those on servers of which the address is given, and print what came out."""
    servers = [word for word in sys.argv[1:] if "://" in word]
    words = [word for word in sys.argv[1:] if word not in servers]
    wanted = (
        [] if servers and not words else [job for job in ALL if not words or any(word in job.name for word in words)]
    )
    for address in servers:
        wanted += [of_server(address)] if address.startswith("postgresql") else of_dask(address)
    print(HEAD)
    for job in wanted:
        with tempfile.TemporaryDirectory() as folder:
            print(play(job, Path(folder)).line(), flush=True)


if __name__ == "__main__":
    main()
