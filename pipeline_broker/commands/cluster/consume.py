"""`pipeline-broker consume`: print records of topics. The options are here, the work is in `consuming`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pipeline_broker.client.offsets import BEGINNING, END, READ_COMMITTED, READ_UNCOMMITTED, Place
from pipeline_broker.client.record_format import Printer, escape_for_terminal, format_printer, json_line
from pipeline_broker.commands.cluster.arguments import PARTITION_MAX, place_of
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, with_bootstrap
from pipeline_broker.commands.cluster.completing import complete_topics
from pipeline_broker.commands.cluster.consume_options import ConsumeOptions
from pipeline_broker.commands.cluster.consuming import Consumption

if TYPE_CHECKING:
    from pipeline_broker.client.remote_schemas import RemoteSchemas

__all__ = ["consume"]

COUNT_MAX = 2**63 - 1


@click.command(
    cls=ClientCommand,
    epilog="""\b
Examples:
  pipeline-broker consume orders
  pipeline-broker consume orders --last 10 --format '%p %o %k %s\\n'
  pipeline-broker consume orders --from @-5m --follow --json
  pipeline-broker consume orders --group audit --follow
  pipeline-broker consume orders --json | jq -r .value
  pipeline-broker consume orders --schema-registry http://127.0.0.1:8081""",
)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option(
    "--partition",
    "-p",
    "partitions",
    type=click.IntRange(0, PARTITION_MAX),
    multiple=True,
    help="Read only this partition; repeatable.",
)
@click.option(
    "--from",
    "-o",
    "start",
    metavar="PLACE",
    help="Start at beginning, end, an offset, -10 (ten before the end), or @TIME. (default: beginning)",
)
@click.option("--until", metavar="PLACE", help="Stop before end, an offset, or @TIME. (default: end)")
@click.option(
    "--last", type=click.IntRange(1, COUNT_MAX), help="Start this many offsets before the end of each partition."
)
@click.option("--count", "-c", type=click.IntRange(1, COUNT_MAX), help="Stop after this many records.")
@click.option("--follow/--exit", " /-e", "follows", default=None, help="At the end, wait for more records, or stop.")
@click.option("--group", "-g", help="Join this group, start at its committed offsets, and commit.")
@click.option("--no-commit", is_flag=True, help="With --group: do not commit.")
@click.option(
    "--format",
    "-f",
    "text",
    metavar="FORMAT",
    help=r"Print records in this format: %s value, %k key, %t topic, %p partition, %o offset, %T time, %h headers.",
)
@click.option("--key-delimiter", "-K", help="Print each record as KEY, this delimiter and VALUE.")
@click.option("--null", default="", help="Text to print for a null key or value.")
@click.option("--json", "-J", "as_json", is_flag=True, help="Print each record as a JSON object.")
@click.option(
    "--schema-registry",
    metavar="URL",
    help="Print keys and values that have a schema of this registry as JSON; print others unchanged. URL may have"
    " USER:PASSWORD@ before its host.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="Hide, or print, records of open and aborted transactions.",
)
@click.option("--quiet", "-q", is_flag=True, help="Show no progress bar and no warnings.")
@with_bootstrap
def consume(bootstrap: Bootstrap, topics: Sequence[str], **given: Any) -> None:
    """Print the records of TOPICS.

    Reads up to the current end of each partition, and stops. With --follow, it waits for more records. --follow is the
    default of --from end without --until. A TIME is 2026-08-01T12:00 (local, or with a zone), milliseconds since 1970,
    or -5m for five minutes ago. On a terminal, bytes that are not text are escaped; elsewhere they are printed
    unchanged.
    """
    for one, other in _CONTRADICTIONS:
        if given[one] not in _NOT_GIVEN and given[other] not in _NOT_GIVEN:
            raise click.UsageError(f"{_OPTIONS[one]} and {_OPTIONS[other]} contradict each other: give one of them")
    if given["no_commit"] and given["group"] is None:
        raise click.UsageError("--no-commit needs --group")
    options = _consume_options(tuple(dict.fromkeys(topics)), given)

    code = bootstrap.run(Consumption(options).run)
    if code:
        raise click.exceptions.Exit(code)


_OPTIONS = {
    "partitions": "--partition",
    "start": "--from",
    "until": "--until",
    "last": "--last",
    "follows": "--follow",
    "group": "--group",
    "text": "--format",
    "key_delimiter": "--key-delimiter",
    "as_json": "--json",
}
_CONTRADICTIONS = (
    ("last", "start"),
    ("until", "follows"),
    ("group", "partitions"),
    ("group", "until"),
    ("group", "last"),
    ("text", "as_json"),
    ("text", "key_delimiter"),
    ("key_delimiter", "as_json"),
)
_NOT_GIVEN: tuple[object, ...] = (None, False, ())


def _consume_options(topics: tuple[str, ...], given: dict[str, Any]) -> ConsumeOptions:
    start = BEGINNING if given["start"] is None else place_of(given["start"], "--from")
    if given["last"] is not None:
        start = Place(before_end=given["last"])
    until = None if given["until"] is None else place_of(given["until"], "--until")
    follows = given["follows"]
    if follows is None:
        follows = start == END and until is None
    return ConsumeOptions(
        topics=topics,
        partitions=tuple(dict.fromkeys(given["partitions"])),
        start=start,
        until=None if follows else until or END,
        count=given["count"],
        group=given["group"],
        commits=not given["no_commit"],
        isolation=READ_COMMITTED if given["isolation"] == "read_committed" else READ_UNCOMMITTED,
        printer=_printer(given),
        schemas=_schemas(given["schema_registry"]),
        is_quiet=given["quiet"],
    )


def _schemas(url: str | None) -> RemoteSchemas | None:
    if url is None:
        return None
    from pipeline_broker.client.remote_schemas import RemoteSchemas  # noqa: PLC0415 - only with the option

    missing = [name for name in ("avro", "jsonschema", "google.protobuf") if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"--schema-registry needs {', '.join(missing)}. Run pip install 'pipeline-broker[schema-registry]'"
        )
    try:
        return RemoteSchemas(url)
    except ValueError as error:
        raise click.UsageError(f"--schema-registry: {error}") from None


def _printer(given: dict[str, Any]) -> Printer:
    if given["as_json"]:
        return json_line
    text = given["text"]
    if text is None:
        delimiter = given["key_delimiter"]
        text = "%s\\n" if delimiter is None else f"%k{delimiter.replace('%', '%%')}%s\\n"
    try:
        return format_printer(text, given["null"].encode(), escape_for_terminal if sys.stdout.isatty() else bytes)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
