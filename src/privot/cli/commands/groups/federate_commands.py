"""`privot federate …`: distances between organisations, each on its own machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import AsJson, Chart, NewRecords, Trust
from privot.cli.printing.printed_answer import number, print_facts, print_json, print_table

if TYPE_CHECKING:
    from privot.guarantee import Guarantee

app = typer.Typer(
    help="Compare data sets between organisations, each on its own machines, over Flower.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(help="Folder with the keys, and the policy of a party.")]
MAX_CERTIFICATES = 1 << 20
"""Largest size of a file of certificates, in bytes."""


@app.command()
def enrol(
    folder: Folder,
    name: Annotated[str, typer.Option(help="Name of the party in reports.")] = "a party",
    as_json: AsJson = False,
) -> None:
    """Create a party's keys, and a policy that allows nothing until it is edited.

    Example: privot federate enrol north --name 'north clinic'
    """
    from privot.federation.parties.enrolment import make_party

    signer = make_party(folder, name)
    facts = {"folder": str(folder), "signer": signer, "node": str(folder / "node.key.pub")}
    if as_json:
        print_json(facts)
        return
    print_facts(
        [
            ("signer", f"{signer}: send this …"),
            ("node key", f"{facts['node']}: … and this file to the coordinator"),
            ("policy", f"{folder / 'policy.toml'}: edit it to state what you allow"),
        ]
    )


@app.command()
def setup(
    folder: Folder,
    host: Annotated[list[str], typer.Option(help="Host name or address that parties connect to; may be repeated.")],
    as_json: AsJson = False,
) -> None:
    """Create a coordinator's keys and certificate.

    Example: privot federate setup hub --host hub.example.org
    """
    from privot.federation.parties.enrolment import make_coordinator

    signer = make_coordinator(folder, host)
    if as_json:
        print_json({"folder": str(folder), "signer": signer, "authority": str(folder / "ca.pem")})
        return
    print_facts(
        [
            ("signer", f"{signer}: parties that allow your requests write this into their policies"),
            ("authority", f"{folder / 'ca.pem'}: parties need this file to recognise your SuperLink"),
        ]
    )


@app.command()
def coordinate(
    folder: Folder,
    jobs: Annotated[
        list[Path], typer.Argument(help="Job files (TOML): protocol, parameters, parties. Results go to a folder JOB.")
    ],
    host: Annotated[str, typer.Option(help="Address on which the SuperLink listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port on which the SuperLink listens.")] = 9092,
    as_json: AsJson = False,
) -> None:
    """Start a SuperLink, ask all parties and write the result; run it again to go on after an interruption.

    Example: privot federate coordinate hub job.toml --host 0.0.0.0 --port 9092
    """
    from privot.errors import UsageError
    from privot.federation.coordination.coordinator import Coordinator
    from privot.federation.coordination.federated_job import FederatedJob
    from privot.federation.flower import quiet, require
    from privot.federation.wire.signing import read_key

    require()
    works = [(path.parent / path.stem, FederatedJob.read(path)) for path in jobs]
    members = list({member.signer: member for _, work in works for member in work.members}.values())
    if not all(member.node for member in members):
        raise UsageError("Every [[party]] of a job between machines must name its node key.")
    key = read_key(folder / "signing.key")
    quiet((folder / "flower").absolute())
    from privot.federation.flower.serverapp import FlowerChannel
    from privot.federation.flower.superlink import SuperLink

    with SuperLink(folder.absolute(), host, port) as link:
        reached = link.address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")  # noqa: S104
        with FlowerChannel(folder, reached, members, link.check) as channel:
            results = []
            for out, work in works:
                coordinator = Coordinator(out, key, channel)
                try:
                    results.append(coordinator.run(work))
                finally:
                    coordinator.close()
    if as_json:
        print_json({"results": results})
    else:
        for result in results:
            _tell(result)
    _check_obtained({path.name: result for path, result in zip(jobs, results, strict=True)})


def _check_obtained(results: dict[str, dict[str, Any]]) -> None:
    """Raise where a job has no distance at all; some of them are a result, though not a complete one."""
    from privot.errors import DataError, NoAnswerError
    from privot.federation.coordination.coordinator import ABSENT, LATE

    for name, result in results.items():
        table = result["distances"]
        if all(value is None for i, row in enumerate(table) for j, value in enumerate(row) if i != j):
            why = "; ".join(f"{party} {reason}" for party, reason in result["missing"].items())
            silent = any(reason in (ABSENT, LATE) for reason in result["missing"].values())
            raise (NoAnswerError if silent else DataError)(
                f"{name} gave no distance at all: {why or 'see its result'}."
            )


def _relation(fields: dict[str, Any]) -> str:
    from privot.common.privacy_unit import Unit, relation_words

    return relation_words(fields["adjacency"], Unit.from_dict(fields.get("unit")))


def _tell(result: dict[str, Any]) -> None:
    names = result["parties"]
    facts = [("protocol", f"{result['protocol']}, {result['standing'] or 'nothing was released'}")]
    if "privacy" in result:
        facts.append(("privacy", result["privacy"]))
    for name, g in result.get("guarantees", {}).items():
        facts.append(
            (
                f"privacy of {name}",
                f"ε = {number(g['epsilon'])} at δ = {g['delta']:g}, {_relation(g)}, {g['standing']}",
            )
        )
    facts.append(("complete", "yes" if result["complete"] else "no"))
    facts += [(f"missing {name}", why) for name, why in result["missing"].items()]
    print_facts(facts)
    print_table(
        ["W_2", *names],
        [
            [name, *("–" if value is None else number(value) for value in row)]
            for name, row in zip(names, result["distances"], strict=True)
        ],
    )


@app.command()
def join(
    folder: Folder,
    link: Annotated[str, typer.Option(help="Coordinator's SuperLink, as HOST:PORT.")],
    authority: Annotated[Path, typer.Option(help="Coordinator's certificate authority (ca.pem).")],
    patience: Annotated[
        float,
        typer.Option(help="Seconds without contact after which to give up; inf: never."),
    ] = 3600.0,
    new_records: NewRecords = False,
) -> None:
    """Join as a party: answer what the policy allows, refuse the rest, and write both to party.log.

    While the coordinator cannot be reached, or shows another certificate, the party tries again with pauses of up to
    15 seconds.

    Example: privot federate join north --link hub.example.org:9092 --authority ca.pem
    """
    import signal

    from privot.cli.ledgers import naming_the_option
    from privot.errors import PrivotError
    from privot.federation.flower import quiet, require
    from privot.federation.parties.desk import Desk
    from privot.opening import read_bytes

    require()
    certificates = read_bytes(authority, most=MAX_CERTIFICATES)
    with naming_the_option():
        desk = Desk(folder, new_records=new_records)
    quiet((folder / "flower").absolute())

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        from privot.federation.flower.supernode import serve

        # `kill` ends a party as Ctrl-C does: it leaves the coordinator first
        signal.signal(signal.SIGTERM, stop)
        serve(desk.handle, link, certificates, folder, desk.log, patience, lambda line: typer.echo(line, err=True))
    except KeyboardInterrupt:
        desk.log.info("stopped by its owner")
        raise
    except PrivotError as error:
        desk.log.error("stopped: %s", error)
        raise
    finally:
        desk.close()


def _sketches_in(folder: Path) -> list[Path]:
    from privot.errors import DataError
    from privot.opening.plain_files import check_inside

    found = [check_inside(path, folder) for path in sorted(folder.glob("*.sketch"))]
    if not found:
        raise DataError(f"The folder {folder.name!r} holds no sketch files: expected files named *.sketch.")
    return found


@app.command()
def matrix(
    sketches: Annotated[list[Path], typer.Argument(help="Sketch files of one design, or a folder of them.")],
    trust: Trust = None,
    distance: Annotated[str, typer.Option(help="Distance that is drawn: w2 or sliced.")] = "w2",
    out: Chart = None,
    workers: Annotated[int | None, typer.Option(help="Number of threads. Default: one per core.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the distances between all pairs of sketches, and draw a matrix, a dendrogram and a map.

    Example: privot federate matrix a.sketch b.sketch c.sketch --out map.png
    """
    from privot.cli.sketch_files import read_sketches
    from privot.errors import UsageError
    from privot.federation.sketches.sketch_matrix import distance_matrix, order_of

    if distance not in ("w2", "sliced"):
        raise UsageError(f"--distance must be w2 or sliced, got {distance!r}.")
    files = [f for path in sketches for f in (_sketches_in(path) if path.is_dir() else [path])]
    if len(files) < 2:
        raise UsageError(f"A matrix needs at least two sketch files, got {len(files)}.")
    read, _ = read_sketches(files, trust)
    names = [file.stem for file in files]
    found = distance_matrix(read, workers)
    table = getattr(found, distance)
    order, tree = order_of(table)
    if out is not None:
        from privot.cli.printing.charts import draw_parties

        draw_parties(table, names, order, tree, distance, out)
    guarantees = [_stated(s.guarantee) for s in read]
    if as_json:
        print_json(
            {
                "names": names,
                "w2": found.w2.tolist(),
                "sliced": found.sliced.tolist(),
                "order": [names[k] for k in order],
                "guarantees": guarantees,
                "signers": [s.signer for s in read],
                "plot": None if out is None else str(out),
            }
        )
        return
    if len(names) <= 20:
        print_table([distance, *names], [[n, *map(number, row)] for n, row in zip(names, table.tolist(), strict=True)])
    worst = max(guarantees, key=lambda g: float(g["epsilon"]))
    cost = f"ε = {number(worst['epsilon'])} at δ = {worst['delta']:g}, {_relation(worst)}, {worst['standing']}"
    print_facts(
        [
            ("parties", f"{len(names)}, similar ones side by side: {', '.join(names[k] for k in order[:20])}"),
            ("privacy", f"each at most {cost}; comparing costs nothing more"),
        ]
    )


def _stated(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "epsilon": guarantee.epsilon(),
        "delta": guarantee.at_delta,
        "adjacency": str(guarantee.adjacency),
        "unit": guarantee.to_dict()["unit"],
        "standing": str(guarantee.standing),
    }
