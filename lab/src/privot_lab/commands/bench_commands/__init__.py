"""`privot bench …`: privot and its peers, measured in one run, as ratios."""

from __future__ import annotations

import typer

from privot_lab.commands.bench_commands.count_benches import accounting, noise, sketches, valuation
from privot_lab.commands.bench_commands.partition_benches import partitions, shards
from privot_lab.commands.bench_commands.table_benches import long_table, table_data, table_runs, table_summary, tables
from privot_lab.commands.bench_commands.transport_benches import growth, transport, typed

app = typer.Typer(
    help="Measure privot and its peers in one run, as ratios.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def root() -> None:
    """Measure privot and its peers in one run, as ratios."""


# in the order of the list of commands
app.command()(transport)
app.command()(typed)
app.command()(growth)
app.command()(tables)
app.command("table-runs")(table_runs)
app.command("table-summary")(table_summary)
app.command("table-data")(table_data)
app.command()(accounting)
app.command()(noise)
app.command()(sketches)
app.command()(valuation)
app.command("long-table")(long_table)
app.command()(partitions)
app.command()(shards)
