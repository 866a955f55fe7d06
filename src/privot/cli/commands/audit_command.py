"""`privot audit`: attack a mechanism, a release, a guarantee, a folder or a transcript; it reads nobody's records.

Only `privot audit protocol A B` reads records, of data sets that --open states to be open.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import (
    AsJson,
    EncoderFile,
    OpenData,
    OptionalEpsilon,
    OptionalNeighbours,
    Shape,
    ValueRange,
    WordVectorFile,
)
from privot.cli.printing.printed_answer import number, print_json, print_table
from privot.cli.running.audit_runs.audit_by_target import TARGET

if TYPE_CHECKING:
    from privot.audit.attacks.membership import Membership
    from privot.audit.findings import Findings
    from privot.cli.running.audit_runs.protocol_audit import ProtocolAnswer


def audit(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=TARGET + ": a folder of privot synth, a release …")],
    data: Annotated[
        list[str] | None, typer.Argument(metavar="[A B]", help="Two open data sets, or texts (protocol).")
    ] = None,
    adjacency: OptionalNeighbours = None,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of the noise, in place of --epsilon.")] = None,
    epsilon: OptionalEpsilon = None,
    delta: Annotated[float, typer.Option(help="Target delta, between 0 and 1.")] = 1e-5,
    clip: Annotated[float | None, typer.Option(help="Public bound on norms.")] = None,
    dim: Annotated[int, typer.Option(help="Number of columns (projection).")] = 16,
    slices: Annotated[
        int | None, typer.Option(help="Number of directions (projection). Default: one per column.")
    ] = None,
    frame: Annotated[str, typer.Option(help="Directions: orthogonal or independent (projection).")] = "orthogonal",
    records: Annotated[int | None, typer.Option(help="Number of records in the data sets that are made.")] = None,
    batch: Annotated[int | None, typer.Option(help="Records per step. Default: all.")] = None,
    steps: Annotated[int, typer.Option(help="Steps per run, each on a fresh sample.")] = 1,
    classes: Annotated[int, typer.Option(help="Number of classes (sketch); 0: without labels.")] = 0,
    canaries: Annotated[int, typer.Option(help="Number of canaries (one-run).")] = 1000,
    runs: Annotated[int | None, typer.Option(help="Runs of the mechanism per data set.")] = None,
    trials: Annotated[int, typer.Option(help="Trials of the noise and the sampler per data set.")] = 1_000_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the measured bound.")] = 0.95,
    encoder: EncoderFile = None,
    device: Annotated[str, typer.Option(help="Device: cpu or cuda.")] = "cpu",
    open_: OpenData = False,
    rounds: Annotated[int | None, typer.Option(help="Number of rounds of FedWad. Default: 20.")] = None,
    shape: Shape = None,
    value_range: ValueRange = None,
    words: WordVectorFile = None,
    out: Annotated[Path | None, typer.Option(help="Folder for pictures and histograms (protocol).")] = None,
    as_json: AsJson = False,
) -> None:
    """Attack a mechanism or a release: an empirical lower bound on ε beside the claimed upper bound.

    The exit code is 7 if the claim is refuted. A mechanism needs --adjacency, and either --epsilon or --sigma.

    `protocol` runs FedWad and TriangleWad between two open data sets, and recovers the records of A from messages; with
    --epsilon it attacks a sketch of them too.

    Examples: privot audit embedding --epsilon 1 --adjacency add-remove; privot audit digits-synth;
    privot audit implementation; privot audit protocol digits digits --open --shape 8,8 --out pictures
    """
    from privot.audit.findings import broken
    from privot.cli.printing.progress import working
    from privot.cli.running.audit_runs.audit_by_target import Effort, run_audit
    from privot.cli.running.audit_runs.protocol_audit import ProtocolOptions, audit_protocol
    from privot.common.devices import usable_device
    from privot.common.extras import require
    from privot.errors import RefutedError

    protocol = ProtocolOptions(data or None, open_, rounds, shape, value_range, words, out)
    if target == "protocol":
        with working("audit", quiet=as_json) as tell:
            tell(target, 0, 0)
            answered = audit_protocol(protocol, records=records, epsilon=epsilon, delta=delta)
        return _print_protocol(answered, as_json)
    protocol.refuse_any(target)
    if target in ("all", "implementation"):
        # some of their attacks need it: said now, not after minutes of others
        require("This audit needs", "torch", "torch")
    if encoder is not None:
        from privot.synthesis import PublicEncoder

        # a folder names its encoder by a digest; without the file, the events of its guarantee are attacked
        PublicEncoder(encoder)
    # most attacks run without PyTorch on a CPU
    where = "cpu" if device == "cpu" else usable_device(device, auto=True, need="Another device than cpu needs")
    effort = Effort(runs, trials, confidence, where)
    claim: dict[str, Any] = {
        "adjacency": adjacency, "sigma": sigma, "epsilon": epsilon, "delta": delta, "clip": clip, "dim": dim,
        "slices": slices, "frame": frame, "records": records, "batch": batch, "steps": steps, "classes": classes,
        "canaries": canaries,
    }  # fmt: skip
    with working("audit", quiet=as_json, still=target == "implementation") as tell:
        tell(target, 0, 0)
        found = run_audit(target, claim, effort, tell)
    lost = broken(found.findings) + (["one-run"] if found.one_run and found.one_run.get("refuted") else [])
    if as_json:
        answer = {"target": target, "findings": [f.to_dict() for f in found.findings]}
        answer["membership"] = [t.to_dict() for t in found.tests]
        if found.untested:
            answer["untested"] = found.untested
        one_run = {} if found.one_run is None else {"one_run": found.one_run}
        print_json({**answer, **one_run, "refuted": lost})
    else:
        _print_findings(found.findings)
        _print_tests(found.tests)
        if found.untested:
            typer.echo(found.untested)
        _print_one_run(found.one_run)
    if lost:
        raise RefutedError(f"The audit refutes {len(lost)} of its subjects: {', '.join(lost)[:300]}. See its findings.")


def _print_protocol(found: ProtocolAnswer, as_json: bool) -> None:
    from privot.audit.findings import broken
    from privot.cli.running.audit_runs.protocol_audit import NOTHING_PROTECTED
    from privot.errors import RefutedError

    lost = broken(list(found.findings))
    if as_json:
        print_json({**found.to_dict(), "refuted": lost})
    else:
        typer.echo(f"privacy: {NOTHING_PROTECTED}\n")
        rows = [[f.name, "not by this" if f.passed else "GIVEN AWAY", f.detail] for f in found.findings]
        print_table(["messages, attack", "records of A", "detail"], rows)
        looks = [
            [
                n["name"],
                f"{n['distance']:.3f}",
                f"{n['skewness']:.2f}",
                f"{n['excess_kurtosis']:.2f}",
                f"{n['p_value']:.2g}",
            ]
            for n in found.details.get("normality", [])
        ]
        if looks:
            typer.echo("\nLikeness to a Gaussian, which says nothing about what can be recovered:")
            print_table(["numbers", "largest gap", "skewness", "excess kurtosis", "p-value"], looks)
        for path in found.pictures:
            typer.echo(f"Drawn in {path}.")
    if lost:
        raise RefutedError(
            f"{len(lost)} of {len(found.findings)} attacks give the records of A back. Nothing was protected here."
        )


def _print_findings(findings: Findings) -> None:
    from privot.audit.findings import Finding

    rows = []
    for f in findings:
        if not isinstance(f, Finding):
            continue
        trials = [str(m.trials) for m in (f.real, f.simulated) if m is not None]
        if_gaussian = "–" if f.if_gaussian is None else number(f.if_gaussian, 4)
        what = f"δ {f.claim.delta:g}, {f.claim.relation}, {f.claim.standing}"
        verdict = "REFUTED" if f.refuted else "not refuted"
        claimed, measured = number(f.claim.epsilon(), 4), number(f.epsilon(), 4)
        rows.append([f.name, claimed, measured, if_gaussian, what, " + ".join(trials), verdict])
    if rows:
        print_table(["attack", "claimed ε ≤", "ε ≥", "if Gaussian ≥", "of what", "trials", "verdict"], rows)
        for f in findings:
            if isinstance(f, Finding) and f.where:
                typer.echo(f"{f.name} is refuted {f.where}.")
        typer.echo("")
    said = [[f.name, "passed" if f.passed else "FAILED", f.detail] for f in findings if not isinstance(f, Finding)]
    if said:
        print_table(["check", "verdict", "detail"], said)
        typer.echo("")


def _print_tests(tests: list[Membership]) -> None:
    if not tests:
        return
    rows = [
        [
            t.name,
            f"{t.auc:.3f} ({t.auc_interval[0]:.3f} to {t.auc_interval[1]:.3f})",
            f"{100 * t.copied:.1f} % of members, {100 * t.copied_others:.1f} % of others",
            f"{number(t.epsilon, 3)} at δ {t.delta:g}, add-remove",
        ]
        for t in tests
    ]
    print_table(["generator and test", "AUC", "near-copies", "ε ≥"], rows)


def _print_one_run(run: dict[str, Any] | None) -> None:
    if run is None:
        return
    claimed = run["claimed"]
    row = [
        run["name"],
        number(claimed["epsilon"], 4),
        number(run["measured"]["epsilon"], 4),
        f"δ {claimed['delta']:g}, {claimed['adjacency']}, {claimed['standing']}",
        f"{run['right']} of {run['guesses']} right",
    ]
    print_table(["attack", "claimed ε ≤", "ε ≥", "of what", "guesses"], [row])
