"""`pipeline-broker produce`: records from standard input or files.

Rules of this file: options and checks that need no cluster; the work is in `producing.py`. Nothing is printed unless it
is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline_broker.commands.cluster.arguments import PARTITION_MAX
from pipeline_broker.commands.cluster.completing import complete_topics
from pipeline_broker.commands.cluster.reach import ClientCommand, Reach, reaching
from pipeline_broker.commands.load import ACKS, Setting

if TYPE_CHECKING:
    from pipeline_broker.client.produce_requests import ProducerOptions
    from pipeline_broker.client.record_lines import LineForm

__all__ = ["produce"]

IN_FLIGHT_MAX = 5
"""`outbox.IN_FLIGHT_MAX`, which help does not import."""


class Bytes(click.ParamType[bytes]):
    r"""A text in which \n, \t, \r, \0, \\ and \xNN stand for single bytes."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        from pipeline_broker.client.record_lines import unescape  # noqa: PLC0415 - not for help

        try:
            found = unescape(str(value))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        if not found:
            self.fail("give at least one character", param, ctx)
        return found


@click.command(
    cls=ClientCommand,
    epilog="""\b
Examples:
  echo hello | pipeline-broker produce greetings
  pipeline-broker produce orders -K : orders.txt
  pipeline-broker produce orders --json --compression zstd < orders.jsonl
  pipeline-broker produce images --whole --key cat cat.png
  pipeline-broker consume orders --json | pipeline-broker produce copy --json""",
)
@click.argument("topic", shell_complete=complete_topics)
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--partition", "-p", type=click.IntRange(0, PARTITION_MAX), help="Write all records to this partition.")
@click.option("--key", "-k", help="The key of every record that has none of its own.")
@click.option("--key-delimiter", "-K", type=Bytes(), help="A line is KEY, this, VALUE.")
@click.option(
    "--header", "-H", "headers", type=Setting("source=orders.csv"), multiple=True, help="NAME=VALUE; repeatable."
)
@click.option("--delimiter", "-D", type=Bytes(), help=r"Between records.  A line feed if not given.")
@click.option("--whole", is_flag=True, help="A file, or all of standard input, is one record.")
@click.option("--tombstones", "-Z", is_flag=True, help="Write a tombstone where the value is empty.")
@click.option("--json", "-J", "as_json", is_flag=True, help='Lines are objects such as {"key": "a", "value": "b"}.')
@click.option("--by-key", is_flag=True, help='Pass over "partition" of --json: keys decide.')
@click.option(
    "--compression",
    "-z",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Codec of the batches.",
)
@click.option(
    "--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="Which acknowledgement to wait for."
)
@click.option("--no-idempotent", is_flag=True, help="Store a record twice where it is sent again.")
@click.option(
    "--max-in-flight",
    type=click.IntRange(1, IN_FLIGHT_MAX),
    default=IN_FLIGHT_MAX,
    show_default=True,
    help="Requests to a broker that wait for an answer.",
)
@click.option("--offsets", "has_offsets", is_flag=True, help="Print where each record is: number, partition, offset.")
@click.option("--quiet", "-q", is_flag=True, help="No progress bar.")
@reaching
def produce(
    reach: Reach,
    topic: str,
    files: Sequence[Path],
    partition: int | None,
    key: str | None,
    key_delimiter: bytes | None,
    headers: Sequence[tuple[str, str]],
    delimiter: bytes | None,
    compression: str,
    acks: str,
    max_in_flight: int,
    *,
    whole: bool,
    tombstones: bool,
    as_json: bool,
    by_key: bool,
    no_idempotent: bool,
    has_offsets: bool,
    quiet: bool,
) -> None:
    """Write records to TOPIC: the lines of standard input, or of FILES.

    A key decides the partition as it does for Java's clients. With --json a line has "key", "value" (or "key_base64",
    "value_base64"), "headers", "partition" and "timestamp", of which only the value must be there; null is a tombstone.
    It ends when everything is acknowledged.
    """
    if as_json and (key_delimiter is not None or tombstones or whole):
        raise click.UsageError("--json says it all: leave out --key-delimiter, --tombstones and --whole")
    if whole and delimiter is not None:
        raise click.UsageError("--whole and --delimiter contradict each other: give one")
    form = _form(key, key_delimiter, headers, as_json=as_json, has_tombstones=tombstones)
    options = _options(acks, compression, max_in_flight, is_idempotent=not no_idempotent)
    from pipeline_broker.commands.cluster.producing import Production  # noqa: PLC0415 - it imports Trio

    production = Production(
        topic,
        files,
        form,
        options,
        delimiter=None if whole else delimiter or b"\n",
        partition=partition,
        is_by_key=by_key,
        has_offsets=has_offsets,
        is_quiet=quiet,
    )
    reach.run(production.run)


def _form(
    key: str | None,
    key_delimiter: bytes | None,
    headers: Sequence[tuple[str, str]],
    *,
    as_json: bool,
    has_tombstones: bool,
) -> LineForm:
    from pipeline_broker.client.record_lines import LineForm  # noqa: PLC0415 - not for help

    return LineForm(
        is_json=as_json,
        key_delimiter=key_delimiter,
        key=None if key is None else key.encode(errors="surrogateescape"),
        headers=tuple((name, value.encode(errors="surrogateescape")) for name, value in headers),
        has_tombstones=has_tombstones,
    )


def _options(acks: str, compression: str, in_flight_max: int, *, is_idempotent: bool) -> ProducerOptions:
    from pipeline_broker.client.produce_requests import ACKS_ALL, ProducerOptions  # noqa: PLC0415 - it imports Trio
    from pipeline_broker.records.compression import Compression  # noqa: PLC0415 - not for help

    number = ACKS[acks]
    return ProducerOptions(
        number, Compression[compression.upper()], is_idempotent and number == ACKS_ALL, in_flight_max=in_flight_max
    )
