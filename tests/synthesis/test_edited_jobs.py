"""A job folder that somebody edited is refused in one sentence, or goes on and is charged for what it releases.

Whatever a field is set to, three things hold after a resume: the ledger holds what was released; the stated guarantee
counts no less than the charges that the folder was made from; and the budget refuses what it would have refused.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from killed_jobs import Killed, killed_at
from synthesis_samples import rules, toy

from privot.accounting import account
from privot.accounting.events import Composed
from privot.errors import BudgetError, DataError, PrivotError
from privot.jobs.charges import charges
from privot.jobs.job import Job
from privot.jobs.run import Run
from privot.jobs.tensor_files import read_tensors, write_tensors
from privot.ledger import Ledger
from privot.synthesis import Synthesizer
from privot.synthesis.planner import read_design
from privot.vault import Vault
from synthesis_asked import flat

DELTA, GONE = 1e-5, object()
STREAMED = {"steps": 6, "blocks": 3, "batch": 10, "points": 4}
DESIGN = ("settings", "design")


def opened(place: Path, budget: float = 30.0) -> tuple[Ledger, Vault]:
    x, y = toy(40)
    ledger = Ledger.open(place / "ledger") if (place / "ledger").exists() else Ledger.create(place / "ledger")
    held = {"classes": 2, "clip": 1.0, "adjacency": "replace-one", "label": "toy"}
    return ledger, Vault(x, y, ledger=ledger, budget=(budget, DELTA), **held)  # type: ignore[arg-type]


def asked(method: str) -> Synthesizer:
    given: dict[str, Any] = {"rules": rules(2)} if method == "embedding" else {"options": STREAMED}
    return Synthesizer(5.0, DELTA, **flat(seed=1, device="cpu", method=method, records=40, **given))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Jobs killed with their release on disk, before it was on disk, and in the second of three blocks."""
    places = {name: tmp_path_factory.mktemp(name) for name in ("kept", "lost", "blocks")}
    moments = {"kept": "privot.synthesis.methods.embedding_method.train", "lost": "privot.release.Release.save"}
    for name, target in moments.items():
        with killed_at(target):
            asked("embedding").fit(opened(places[name])[1], folder=places[name] / "out")

    def in_the_second(step: int, *_: Any) -> None:
        if step >= 4:
            raise Killed

    with pytest.raises(Killed):
        asked("sinkhorn").fit(opened(places["blocks"])[1], folder=places["blocks"] / "out", progress=in_the_second)
    return places


def edited(fields: dict[str, Any], where: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(fields)
    place: Any = changed
    for key in where[:-1]:
        place = place[key]
    if value is GONE:
        del place[where[-1]]
    else:
        place[where[-1]] = value
    return changed


def fields_of(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield (*at, key), value
            yield from fields_of(value, (*at, key))


def wrong(where: tuple[Any, ...], old: Any) -> list[Any]:
    """What a field is set to."""
    if where[-1] in ("steps", "learning_rate", "latent", "hidden", "low", "high"):
        return ["x"]  # a huge training would only take long
    if isinstance(old, float):
        return [2.0 * old, old / 2.0, 1e308, -1, "x"]
    if isinstance(old, int):
        return [old + 1, 10**400, "x"]
    return [GONE, 7] if isinstance(old, dict) else ["add-remove"] if isinstance(old, str) else ["x"]


def resume(place: Path, from_file: bool, budget: float = 30.0) -> tuple[Synthesizer | PrivotError, Ledger]:
    """What a resume gives or says; with `from_file` even the options are taken from the folder."""
    ledger, vault = opened(place, budget)
    try:
        if not from_file:
            method = json.loads((place / "asked").read_text())
            return asked(method).fit(vault, folder=place / "out", pay_again=True), ledger
        job = Job.open(place / "out")
        asker = Synthesizer.from_params(job.settings.get("params", {}), "cpu")
        return asker.run(Run(job, lambda: vault, charges(ledger), vault.ledger, True)), ledger
    except PrivotError as error:
        return error, ledger


def copied(killed: dict[str, Path], name: str, tmp_path: Path) -> Path:
    place = tmp_path / "job"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(killed[name], place)
    (place / "asked").write_text(json.dumps("sinkhorn" if name == "blocks" else "embedding"))
    return place


def check(outcome: Synthesizer | PrivotError, ledger: Ledger, before: int, what: str) -> None:
    entries = ledger.entries()
    if isinstance(outcome, PrivotError):
        assert "\n" not in str(outcome), what
        assert len(entries) == before, what
        return
    name = [entry.purpose.split("(job ")[1][:16] for entry in entries][-1]
    own = [entry.event for entry in entries if name in entry.purpose]
    # of an embedding only the last release is in the folder
    own = own if outcome.method == "sinkhorn" else own[-1:]
    need = account(Composed(tuple(own)), DELTA).epsilon()
    held = account(Composed(tuple(entry.event for entry in entries)), DELTA).epsilon()
    stated = outcome.guarantee_.epsilon(DELTA)
    assert need * (1.0 - 1e-9) <= stated <= held * (1.0 + 1e-9), what
    assert str(outcome.guarantee_.adjacency) == "replace-one", what


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kept", "lost"])
def test_no_field_of_a_job_makes_it_pay_less_or_state_less(
    name: str, killed: dict[str, Path], tmp_path: Path, whole_run: bool
) -> None:
    fields = json.loads((killed[name] / "out" / "job.json").read_text())
    for number, (where, old) in enumerate(fields_of(fields)):
        # a job that has its release pays nothing more: fewer values say as much
        values = wrong(where, old)[: 2 if name == "kept" else None]
        for value in values if whole_run else values[number % len(values) :][:1]:
            place = copied(killed, name, tmp_path)
            (place / "out" / "job.json").write_text(json.dumps(edited(fields, where, value)))
            outcome, ledger = resume(place, from_file=number % 2 == 0 or "params" in where)
            check(outcome, ledger, 1, f"{name} {where} {value!r}")
            ledger.close()


def test_a_budget_that_refuses_is_not_talked_round_by_a_job(killed: dict[str, Path], tmp_path: Path) -> None:
    """ε = 5 of 30 is spent; a job that says it was asked for 5,000 does not get it."""
    fields = json.loads((killed["lost"] / "out" / "job.json").read_text())
    fields = edited(fields, ("settings", "params", "epsilon"), 5000.0)
    place = copied(killed, "lost", tmp_path)
    (place / "out" / "job.json").write_text(json.dumps(edited(fields, (*DESIGN, "sigma"), 0.05)))
    outcome, ledger = resume(place, from_file=True)
    assert isinstance(outcome, BudgetError)
    assert len(ledger.entries()) == 1


def test_a_release_and_its_job_changed_to_agree_are_refused_by_the_ledger(
    killed: dict[str, Path], tmp_path: Path
) -> None:
    """Twice the noise in both files: they agree, and state a smaller ε than was spent."""
    place = copied(killed, "kept", tmp_path)
    fields = json.loads((place / "out" / "job.json").read_text())
    sigma = fields["settings"]["design"]["sigma"]
    (place / "out" / "job.json").write_text(json.dumps(edited(fields, (*DESIGN, "sigma"), 2.0 * sigma)))
    release = place / "out" / "release.npz"
    with zipfile.ZipFile(release) as archive:
        held = {item: archive.read(item) for item in archive.namelist()}
    facts = next(item for item in held if item.endswith(".json"))
    text = held[facts].decode().replace(str(sigma), str(2.0 * sigma))
    # the noise of sums and counts follows from it: a release that states another is refused before the ledger is asked
    twice = re.sub(r'("(?:sums|counts)_sigma": )([0-9.e-]+)', lambda m: m[1] + repr(2.0 * float(m[2])), text)
    assert twice != text
    held[facts] = twice.encode()
    with zipfile.ZipFile(release, "w") as archive:
        for item, content in held.items():
            archive.writestr(item, content)
    for from_file in (True, False):
        outcome, _ = resume(place, from_file)
        assert isinstance(outcome, DataError)
        assert "charged for another event" in str(outcome)


@pytest.mark.parametrize("checkpoint", ["kept", "removed", "agrees"])
@pytest.mark.parametrize(
    "changes",
    [{("mechanism", "sigma"): 2.0}, {("rules", "options", "blocks"): 2, ("mechanism", "steps"): 0.5}],
    ids=["noise", "blocks"],
)
def test_blocks_already_charged_are_not_counted_as_others(
    checkpoint: str, changes: dict[tuple[str, ...], float], killed: dict[str, Path], tmp_path: Path
) -> None:
    place = copied(killed, "blocks", tmp_path)
    fields = json.loads((place / "out" / "job.json").read_text())
    for where, factor in changes.items():
        old: Any = fields["settings"]["design"]
        for key in where:
            old = old[key]
        fields = edited(fields, (*DESIGN, *where), type(old)(factor * old))
    (place / "out" / "job.json").write_text(json.dumps(fields))
    path = place / "out" / "checkpoint.safetensors"
    if checkpoint == "removed":
        path.unlink()
    elif checkpoint == "agrees":
        tensors, facts = read_tensors(path)
        design: Any = read_design(fields["settings"]["design"], asked("sinkhorn").config, "cpu")
        agreeing = account(design.block(design.facts), DELTA).to_dict()
        write_tensors(path, tensors, {**facts, "guarantee": agreeing, "rules": design.rules.to_dict()})
    ledger, _ = opened(place)
    before = len(ledger.entries())
    outcome, ledger = resume(place, from_file=True)
    assert isinstance(outcome, DataError), outcome
    assert len(ledger.entries()) == before
