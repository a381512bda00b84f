"""`pipeline-broker produce`: write records from standard input or files.

The options are here, the work is in `producing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pipeline_broker.client.produce_requests import ACKS_ALL, ProducerOptions
from pipeline_broker.client.record_lines import LineForm, unescape
from pipeline_broker.commands.cluster.arguments import PARTITION_MAX
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, with_bootstrap
from pipeline_broker.commands.cluster.completing import complete_topics
from pipeline_broker.commands.cluster.producing import Production
from pipeline_broker.commands.option_types import ACKS, Setting
from pipeline_broker.records.compression import Compression

__all__ = ["produce"]

IN_FLIGHT_MAX = 5
"""A copy of `outbox.IN_FLIGHT_MAX`, which `--help` must not import."""


class Bytes(click.ParamType[bytes]):
    r"""An option of bytes, where \n, \t, \r, \0, \\ and \xNN are single bytes."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value

        try:
            found = unescape(str(value))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        if not found:
            self.fail("the delimiter is empty: give at least one character", param, ctx)
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
@click.option(
    "--partition",
    "-p",
    type=click.IntRange(0, PARTITION_MAX),
    help="Write records to this partition, unless a JSON line names its own.",
)
@click.option("--key", "-k", help="Key of records without their own key.")
@click.option("--key-delimiter", "-K", type=Bytes(), help="Split each line into KEY, this delimiter and VALUE.")
@click.option(
    "--header",
    "-H",
    "headers",
    type=Setting("source=orders.csv"),
    multiple=True,
    help="Header of every record, NAME=VALUE; repeatable.",
)
@click.option("--delimiter", "-D", type=Bytes(), help=r"Delimiter between records. (default: \n)")
@click.option("--whole", is_flag=True, help="Write each file, or all of standard input, as one record.")
@click.option("--tombstones", "-Z", is_flag=True, help="Write an empty value as a tombstone.")
@click.option(
    "--json", "-J", "as_json", is_flag=True, help='Read each line as an object such as {"key": "a", "value": "b"}.'
)
@click.option("--by-key", is_flag=True, help='With --json: ignore the "partition" of each line.')
@click.option(
    "--compression",
    "-z",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Codec of the batches.",
)
@click.option(
    "--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="Acknowledgement to wait for."
)
@click.option("--no-idempotent", is_flag=True, help="Allow retries to store a record twice.")
@click.option(
    "--max-in-flight",
    type=click.IntRange(1, IN_FLIGHT_MAX),
    default=IN_FLIGHT_MAX,
    show_default=True,
    help="Maximum number of unacknowledged requests per broker.",
)
@click.option("--offsets", "has_offsets", is_flag=True, help="Print number, partition and offset of each record.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress bar.")
@with_bootstrap
def produce(
    bootstrap: Bootstrap,
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

    The key of a record determines its partition, as in Kafka's Java client. With --json, a line has "key", "value" (or
    "key_base64", "value_base64"), "headers", "partition" and "timestamp". Only the value is required; a null value is
    a tombstone. The command ends when all records are acknowledged.
    """
    if as_json and (key_delimiter is not None or tombstones or whole):
        raise click.UsageError("--json contradicts --key-delimiter, --tombstones and --whole: leave these out")
    if whole and delimiter is not None:
        raise click.UsageError("--whole and --delimiter contradict each other: give one of them")
    form = _form(key, key_delimiter, headers, as_json=as_json, has_tombstones=tombstones)
    options = _options(acks, compression, max_in_flight, is_idempotent=not no_idempotent)

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
    bootstrap.run(production.run)


def _form(
    key: str | None,
    key_delimiter: bytes | None,
    headers: Sequence[tuple[str, str]],
    *,
    as_json: bool,
    has_tombstones: bool,
) -> LineForm:
    return LineForm(
        is_json=as_json,
        key_delimiter=key_delimiter,
        key=None if key is None else key.encode(errors="surrogateescape"),
        headers=tuple((name, value.encode(errors="surrogateescape")) for name, value in headers),
        has_tombstones=has_tombstones,
    )


def _options(acks: str, compression: str, in_flight_max: int, *, is_idempotent: bool) -> ProducerOptions:
    # As in Kafka's producer, idempotence needs acks=all.
    number = ACKS[acks]
    return ProducerOptions(
        number, Compression[compression.upper()], is_idempotent and number == ACKS_ALL, in_flight_max=in_flight_max
    )
