"""`privot audit`: attack a mechanism, a release, a guarantee, a folder or a transcript; it reads nobody's records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.output import number, print_json, print_table

if TYPE_CHECKING:
    from privot.audit.attack import Attack
    from privot.audit.findings import Findings
    from privot.audit.membership import Membership

MECHANISMS = ("projection", "gradient", "embedding", "counts", "parameters", "sketch")
TARGET = "projection, gradient, embedding, counts, parameters, sketch; one-run; implementation; all; or a path"


def audit(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=TARGET + ": a folder of privot synth, a release …")],
    adjacency: Annotated[str | None, typer.Option(help="replace-one or add-remove; a mechanism needs it.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of the mechanism's noise …")] = None,
    epsilon: Annotated[float | None, typer.Option(help="… or the ε it is calibrated to.")] = None,
    delta: Annotated[float, typer.Option(help="δ of the claim.")] = 1e-5,
    clip: Annotated[float | None, typer.Option(help="Public bound on norms.")] = None,
    dim: Annotated[int, typer.Option(help="Dimension (projection).")] = 16,
    slices: Annotated[
        int | None, typer.Option(help="Directions (projection); as many as dimensions unless given.")
    ] = None,
    frame: Annotated[str, typer.Option(help="orthogonal or independent (projection).")] = "orthogonal",
    records: Annotated[int | None, typer.Option(help="Records of the data sets that are made.")] = None,
    batch: Annotated[int | None, typer.Option(help="Records a step; all of them unless given.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of one run, each on a fresh sample.")] = 1,
    classes: Annotated[int, typer.Option(help="Classes of the records (sketch); 0: no labels.")] = 0,
    canaries: Annotated[int, typer.Option(help="Canaries (one-run).")] = 1000,
    runs: Annotated[int | None, typer.Option(help="Runs of the mechanism itself, a data set.")] = None,
    trials: Annotated[int, typer.Option(help="Trials of its noise and sampler, a data set.")] = 1_000_000,
    confidence: Annotated[float, typer.Option(help="With which what is measured holds.")] = 0.95,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Attack it: an empirical lower bound on ε beside the claimed upper bound; exit code 7 if the claim is refuted.

    Example: privot audit embedding --epsilon 1 --adjacency add-remove
    Example: privot audit digits-synth
    """
    from privot.audit.findings import broken
    from privot.errors import RefutedError

    where = _device(device)
    terms: dict[str, Any] = {"trials": trials, "confidence": confidence}
    extra: dict[str, Any] = {}
    tests: list[Membership] = []
    if target in MECHANISMS:
        attack = _attack(
            target,
            adjacency=adjacency,
            sigma=sigma,
            epsilon=epsilon,
            delta=delta,
            clip=clip,
            dim=dim,
            slices=slices,
            frame=frame,
            records=records,
            batch=batch,
            steps=steps,
            classes=classes,
            device=where,
        )
        findings = _play([attack], runs, **terms)
    elif target == "all":
        from privot.audit.standard import composed_releases, single_releases

        findings = _play([*single_releases(delta, where), *composed_releases(delta, where)], runs, **terms)
    elif target == "implementation":
        from privot.audit.implementation import audit_implementation

        findings = audit_implementation(trials=min(trials, 400_000))
    elif target == "one-run":
        findings, extra = [], _one_run(sigma, delta, batch, records, steps, canaries, clip, confidence)
    else:
        findings, tests = _path(Path(target), runs, trials, confidence, where)
    lost = broken(findings) + (["one-run"] if extra.get("one_run", {}).get("refuted") else [])
    answer = {
        "target": target,
        "findings": [f.to_dict() for f in findings],
        "membership": [t.to_dict() for t in tests],
        **extra,
        "refuted": lost,
    }
    if as_json:
        print_json(answer)
    else:
        _say(findings, tests, extra)
    if lost:
        raise RefutedError(f"The audit refutes {len(lost)} of its subjects: {', '.join(lost)[:300]}. See its findings.")


def _device(name: str) -> str:
    if name == "cpu":
        return name
    from privot.synthesis.design import usable_device

    return usable_device(name)


def _play(attacks: list[Attack], runs: int | None, *, trials: int, confidence: float) -> Findings:
    from privot.audit.attack import audit as play
    from privot.audit.standard import usual_runs, usual_trials

    found: Findings = []
    for attack in attacks:
        count = usual_runs(attack) if runs is None else runs
        many = min(trials, usual_trials(attack))
        found.append(play(attack, runs=count, trials=many, confidence=confidence))
    return found


def _attack(name: str, **said: Any) -> Attack:
    """The attack on one mechanism, with σ found from ε where that is given."""
    from privot.accounting import embedding, gradient, projection
    from privot.audit.embeddings import EmbeddingAttack
    from privot.audit.gradients import GradientAttack
    from privot.audit.parameters import ParametersAttack
    from privot.audit.projections import ProjectionAttack
    from privot.errors import UsageError
    from privot.guarantee import Adjacency

    if said["adjacency"] is None:
        raise UsageError("Say who are neighbours: --adjacency replace-one or add-remove; there is no default.")
    if (said["sigma"] is None) == (said["epsilon"] is None):
        raise UsageError("Say either --sigma or --epsilon.")
    adjacency = Adjacency.parse(said["adjacency"])
    delta, batch, steps, device = said["delta"], said["batch"], said["steps"], said["device"]
    if name == "sketch":
        if batch is not None or steps != 1:
            raise UsageError("A sketch is released once, of all records: leave out --batch and --steps.")
        return _sketch_attack(adjacency, said)
    if name in ("embedding", "counts"):
        if batch is not None or steps != 1:
            raise UsageError("An embedding is released once, of all records: leave out --batch and --steps.")
        plan = embedding(adjacency=adjacency, delta=delta, sigma=said["sigma"], epsilon=said["epsilon"])
        more: dict[str, Any] = (
            {"labels": True, "count_weight": 0.9, "title": "class counts"} if name == "counts" else {}
        )
        return EmbeddingAttack(plan.sigma, delta, adjacency, device=device, **more)
    usual = {"projection": (0.5, 4), "gradient": (0.01, 12), "parameters": (1.0, 5)}[name]
    clip = said["clip"] or usual[0]
    records = said["records"] or max(usual[1], batch or 0)
    terms = {
        "adjacency": adjacency,
        "delta": delta,
        "sigma": said["sigma"],
        "epsilon": said["epsilon"],
        "records": records if batch is not None else None,
        "batch": batch,
        "steps": steps,
        "clip": clip,
    }
    if name == "projection":
        dim, slices, frame = said["dim"], said["slices"] or said["dim"], said["frame"]
        made = projection(dim, slices, frame=frame, **terms)
        return ProjectionAttack(dim, slices, made.sigma, delta, clip, frame, records, batch, steps, device=device)
    made = gradient(clipping="whole" if name == "gradient" else "per-example", **terms)
    sampling = _sampling(adjacency, records, batch)
    kind = GradientAttack if name == "gradient" else ParametersAttack
    return kind(made.sigma, delta, sampling, clip, records, steps, device=device)


def _sketch_attack(adjacency: Any, said: dict[str, Any]) -> Attack:
    from privot.accounting import Gaussian, calibrate
    from privot.audit.sketches import SketchAttack, worst_design
    from privot.errors import UsageError

    dim, sigma = said["dim"], said["sigma"]
    if dim < 2 or said["classes"] < 0:
        raise UsageError("A sketch to be attacked needs --dim 2 or more, and --classes 0 or more.")
    if sigma is None:
        bound = worst_design(dim).sensitivity(adjacency)
        sigma = calibrate(lambda s: Gaussian(s, bound, adjacency), epsilon=said["epsilon"], delta=said["delta"])
    terms = {"dim": dim, "records": said["records"] or 3, "device": said["device"]}
    return SketchAttack(sigma, said["delta"], adjacency, said["classes"], **terms)


def _sampling(adjacency: Any, records: int, batch: int | None) -> Any:
    from privot.accounting.plans import choose_sampling
    from privot.accounting.sampling import FixedSize, Poisson
    from privot.guarantee import Adjacency

    found = choose_sampling(adjacency, records, batch)
    if found is not None:
        return found
    return Poisson(1.0) if adjacency is Adjacency.ADD_REMOVE else FixedSize(records, records)


def _one_run(
    sigma: float | None,
    delta: float,
    batch: int | None,
    records: int | None,
    steps: int,
    canaries: int,
    clip: float | None,
    confidence: float,
) -> dict[str, Any]:
    from privot.audit.one_run import one_run
    from privot.errors import UsageError

    if sigma is None or canaries < 10:
        raise UsageError("An audit by one run needs --sigma, and at least 10 canaries.")
    rate = 1.0 if batch is None else batch / (records or canaries)
    found = one_run(
        sigma, delta, rate=min(rate, 1.0), steps=steps, canaries=canaries, clip=clip or 1.0, confidence=confidence
    )
    return {"one_run": found.to_dict()}


def _path(
    path: Path, runs: int | None, trials: int, confidence: float, device: str
) -> tuple[Findings, list[Membership]]:
    """What lies there: a folder, a guarantee, a release or a transcript."""
    import zipfile

    from privot.errors import UsageError

    if path.is_dir():
        from privot.audit.exchanges import audit_exchange, is_exchange

        if is_exchange(path):
            return audit_exchange(path, trials=trials, confidence=confidence, device=device), []
        from privot.audit.folders import RUNS, audit_folder

        findings, tests, _ = audit_folder(
            path, runs=RUNS if runs is None else runs, trials=trials, confidence=confidence, device=device
        )
        return findings, tests
    if not path.exists():
        raise UsageError(f"There is no mechanism and no file called {str(path)!r}: say {TARGET}.")
    if path.suffix == ".json":
        from privot.audit.releases import audit_guarantee, read_guarantee_file

        return audit_guarantee(read_guarantee_file(path), trials=trials, confidence=confidence, device=device), []
    if zipfile.is_zipfile(path) and "release.json" in zipfile.ZipFile(path).namelist():
        from privot.audit.releases import audit_release

        count = 1000 if runs is None else runs
        return audit_release(path, runs=count, trials=trials, confidence=confidence, device=device)[0], []
    from privot.federation.signing import SEAL

    if zipfile.is_zipfile(path) and SEAL in zipfile.ZipFile(path).namelist():
        from privot.audit.exchanges import audit_sketch
        from privot.federation.sketching import Sketch

        return audit_sketch(Sketch.load(path), trials=trials, confidence=confidence, device=device), []
    from privot.audit.transcripts import audit_transcript, read_transcript

    return [audit_transcript(*read_transcript(path))], []


def _say(findings: Findings, tests: list[Membership], extra: dict[str, Any]) -> None:
    from privot.audit.findings import Finding

    rows = []
    for f in findings:
        if not isinstance(f, Finding):
            continue
        trials = [str(m.trials) for m in (f.real, f.core) if m is not None]
        if_gaussian = "–" if f.if_gaussian is None else number(f.if_gaussian, 4)
        what = f"δ {f.claim.delta:g}, {f.claim.adjacency}, {f.claim.standing}"
        verdict = "REFUTED" if f.refuted else "holds"
        rows.append(
            [f.name, number(f.claim.epsilon, 4), number(f.epsilon, 4), if_gaussian, what, " + ".join(trials), verdict]
        )
    if rows:
        print_table(["attack", "claimed ε ≤", "ε ≥", "if Gaussian ≥", "of what", "trials", "verdict"], rows)
        typer.echo("")
    said = [[f.name, "passed" if f.passed else "FAILED", f.detail] for f in findings if not isinstance(f, Finding)]
    if said:
        print_table(["check", "verdict", "detail"], said)
        typer.echo("")
    if tests:
        guesses = [
            [
                t.name,
                f"{t.auc:.3f} ({t.auc_interval[0]:.3f} to {t.auc_interval[1]:.3f})",
                f"{100 * t.copied:.1f} % of members, {100 * t.copied_others:.1f} % of others",
                f"{number(t.epsilon, 3)} at δ {t.delta:g}, add-remove",
            ]
            for t in tests
        ]
        print_table(["generator and test", "AUC", "near-copies", "ε ≥"], guesses)
    if "one_run" in extra:
        run = extra["one_run"]
        print_table(
            ["attack", "claimed ε ≤", "ε ≥", "of what", "guesses"],
            [
                [
                    run["name"],
                    number(run["claimed"]["epsilon"], 4),
                    number(run["measured"]["epsilon"], 4),
                    f"δ {run['claimed']['delta']:g}, {run['claimed']['adjacency']}, {run['claimed']['standing']}",
                    f"{run['right']} of {run['guesses']} right",
                ]
            ],
        )
