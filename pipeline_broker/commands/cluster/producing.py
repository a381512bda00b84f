"""The run of `produce`: reads input, splits it into records, and passes them to a producer."""

from __future__ import annotations

import json
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import click

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import ClientError, NoSuchPartition
from pipeline_broker.client.outbox import Batch
from pipeline_broker.client.produce_requests import ProducerOptions
from pipeline_broker.client.producer import Producer, producing
from pipeline_broker.client.record_json import RecordFormError
from pipeline_broker.client.record_lines import LineForm, LineSplitter
from pipeline_broker.client.rights import note_needed
from pipeline_broker.commands.cluster.progress import Meter, metered
from pipeline_broker.commands.cluster.streams import source_of

__all__ = ["Production"]


@attrs.define
class Production:
    """A run of `produce`. Input is read no faster than the producer writes.

    Attributes:
        files: the input files; empty: standard input.
        form: the form of a record in the input.
        delimiter: the bytes between records; None: a file is one record.
        partition: the partition of records that name none; None: chosen by key.
        is_by_key: ignore the partitions that records name.
        has_offsets: print the offset of each record.
        is_quiet: show no progress bar.
        count: the number of records read so far.
    """

    topic: str
    files: Sequence[Path]
    form: LineForm
    options: ProducerOptions
    delimiter: bytes | None = attrs.field(kw_only=True)
    partition: int | None = attrs.field(kw_only=True)
    is_by_key: bool = attrs.field(kw_only=True)
    has_offsets: bool = attrs.field(kw_only=True)
    is_quiet: bool = attrs.field(kw_only=True)
    count: int = attrs.field(default=0, init=False)

    async def run(self, cluster: ClusterClient) -> None:
        """Write all records.

        Raises:
            ClientError: the input cannot be read, or a record cannot be written.
        """
        note_needed("write", "topic")
        with metered(
            f"writing to {self.topic}", self._size_bytes(), is_bytes=True, is_shown=not self.is_quiet
        ) as meter:
            async with producing(cluster, self.topic, self.options, self._delivered) as producer:
                for path in self.files or (None,):
                    await self._write(producer, path, meter)

    def _size_bytes(self) -> int | None:
        # Only regular files have a size; a pipe has none.
        try:
            found = [path.stat() for path in self.files] or [Path(f"/dev/fd/{sys.stdin.fileno()}").stat()]
        except (OSError, ValueError):
            return None
        return sum(it.st_size for it in found) if all(stat.S_ISREG(it.st_mode) for it in found) else None

    async def _write(self, producer: Producer, path: Path | None, meter: Meter) -> None:
        splitter = LineSplitter(self.delimiter)
        number = 0
        try:
            with source_of(path) as read:
                while data := await read():
                    for piece in splitter.feed(data):
                        self._add(producer, piece)
                        number += 1
                    await producer.wait_for_capacity()
                    meter.advance(len(data))
            for piece in splitter.finish():
                self._add(producer, piece)
                number += 1
        except (RecordFormError, NoSuchPartition) as error:
            # Flush first, so that the user can fix the line and continue after it.
            await producer.flush()
            place = f"{path}: " if path is not None else ""
            raise ClientError(f"{place}line {number + 1}: {error}. All earlier lines were written") from None

    def _add(self, producer: Producer, piece: bytes) -> None:
        given = self.form.read(piece)
        if given is None:
            return
        self.count += 1
        partition = self.partition if given.partition is None or self.is_by_key else given.partition
        producer.add(given.record(time.time_ns() // 1_000_000), self.count, partition)

    def _delivered(self, batch: Batch, offset: int) -> None:
        if not self.has_offsets:
            return
        for place, number in enumerate(batch.numbers):
            at = offset + place if offset >= 0 else None
            if self.form.is_json:
                click.echo(json.dumps({"record": number, "partition": batch.partition, "offset": at}))
            else:
                click.echo(f"{number}\t{batch.partition}\t{'-' if at is None else at}")
