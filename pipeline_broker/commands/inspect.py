"""`pipeline-broker inspect`: show and verify the journal and the archive of a data directory or a store."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipeline_broker.commands.documented_command import DocumentedCommand
from pipeline_broker.files.file_system import ReadOnlyFileSystem
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.findings import Damage
from pipeline_broker.inspect.inspection import Inspection
from pipeline_broker.inspect.json_report import json_lines
from pipeline_broker.inspect.selection import DEPTHS, Selection
from pipeline_broker.inspect.stored_place import StoredPlace, brokers_of
from pipeline_broker.inspect.text_report import text_lines
from pipeline_broker.inspect.topic_names import TopicNames
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pipeline_broker.telemetry.log_lines import of_broker

__all__ = ["inspect"]

DATA_DEFAULT = Path("./data")
EXIT_DAMAGED = 1
EXIT_USAGE = 2


@click.command(cls=DocumentedCommand)
@click.argument("data", type=click.Path(path_type=Path), required=False)
@click.option("--data", "data_option", type=click.Path(path_type=Path), help="Data directory; the same as DATA.")
@click.option("--store", metavar="URL", help="Inspect the journal and archive in this store, in place of a directory.")
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
    help="Level of detail. Only `records` verifies single records; all levels verify everything else.",
)
@click.option("--topic", help="Select this topic, by name or id.")
@click.option("--partition", type=click.IntRange(0), help="Select partitions with this number.")
@click.option("--from-offset", "first_offset", type=click.IntRange(0), help="Select records at or after this offset.")
@click.option(
    "--to-offset", "last_offset", type=click.IntRange(0), help="Select records up to and including this offset."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
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

    DATA may be the directory of `serve --brokers`; the command then shows one broker after the other.

    The command only reads, and uses no lock. If the broker is running, its last commit may look torn. The whole
    journal is verified; of the archive, only the parts that --topic, --partition and the offsets select.

    Exit codes: 0 intact, 1 damaged, 2 nothing to inspect. Torn tails and leftovers are not damage.
    Topics are shown with their id, as in kafka-topics --describe, and with their name if it is known.
    """
    if data is not None and data_option is not None:
        raise click.UsageError("DATA and --data contradict each other: give one of them")
    if store is not None and (data or data_option) is not None:
        raise click.UsageError("--store contradicts a data directory, which names its own store: give one of them")
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
    lines = json_lines if as_json else text_lines
    is_damaged = has_found_topic = False
    names = TopicNames()  # of the controller, which is the first
    brokers = brokers_of(ReadOnlyFileSystem(), stored)
    places: list[tuple[int | None, StoredPlace]] = [*brokers.items()] or [(None, stored)]
    for node_id, place in places:
        if node_id is not None and not as_json:
            click.echo(f"broker {node_id}: {place}")
        inspection = Inspection(place, selection, names=names)
        for finding in inspection.findings():
            is_damaged = is_damaged or isinstance(finding, Damage)
            for line in lines(finding, selection):
                click.echo(of_broker(line, node_id) if as_json and node_id is not None else line)
        has_found_topic = has_found_topic or inspection.has_found_topic()
    if not is_damaged and not has_found_topic:
        raise NoDataDirectoryError(
            f"{stored} has no data of topic {selection.topic!r}. Leave --topic out to list its topics"
        )
    return is_damaged
