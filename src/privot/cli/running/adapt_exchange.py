"""`privot adapt` on two machines: `--ask` writes a request, and `--answer` trains on what came back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from privot.cli.parsing.typed_values import read_classes
from privot.cli.records import read_records
from privot.cli.running.adapt_job import AdaptAnswer, PlannedAdaptation, read_held_out

if TYPE_CHECKING:
    from privot.adaptation import DomainAdapter
    from privot.adaptation.adaptation_design import AdaptationDesign
    from privot.adaptation.adaptation_request import AdaptationRequest
    from privot.data.stated_facts import StatedFacts
    from privot.mechanisms.mechanism import Facts
    from privot.release import Release


def write_request(
    context: typer.Context, planned: PlannedAdaptation, records: int | None, path: Path, out: Path
) -> AdaptationRequest:
    """Start the job in `out` and write what it asks to `path`."""
    from privot.adaptation.adaptation_request import AdaptationRequest
    from privot.common.files import is_taken, write_whole
    from privot.errors import DataError, UsageError
    from privot.jobs.job import Job, prepared

    design = planned.design(_public_facts(planned.public[0], records), by_request=True)
    try:
        request = AdaptationRequest.of(design)
    except DataError as error:
        # what a stranger's file may not hold was typed here
        raise UsageError(str(error)) from None
    request.cost()
    # the holder of the target pays for the answer: what could not be trained on it is not asked for
    planned.adapter.rehearse(design, planned.public)
    if is_taken(path) or not path.parent.is_dir():
        raise UsageError(f"{path} exists already, or its folder does not: choose another file for the request.")
    context.with_resource(prepared(out))
    Job.start(out, {"asked": planned.asked, "design": design.to_dict(), "request": request.digest()})
    # it is public, so everybody may read it
    write_whole(path, request.to_bytes(), mode=0o644, fresh=True)
    return request


def _public_facts(x: Any, records: int | None) -> Facts:
    """What is public about a target that is elsewhere: as many columns as the source, and the stated number of rows."""
    from privot.errors import UsageError
    from privot.guarantee import Adjacency
    from privot.mechanisms.mechanism import Facts

    if records is None or records < 2:
        raise UsageError("The number of target records is public and must be stated: give --set records=N, at least 2.")
    return Facts(x.shape[1], records, 1.0, Adjacency.REPLACE_ONE)


def learn_from(
    context: typer.Context,
    answer: Path,
    source: str,
    out: Path,
    *,
    test: str | None,
    trust: list[Path] | None,
    device: str,
    checkpoint: float,
    network: str | None,
    quiet: bool,
) -> AdaptAnswer:
    """Train on an answer to the request of the job in `out`, and leave the model there."""
    from privot.adaptation.source_comparison import leave_comparison, leave_model
    from privot.cli.printing.progress import training_bar
    from privot.jobs.job import Job

    facts = _facts_of_job(out)
    held_out = read_held_out(test, facts)
    job = Job.open(out)
    context.with_resource(job.alone())
    design, request = _asked(job.settings, out)
    release, signer = _read_answer(answer, request, trust)
    public = read_records(source, facts)
    adapter = _adapter(design, device, network)
    with training_bar(design.epsilon, quiet=quiet) as tell:
        adapter.learn(job, release, (public.x, public.y), progress=tell, every=checkpoint)
    accuracy = leave_model(adapter, out, held_out)
    compared = leave_comparison(adapter, out, (public.x, public.y), held_out)
    payer = f"the party that answered, signed {signer[:16]}…"
    return AdaptAnswer(adapter, accuracy, payer, {"signer": signer}, compared=compared)


def _facts_of_job(out: Path) -> StatedFacts:
    """What was stated about the records when the job in `out` began."""
    from privot.data.stated_facts import StatedFacts
    from privot.errors import DataError
    from privot.jobs.job import Job

    said = Job.open(out).settings.get("asked", {})
    classes, shape = (said.get(name) if isinstance(said, dict) else None for name in ("classes", "shape"))
    # an earlier version kept the shape as it was typed
    sides = shape.split(",") if isinstance(shape, str) else shape
    try:
        return StatedFacts(
            None if classes is None else read_classes(classes),
            None if sides is None else tuple(int(side) for side in sides),
        )
    except (TypeError, ValueError, AttributeError):
        raise DataError(f"The job in {out} does not state its classes and shape: restore its job.json.") from None


def _asked(settings: Any, out: Path) -> tuple[AdaptationDesign, AdaptationRequest]:
    """What the job in `out` decided, and the request that follows from it."""
    from privot.adaptation.adaptation_methods import read_design
    from privot.adaptation.adaptation_request import AdaptationRequest
    from privot.errors import DataError

    if "request" not in settings:
        raise DataError(f"The job in {out} has no request: start one with privot adapt --ask.")
    design = read_design(settings.get("design", {}))
    request = AdaptationRequest.of(design)
    if request.digest() != settings["request"]:
        raise DataError(f"The job in {out} was changed after it asked: restore it, or ask again.")
    return design, request


def _read_answer(path: Path, request: AdaptationRequest, trust: list[Path] | None) -> tuple[Release, str]:
    """The release in an answer, and the key that signed it."""
    from privot.adaptation.adaptation_answer import read_answer
    from privot.federation.wire.signing import read_public
    from privot.opening import read_bytes

    trusted = None if not trust else tuple(read_public(key) for key in trust)
    return read_answer(read_bytes(path), request, trusted)


def _adapter(design: AdaptationDesign, device: str, network: str | None) -> DomainAdapter:
    from privot.adaptation import DomainAdapter

    return DomainAdapter(
        design.epsilon, design.delta, method=design.settings, network=network, kind=design.kind, device=device,
        seed=design.seed,
    )  # fmt: skip
