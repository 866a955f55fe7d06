"""`privot audit` on what parties really sent: interpolants reveal their records, sketches do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federation_folders import coordinator, job, party, records

from privot.audit.attacks.reconstruction import invert_shared
from privot.audit.findings import broken
from privot.audit.targets.exchange import audit_exchange, audit_interpolants, audit_sketch, recorded
from privot.cli import run
from privot.errors import DataError
from privot.federation import Sketch, sketch
from privot.federation.coordination.coordinator import Coordinator
from privot.federation.coordination.local_channel import LocalChannel
from privot.federation.parties.desk import Desk
from privot.federation.protocols.answering import drive, local_party
from privot.federation.protocols.fedwad import fedwad_steps
from privot.federation.protocols.triangle import defence_points, triangle_steps
from privot.federation.wire.signing import read_key
from privot.vault import Vault


def exchange(folder: Path, protocol: str) -> Path:
    """The folder of a coordinator after one job with two parties."""
    asker = coordinator(folder / "coordinator")
    members = [party(folder / str(k), k, asker) for k in range(2)]
    desks = [Desk(folder / str(k)) for k in range(2)]
    key = read_key(folder / "coordinator" / "signing.key")
    at = Coordinator(folder / "work", key, LocalChannel({desk.name: desk.handle for desk in desks}))
    try:
        at.run(job(members, protocol))
    finally:
        at.close()
        for desk in desks:
            desk.close()
    return folder / "work"


@pytest.mark.parametrize("protocol", ["fedwad", "triangle"])
def test_interpolants_between_machines_are_inverted(protocol: str, tmp_path: Path, capsys: Any) -> None:
    work = exchange(tmp_path, protocol)
    assert run(["audit", str(work), "--json"]) == 7
    said = json.loads(capsys.readouterr().out)
    assert len(said["refuted"]) == 2
    assert all("30 records" in f["detail"] for f in said["findings"])


def test_sketches_between_machines_are_not_refuted(tmp_path: Path, capsys: Any) -> None:
    work = exchange(tmp_path, "sketch")
    assert run(["audit", str(work), "--trials", "60000", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    played = [f for f in said["findings"] if f["kind"] == "mechanism"]
    assert len(played) == 2
    assert all(0.0 < f["measured"]["epsilon"] <= f["claimed"]["epsilon"] <= 1.0 + 1e-9 for f in played)
    assert {f["claimed"]["standing"] for f in played} == {"proven"}
    # one sketch by itself, as a file
    (first, *_) = sorted((work / "sketches").iterdir())
    assert run(["audit", str(first), "--trials", "60000", "--json"]) == 0
    assert "added on a grid" in capsys.readouterr().out


def test_a_folder_without_answers_is_refused(tmp_path: Path) -> None:
    for part in ("sent", "got"):
        (tmp_path / part).mkdir()
    with pytest.raises(DataError, match="There is no answer in"):
        audit_exchange(tmp_path, trials=100)


def test_every_message_of_a_round_that_is_inverted_is_the_partys_own() -> None:
    x, y = records(0, 40), records(1, 40)
    for steps in (
        fedwad_steps(np.random.default_rng(0).standard_normal(x.shape), 3, generator=np.random.default_rng(1)),
        triangle_steps(defence_points("random", x, 0)),
    ):
        heard: list[Any] = []
        drive(steps, recorded(local_party(x), heard), local_party(y))
        assert not audit_interpolants("x", heard).passed
        for question, said in heard:
            np.testing.assert_allclose(invert_shared(said.points, question.towards, question.t), x, atol=1e-9)


def test_a_sketch_with_noise_off_the_grid_is_found() -> None:
    vault = Vault(records(0), clip=1.0, adjacency="add-remove", budget=(10.0, 1e-5))
    made = sketch(vault, epsilon=1.0, delta=1e-5, radius=6.0)
    assert broken(audit_sketch(made, trials=20_000)) == []
    plain = {name: block + 1e-9 * np.pi for name, block in made.value.items()}
    found = broken(audit_sketch(Sketch(plain, made.guarantee, made.public), trials=20_000))
    assert sorted(found) == [f"the noise of the {name} was added on a grid" for name in ("features", "shells")]
