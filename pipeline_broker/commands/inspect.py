"""`pipeline-broker inspect`: the journal and the archive of a data directory, verified.

Rules of this file: exit code 0 when both are intact, a torn tail and leftovers included, because every crash may leave
them; 1 for damage; 2 when there is nothing to inspect, with one line that says why.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.findings import Damage
from pipeline_broker.inspect.inspection import Inspection
from pipeline_broker.inspect.json_report import json_lines
from pipeline_broker.inspect.selection import DEPTHS, Selection
from pipeline_broker.inspect.stored_place import StoredPlace
from pipeline_broker.inspect.text_report import text_lines
from pipeline_broker.log.archive.local.archive_place import ArchivePlace

__all__ = ["inspect"]

DATA_DEFAULT = Path("./data")
EXIT_DAMAGED = 1
EXIT_USAGE = 2


@click.command()
@click.argument("data", type=click.Path(path_type=Path), required=False)
@click.option("--data", "data_option", type=click.Path(path_type=Path), help="The same as DATA, as for serve.")
@click.option("--store", metavar="URL", help="A store that has journal and archive, in place of a directory.")
@click.option(
    "--node-id",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="With --store: the node.id of the broker.",
)
@click.option(
    "--show",
    "depth",
    type=click.Choice(DEPTHS),
    default="segments",
    show_default=True,
    help="How deep to go; everything is verified at any depth, single records at the last one only.",
)
@click.option("--topic", help="Only this topic, by its name or its id.")
@click.option("--partition", type=click.IntRange(0), help="Only partitions of this number.")
@click.option("--from-offset", "first_offset", type=click.IntRange(0), help="Only records from this offset on.")
@click.option("--to-offset", "last_offset", type=click.IntRange(0), help="Only records up to this offset.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def inspect(
    data: Path | None,
    data_option: Path | None,
    store: str | None,
    node_id: int,
    *,
    as_json: bool,
    **limits: str | int | None,
) -> None:
    """Show and verify the journal and the archive of the data directory DATA (default ./data), or of a store.

    Nothing is written and no lock is taken: the broker may be running, its last commit may then look torn.
    The journal is verified as a whole; of the archive, what --topic, --partition and the offsets leave out is not read.

    \b
    Exit codes: 0 intact (torn tails and leftovers are no damage), 1 damaged, 2 nothing to inspect.
    Topics are shown with their id, as kafka-topics --describe prints it, and their name where it is known.
    """  # noqa: D301 - click's mark for "do not rewrap"
    if data is not None and data_option is not None:
        raise click.UsageError("the data directory is given twice")
    if store is not None and (data or data_option) is not None:
        raise click.UsageError("a data directory names its store: give one of both")
    stored = data or data_option or DATA_DEFAULT if store is None else ArchivePlace(store, node_id, "objects")
    selection = Selection(**limits)  # type: ignore[arg-type]  # click has checked each
    try:
        is_damaged = _report(stored, selection, as_json=as_json)
    except NoDataDirectoryError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_USAGE)
    if is_damaged:
        sys.exit(EXIT_DAMAGED)


def _report(stored: StoredPlace, selection: Selection, *, as_json: bool) -> bool:
    """Print what is found; whether there was damage."""
    lines = json_lines if as_json else text_lines
    is_damaged = False
    inspection = Inspection(stored, selection)
    for finding in inspection.findings():
        is_damaged = is_damaged or isinstance(finding, Damage)
        for line in lines(finding, selection):
            click.echo(line)
    if not is_damaged and not inspection.has_found_topic():
        raise NoDataDirectoryError(f"{stored} has nothing of a topic {selection.topic!r}")
    return is_damaged
