"""Valid inputs of every kind, made once by privot itself; every case starts from copies of some of them.

One record carries a number that occurs nowhere else (`SENTINEL`): no message may repeat it.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

SENTINEL = "0.47114711"
TERMS = ["--epsilon", "5", "--delta", "1e-5", "--adjacency", "replace-one"]
QUICK = ["--seed", "1", "--device", "cpu"]
ROWS = ["synth", "in/a.npz", *TERMS, *QUICK, "--classes", "2", "--range", "0,1", "--samples", "20"]
SYNTH = {
    "rows": [*ROWS, "--set", "steps=4"],
    "sinkhorn": [*ROWS, "--method", "sinkhorn", "--set", "steps=4", "--set", "blocks=2"],
    "sliced": [*ROWS, "--method", "sliced", "--set", "steps=4", "--set", "blocks=2", "--set", "slices=2"],
    "table": ["synth", "in/table.csv", *TERMS, *QUICK, "--schema", "in/schema.json", "--samples", "20"],
}
ADAPT = ["adapt", "in/source.npz", "in/target.npz", "--epsilon", "5", "--delta", "1e-5", *QUICK, "--range", "0,1"]
ADAPT += ["--set", "fit=3", "--set", "finish=10"]
ASK = ["adapt", "in/source.npz", *ADAPT[3:], "--ask", "in/request.json", "--set", "records=40"]
SCHEMA: dict[str, Any] = {
    "label": "ill",
    "columns": [
        {"name": "age", "type": "integer", "low": 0, "high": 99},
        {"name": "dose", "type": "continuous", "low": 0, "high": 1},
        {"name": "city", "type": "categorical", "categories": ["Ulm", "Bonn"], "missing": True},
        {"name": "seen", "type": "date", "low": "2020-01-01", "high": "2024-12-31"},
        {"name": "ill", "type": "boolean", "categories": ["no", "yes"]},
    ],
}


def build(kit: Path) -> None:
    """Fill `kit`; takes about a minute. The folder is the current one while commands run."""
    kit.mkdir(parents=True, exist_ok=True)
    here = Path.cwd()
    os.chdir(kit)
    try:
        Path("in").mkdir()
        _data()
        _tables()
        # first: a data set that a ledger guards gets no second one beside it
        _sketches()
        _jobs()
        _organisations()
    finally:
        os.chdir(here)


def take(kit: Path, case: Path, names: list[str]) -> None:
    """Copy these files and folders of the kit to where they lie in a case."""
    for name in names:
        source, target = kit / name, case / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
            for beside in source.parent.glob(source.name + "[.-]*") if name.endswith(".ledger") else []:
                shutil.copy2(beside, target.with_name(beside.name))


def _run(*arguments: str, code: int = 0) -> None:
    from privot.cli import run

    found = run(list(arguments))
    if found != code:
        raise SystemExit(f"The kit cannot be made: privot {' '.join(arguments)} ended with {found}.")


def _data() -> None:
    import numpy as np
    from PIL import Image

    dice = np.random.default_rng(0)
    y = np.arange(40) % 2
    for name, shift in (("a", 0.0), ("b", 0.1), ("source", 0.0), ("target", 0.1)):
        x = np.clip(0.25 + 0.4 * y[:, None] + shift + 0.05 * dice.standard_normal((40, 4)), 0, 1)
        x[7, 1] = float(SENTINEL)
        np.savez(f"in/{name}.npz", x=x, y=y)
    np.save("in/a.npy", x)
    lines = ["p,q,r,s,label", *(",".join(repr(float(v)) for v in [*row, int(c)]) for row, c in zip(x, y, strict=True))]
    Path("in/a.csv").write_text("\n".join(lines) + "\n")
    Path("in/a.csv.gz").write_bytes(gzip.compress(Path("in/a.csv").read_bytes()))
    pixels = dice.integers(0, 256, size=(20, 4, 4), dtype=np.uint8)
    head = b"\x00\x00\x08\x03" + b"".join(n.to_bytes(4, "big") for n in pixels.shape)
    Path("in/train-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
    labels = bytes(k % 2 for k in range(20))
    Path("in/train-labels-idx1-ubyte").write_bytes(b"\x00\x00\x08\x01" + (20).to_bytes(4, "big") + labels)
    for k in range(6):
        folder = Path("in/pictures") / "uv"[k % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[k]).save(folder / f"{k}.png")
    words = np.array(["oak", "elm", "ash", "fir", "yew", "fig", "pine", "cedar", "larch", "maple", "birch", "beech"])
    np.savez("in/words.npz", words=words, vectors=dice.standard_normal((12, 3)))
    Path("in/a.txt").write_text("oak elm ash fir\n")
    Path("in/b.txt").write_text("yew fig pine cedar\n")
    np.savez("in/transcript.npz", points=x[:9], towards=x[9:18], t=0.5)


def _tables() -> None:
    lines = ["age,dose,city,seen,ill"]
    for k in range(60):
        dose = SENTINEL if k == 7 else repr(k / 60)
        lines.append(f"{20 + k},{dose},{('Ulm', 'Bonn', '')[k % 3]},2021-0{1 + k % 9}-11,{('no', 'yes')[k % 2]}")
    Path("in/table.csv").write_text("\n".join(lines) + "\n")
    Path("in/table.csv.gz").write_bytes(gzip.compress(Path("in/table.csv").read_bytes()))
    Path("in/schema.json").write_text(json.dumps(SCHEMA))
    parts = [
        "[[columns]]\n" + "\n".join(f"{n} = {json.dumps(v)}" for n, v in column.items()) for column in SCHEMA["columns"]
    ]
    Path("in/schema.toml").write_text('label = "ill"\n' + "\n".join(parts) + "\n")
    hints = {c["name"]: {n: v for n, v in c.items() if n != "name"} for c in SCHEMA["columns"]}
    Path("in/dictionary.json").write_text(json.dumps(hints))
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.csv.read_csv("in/table.csv"), "in/table.parquet")


def _jobs() -> None:
    for name, words in SYNTH.items():
        _run(*words, "--ledger", f"in/{name}.ledger", "--out", f"out/{name}")
    _run(*ADAPT, "--ledger", "in/adapted.ledger", "--out", "out/adapted")
    _run(*ASK, "--out", "out/asked")
    answer = ["answer", "in/request.json", "in/target.npz", "--epsilon", "5", "--delta", "1e-5"]
    _run(*answer, "--ledger", "in/answering.ledger", "--key", "in/answer.key", "--out", "in/answer.release")
    _run("sample", "out/rows", "-n", "30", "--out", "in/made.npz")
    _run("sample", "out/table", "-n", "30", "--out", "in/made.csv")
    shutil.copy2("out/rows/release.npz", "in/release.npz")
    shutil.copy2("out/rows/guarantee.json", "in/guarantee.json")
    _run("ledger", "init", "in/book.ledger", "--data", "in/a.npz", *TERMS)


def _sketches() -> None:
    for name in "ab":
        more = ["--range", "0,1", "--classes", "2", "--key", f"in/{name}.key"]
        _run("sketch", f"in/{name}.npz", *TERMS, *more, "--out", f"in/{name}.sketch")


def _organisations() -> None:
    import numpy as np

    from privot.federation.coordination.coordinator import Coordinator
    from privot.federation.coordination.federated_job import FederatedJob
    from privot.federation.coordination.local_channel import LocalChannel
    from privot.federation.parties.desk import Desk
    from privot.federation.wire.signing import read_key, read_public

    _run("federate", "setup", "in/hub", "--host", "127.0.0.1")
    asker = read_public(Path("in/hub/signing.key.pub"))
    parties = []
    for k in range(2):
        folder = Path(f"in/party{k}")
        _run("federate", "enrol", str(folder), "--name", f"party {k}")
        x = np.random.default_rng(k).normal(size=(30, 4)) + k
        np.savez(folder / "records.npz", x=x, y=np.arange(30) % 2)
        np.savez(folder / "open.npz", x=x[:12] + 1.0, y=np.arange(12) % 2)
        rules = "".join(
            f'[[allow]]\nprotocol = "{protocol}"\naskers = ["{asker}"]\nrequests = 20\ndays = 1\n'
            + ("epsilon = 1.0\ndelta = 1e-5\n" if protocol == "sketch" else "allow_unproven = true\n")
            for protocol in ("sketch", "triangle", "fedwad")
        )
        (folder / "policy.toml").write_text(
            f'version = 1\nname = "party {k}"\n[data]\nfile = "records.npz"\nledger = "records.ledger"\n'
            f'adjacency = "replace-one"\nepsilon = 1.0\ndelta = 1e-5\nclasses = 2\n[open]\nfile = "open.npz"\n{rules}'
        )
        signer = read_public(folder / "signing.key.pub")
        parties.append(f'[[party]]\nname = "party {k}"\nsigner = "{signer}"\nnode = "party{k}/node.key.pub"\n')
    shapes = {
        "sketch": '[sketch]\nepsilon = 1.0\ndelta = 1e-5\nadjacency = "replace-one"\ndim = 4\nrange = [-4.0, 4.0]\n',
        "triangle": '[interpolants]\ndim = 4\npoints = 12\ndefence = "random"\n',
        "fedwad": '[interpolants]\ndim = 4\npoints = 12\nrounds = 2\nt = "random"\n',
    }
    for protocol, said in shapes.items():
        text = f'version = 1\nprotocol = "{protocol}"\nwait = 5\nseed = 0\n{said}' + "".join(parties)
        Path(f"in/{protocol}.toml").write_text(text)
        desks = [Desk(f"in/party{k}") for k in range(2)]

        def heard(desk: Desk, protocol: str, number: int) -> Any:
            def answer(data: bytes) -> bytes:
                found = desk.handle(data)
                Path(f"in/{protocol}.request").write_bytes(data)
                Path(f"in/{protocol}.answer").write_bytes(found)
                return found

            return answer

        channel = LocalChannel({desk.name: heard(desk, protocol, k) for k, desk in enumerate(desks)})
        coordinator = Coordinator(f"in/{protocol}-done", read_key(Path("in/hub/signing.key")), channel)
        coordinator.run(FederatedJob.read(Path(f"in/{protocol}.toml")))
        coordinator.close()
        for desk in desks:
            desk.close()


def traps(case: Path) -> None:
    """What hostile paths name: empty and unreadable files, folders, links that lead nowhere, a pipe, endless zeros."""
    inside = case / "in"
    inside.mkdir(exist_ok=True)
    (inside / "folder").mkdir(exist_ok=True)
    (inside / "folder" / "file").write_text("kept\n")
    (inside / "empty").write_bytes(b"")
    (inside / "text").write_text("not what you think\n")
    os.mkfifo(inside / "fifo")
    (inside / "zero").symlink_to("/dev/zero")
    (inside / "loop").symlink_to("loop")
    (inside / "nowhere").symlink_to("nothing-there")
    (inside / "unreadable").write_text("x")
    (inside / "unreadable").chmod(0)
    (inside / "unwritable").mkdir(exist_ok=True)
    (inside / "unwritable").chmod(0o555)
