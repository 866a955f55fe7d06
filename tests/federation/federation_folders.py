"""Folders of parties and coordinators for tests: keys, policies, data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from privot.federation.coordination.federated_job import FederatedJob, Member
from privot.federation.parties.enrolment import make_coordinator, make_party
from privot.federation.sketches.sketch_order import Order
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign

D = 5
DESIGN = SketchDesign.plain(D, 6.0, directions=4)
ORDER = Order(DESIGN, 1.0, 1e-5, Adjacency.REPLACE_ONE)


def records(k: int, n: int = 80) -> np.ndarray:
    """The records of party k: clouds that lie apart."""
    return np.random.default_rng(k).normal(size=(n, D)) + 1.5 * k


def coordinator(folder: Path) -> str:
    return make_coordinator(folder, ["127.0.0.1", "localhost"])


def party(folder: Path, k: int, asker: str, *, budget: float = 1.0, rules: str | None = None) -> Member:
    """Party k in `folder`: its vault, open points of the same kind, and a policy that allows all three protocols."""
    signer = make_party(folder, f"party {k}")
    np.savez(folder / "records.npz", x=records(k), y=np.arange(80) % 3)
    np.savez(folder / "open.npz", x=records(k)[:30], y=np.arange(30) % 3)
    if rules is None:
        rules = "".join(
            f'[[allow]]\nprotocol = "{protocol}"\naskers = ["{asker}"]\nrequests = 20\ndays = 1\n'
            + ("epsilon = 1.0\ndelta = 1e-5\n" if protocol == "sketch" else "allow_unproven = true\n")
            for protocol in ("sketch", "triangle", "fedwad")
        )
    (folder / "policy.toml").write_text(
        f'version = 1\nname = "party {k}"\n'
        f'[data]\nfile = "records.npz"\nledger = "records.ledger"\nadjacency = "replace-one"\n'
        f'epsilon = {budget}\ndelta = 1e-5\nclasses = 3\n[open]\nfile = "open.npz"\n{rules}'
    )
    return Member(f"party {k}", signer, (folder / "node.key.pub").read_text().strip())


def job(members: list[Member], protocol: str, wait: float = 60.0, order: Order = ORDER) -> FederatedJob:
    if protocol == "sketch":
        return FederatedJob(protocol, tuple(members), wait, order=order)
    share = "random" if protocol == "fedwad" else 0.5
    return FederatedJob(protocol, tuple(members), wait, dim=D, points=30, rounds=2, t=share, defence="random")
