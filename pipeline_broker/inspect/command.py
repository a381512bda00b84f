"""`pipeline-broker inspect`: the journal of a data directory, verified.

Rules of this file: exit code 0 for an intact journal, a torn tail included, because every crash may leave one; 1 for
damage; 2 when there is nothing to inspect, with one line that says why.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipeline_broker.inspect.findings import Damage
from pipeline_broker.inspect.journal_reader import JournalReader, NoDataDirectoryError
from pipeline_broker.inspect.report import DEPTHS, json_lines, text_lines

__all__ = ["inspect"]

EXIT_DAMAGED = 1
EXIT_USAGE = 2


@click.command()
@click.argument("data", type=click.Path(path_type=Path), default="./data")
@click.option(
    "--show",
    "depth",
    type=click.Choice(DEPTHS),
    default="segments",
    show_default=True,
    help="How deep to go; everything is verified at any depth, single records at the last one only.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def inspect(data: Path, depth: str, *, as_json: bool) -> None:
    """Show and verify the journal of the data directory DATA (default ./data).

    Nothing is written and no lock is taken: the broker may be running, its last commit may then look torn.

    \b
    Exit codes: 0 intact (a torn tail is no damage), 1 damaged, 2 no journal to inspect.
    Topics are shown by id, as kafka-topics --describe prints it.
    """  # noqa: D301 - click's mark for "do not rewrap"
    lines = json_lines if as_json else text_lines
    is_damaged = False
    try:
        for finding in JournalReader(data, with_records=depth == "records").findings():
            is_damaged = is_damaged or isinstance(finding, Damage)
            for line in lines(finding, depth):
                click.echo(line)
    except NoDataDirectoryError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_USAGE)
    if is_damaged:
        sys.exit(EXIT_DAMAGED)
