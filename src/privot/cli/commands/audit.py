"""`privot audit`: attack a mechanism, a release, a guarantee, a folder or a transcript; it reads nobody's records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.output import number, print_json, print_table

if TYPE_CHECKING:
    from privot.audit.attack import Attack
    from privot.audit.attacks.membership import Membership
    from privot.audit.findings import Findings

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
    as_json: AsJson = False,
) -> None:
    """Attack it: an empirical lower bound on ε beside the claimed upper bound; exit code 7 if the claim is refuted.

    Examples: privot audit embedding --epsilon 1 --adjacency add-remove; privot audit digits-synth;
    privot audit implementation
    """
    from privot.audit.findings import broken
    from privot.cli.printing.progress import audit_bar
    from privot.common.extras import require
    from privot.errors import RefutedError

    if target in ("all", "implementation"):
        # some of their attacks need it: said now, not after minutes of others
        require("This audit needs", "torch", "torch")
    where = _device(device)
    terms: dict[str, Any] = {"trials": trials, "confidence": confidence}
    extra: dict[str, Any] = {}
    tests: list[Membership] = []
    with audit_bar(quiet=as_json, still=target == "implementation") as tell:
        tell(target, 0, 0)
        if target in MECHANISMS:
            from privot.cli.attacks import attack_on

            attack = attack_on(
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
            findings = _play([attack], runs, tell, **terms)
        elif target == "all":
            from privot.audit.standard_attacks import composed_releases, single_releases

            attacks = [*single_releases(delta, where), *composed_releases(delta, where)]
            findings = _play(attacks, runs, tell, **terms)
        elif target == "implementation":
            from privot.audit.implementation.code_audit import audit_implementation

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


def _play(
    attacks: list[Attack], runs: int | None, tell: Callable[[str, int, int], None], *, trials: int, confidence: float
) -> Findings:
    from privot.audit.attack import run_attack as play
    from privot.audit.standard_attacks import usual_runs, usual_trials

    found: Findings = []
    for done, attack in enumerate(attacks):
        tell(attack.name, done, len(attacks))
        count = usual_runs(attack) if runs is None else runs
        many = min(trials, usual_trials(attack))
        found.append(play(attack, runs=count, trials=many, confidence=confidence))
    return found


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
    from privot.audit.attacks.one_run import one_run
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
    from privot.errors import UsageError
    from privot.opening.archives import members_of

    if path.is_dir():
        from privot.audit.targets.exchange import audit_exchange, is_exchange

        if is_exchange(path):
            return audit_exchange(path, trials=trials, confidence=confidence, device=device), []
        from privot.audit.targets.synth_folder import RUNS, audit_folder

        findings, tests, _ = audit_folder(
            path, runs=RUNS if runs is None else runs, trials=trials, confidence=confidence, device=device
        )
        return findings, tests
    if not path.exists():
        raise UsageError(f"There is no mechanism and no file called {str(path)!r}: say {TARGET}.")
    if path.suffix == ".json":
        from privot.audit.targets.release_file import audit_guarantee, read_guarantee_file

        return audit_guarantee(read_guarantee_file(path), trials=trials, confidence=confidence, device=device), []
    if "release.json" in members_of(path):
        from privot.audit.targets.release_file import audit_release

        count = 1000 if runs is None else runs
        return audit_release(path, runs=count, trials=trials, confidence=confidence, device=device)[0], []
    from privot.federation.wire.signing import SEAL

    if SEAL in members_of(path):
        from privot.audit.targets.exchange import audit_sketch
        from privot.federation.sketches.signed_sketch import Sketch

        return audit_sketch(Sketch.load(path), trials=trials, confidence=confidence, device=device), []
    from privot.audit.targets.transcript import audit_transcript, read_transcript

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
        verdict = "REFUTED" if f.refuted else "not refuted"
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
