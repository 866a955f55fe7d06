"""Jobs of an earlier version, killed at every point, are read and ended as that version ended them: paid for once.

`recorded_jobs.tar.xz` holds them (`record_jobs.py`), with what the version that began each one made of it afterwards. A
release that needs its noise again can be made again by the versions and the processor that paid, so the mark of that
machine stands here in place of this one's.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from record_jobs import CASES, PYTHON, charges, fitted

from privot.cli import run
from privot.errors import LostReleaseError

pytestmark = pytest.mark.slow

ARCHIVE = Path(__file__).with_name("recorded_jobs.tar.xz")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("recorded")
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(place, filter="data")
    return place


@pytest.fixture
def job(
    recorded: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """What is known of one recorded job, in whose folder the test stands."""
    said: dict[str, Any] = json.loads((recorded / "recorded.json").read_text())
    for part in ("data", request.param):
        shutil.copytree(recorded / part, tmp_path, dirs_exist_ok=True)
    # a ledger's key that others can read is refused, whatever mask this runs under
    for key in tmp_path.glob("*.key"):
        key.chmod(0o600)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "privot.vault.release_steps.arithmetic_mark", lambda readers, tensors=False: said["mark"][str(tensors)]
    )
    return {**said["jobs"][request.param], "name": request.param}


TODAY = {
    "--checkpoint 0": "--set checkpoint=0",
    "--workers 1": "--set workers=1",
    "--records 400": "--set records=400",
    "--steps 40": "--set steps=40",
    "patients.csv --schema patients.json --child visits.csv --child-schema visits.json --parent-key id": (
        "patients.csv visits.csv --schema patients.json --schema visits.json --unit id"
    ),
}
"""What is typed today for what was typed then."""


def ended(job: dict[str, Any], *more: str) -> int:
    """The exit code of going on with a job as a person would."""
    resumed = ["--resume"] if job["words"].startswith(("synth", "adapt")) else []
    words = job["words"]
    for then, now in TODAY.items():
        words = words.replace(then, now)
    return run([*shlex.split(words), *resumed, "--json", *more])


@pytest.mark.gate(17)
@pytest.mark.parametrize("job", CASES, indirect=True)
def test_a_recorded_job_ends_with_the_charges_it_had_to_make(job: dict[str, Any], capsys: Any) -> None:
    assert charges() == job["charged"]
    assert ended(job) == job["code_again"], capsys.readouterr().err
    assert charges() == job["charged_again"]
    said = capsys.readouterr().out
    if job["name"].startswith(("mean", "compare")) and sum(job["charged"].values()):
        # the very release that was paid for
        found, before = json.loads(said), json.loads(job["out_again"])
        assert found["paid_before"] is True
        value = "estimate" if job["name"].startswith("mean") else "raw"
        assert found[value] == pytest.approx(before[value], rel=1e-9)
    if job["code_again"] == 0:
        # nothing is left to be paid: the same once more
        if Path("out").exists():
            assert ended(job) == 0
            assert charges() == job["charged_again"]
    else:
        assert "allow a second charge" in job["err_again"]


@pytest.mark.parametrize("job", PYTHON, indirect=True)
def test_a_recorded_job_of_python_ends_with_one_charge(job: dict[str, Any]) -> None:
    assert charges() == job["charged"]
    data, kind, _ = PYTHON[job["name"]]
    if job["code_again"]:
        with pytest.raises(LostReleaseError):
            fitted(data, kind)()
    else:
        fitted(data, kind)()
        assert {path.name for path in Path("out").iterdir()} >= {"job.json"}
    assert charges() == {"book.ledger": 1}


def test_every_recorded_job_is_looked_at(recorded: Path) -> None:
    assert set(json.loads((recorded / "recorded.json").read_text())["jobs"]) == {*CASES, *PYTHON}
    assert os.stat(ARCHIVE).st_size < 1 << 20
