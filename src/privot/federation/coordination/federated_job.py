"""A coordinator's job, read from a TOML file: a protocol, its parameters, and the parties with their keys.

version = 1
protocol = "sketch"             # or triangle, fedwad
wait = 120                      # seconds to wait for answers in each round
seed = 0                        # seed of all public random numbers

[sketch]
epsilon = 1.0
delta = 1e-5
adjacency = "replace-one"
prototypes = "public.npz"       # PUBLIC rows; or: dim = 64, range = [0.0, 1.0]; or: dim = 64, radius = 8.0
classes = 10                    # only for labelled sketches

[interpolants]                  # triangle and fedwad
dim = 64
points = 200                    # number of random γ
rounds = 5                      # fedwad
t = 0.5                         # or "random" (fedwad)
p = 2.0
defence = "constant"            # or "random" (triangle)
labels = false

[[party]]
name = "north clinic"
signer = "9f…"                  # its public key (signing.key.pub)
node = "north.pub"              # its node's public key (node.key.pub), for Flower
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privot.data.loading import load
from privot.errors import DataError, UsageError
from privot.federation.coordination.requests import MAX_ROUNDS, PROTOCOLS
from privot.federation.protocols.answering import Steps
from privot.federation.protocols.fedwad import fedwad_steps
from privot.federation.protocols.triangle import defence_points, triangle_steps
from privot.federation.sketches.sketch_order import Order
from privot.federation.toml_tables import TomlTable
from privot.federation.wire.messages import MAX_BYTES, MAX_COLUMNS
from privot.federation.wire.signing import MAX_KEY
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign
from privot.opening import read_text

VERSION = 1


@dataclass(frozen=True)
class Member:
    """A party of a job: its name in reports, its signing key, and its node's key where there are nodes."""

    name: str
    signer: str
    node: str = ""


@dataclass(frozen=True, eq=False)
class FederatedJob:
    """A protocol among parties: `order` is for sketches, `dim` and what follows it for interpolants."""

    protocol: str
    members: tuple[Member, ...]
    wait: float = 60.0
    seed: int = 0
    order: Order | None = None
    dim: int = 0
    points: int = 0
    rounds: int = 1
    t: float | str = 0.5
    p: float = 2.0
    defence: str = "constant"
    labels: bool = False

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS or (self.order is None) == (self.protocol == "sketch"):
            raise UsageError(
                f"A job needs one of the protocols {', '.join(PROTOCOLS)}, and the table of that protocol."
            )
        keys = [m.signer for m in self.members]
        if len(keys) < 2 or len(set(keys)) != len(keys) or len({m.name for m in self.members}) != len(keys):
            raise UsageError("A job needs at least two parties, each with its own name and key.")
        if not 1 <= self.rounds < MAX_ROUNDS:
            raise UsageError(f"The number of rounds must be from 1 to {MAX_ROUNDS - 1}.")
        if not 0.0 < self.wait <= 1e6:
            raise UsageError("The time to wait for answers must be greater than 0 and at most 1e6 seconds.")
        sent = 8 * self.space * (1 if self.protocol == "triangle" and self.defence == "constant" else self.points)
        if sent > MAX_BYTES or self.space > MAX_COLUMNS:
            why = f", because labels take {self.space} columns" if self.labels else ""
            raise UsageError(
                f"One question of this job has {sent} bytes, at most {MAX_BYTES} are sent{why}: use fewer columns or "
                "points."
            )

    @classmethod
    def read(cls, path: Path) -> FederatedJob:
        """Read the file; raises `DataError` for what is unknown, missing or out of range."""
        top = TomlTable.read(path, "job", VERSION, {"protocol", "wait", "seed", "sketch", "interpolants", "party"})
        protocol, seed = top.take("protocol", str), top.take("seed", int, 0)
        common = {"protocol": protocol, "wait": top.take("wait", float, 60.0), "seed": seed}
        common["members"] = tuple(_member(path.parent, entry) for entry in top.take("party", list))
        if protocol == "sketch":
            return cls(**common, order=_order(path.parent, top.take("sketch", dict), seed))
        known = {"dim", "points", "rounds", "t", "p", "defence", "labels"}
        table = TomlTable("[interpolants]", top.take("interpolants", dict), known)
        share = table.stated.get("t", 0.5)
        return cls(
            **common,
            dim=table.take("dim", int),
            points=table.take("points", int, 1),
            rounds=table.take("rounds", int, 1),
            t=share if share == "random" else table.take("t", float, 0.5),
            p=table.take("p", float, 2.0),
            defence=table.take("defence", str, "constant"),
            labels=table.take("labels", bool, False),
        )

    def to_json(self) -> str:
        """Everything that defines the job, as text: two jobs are the same if their texts are."""
        facts = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("members", "order", "wait")
        }
        facts["members"] = [[m.name, m.signer, m.node] for m in self.members]
        facts["order"] = None if self.order is None else self.order.digest()
        return json.dumps(facts, sort_keys=True)

    def steps(self, pair: tuple[int, int]) -> Steps:
        """The protocol between two of the parties; its random numbers come from the seed and the pair."""
        like = np.zeros((max(1, self.points), self.space))
        if self.protocol == "triangle":
            return triangle_steps(defence_points(self.defence, like, self.seed), float(self.t), self.p)
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=pair))
        gamma = generator.standard_normal(like.shape)
        share: Any = self.t
        return fedwad_steps(gamma, self.rounds, self.p, t=share, generator=generator)

    @property
    def space(self) -> int:
        """Columns of the points; label statistics add a mean and a covariance matrix."""
        return 2 * self.dim + self.dim**2 if self.labels else self.dim


def _member(here: Path, entry: Any) -> Member:
    table = TomlTable("[[party]]", entry, {"name", "signer", "node"})
    node = table.take("node", str, "")
    try:
        key = read_text(here / node, most=MAX_KEY).strip() if node else ""
    except (OSError, ValueError):
        raise DataError(f"There is no node key file {node!r} in the folder of the job.") from None
    return Member(table.take("name", str), table.take("signer", str), key)


def _order(here: Path, entry: Any, seed: int) -> Order:
    known = {"epsilon", "delta", "adjacency", "prototypes", "dim", "range", "radius", "classes"}
    table = TomlTable("[sketch]", entry, known)
    ways = [name for name in ("prototypes", "range", "radius") if name in entry]
    if len(ways) != 1:
        raise DataError("[sketch] must state exactly one of: prototypes; dim and range; dim and radius.")
    if ways == ["prototypes"]:
        name = table.take("prototypes", str)
        design = SketchDesign.around(load(name if name == "digits" else here / name, classes=0).x, seed=seed)
    elif ways == ["range"]:
        span = table.take("range", list)
        if len(span) != 2 or not all(isinstance(v, int | float) for v in span):
            raise DataError("The range in [sketch] must be [low, high].")
        design = SketchDesign.box(table.take("dim", int), float(span[0]), float(span[1]), seed=seed)
    else:
        design = SketchDesign.plain(table.take("dim", int), table.take("radius", float), seed=seed)
    classes = table.take("classes", int, 0)
    return Order(
        design.labelled(classes) if classes else design,
        table.take("epsilon", float),
        table.take("delta", float),
        Adjacency.parse(table.take("adjacency", str)),
    )
