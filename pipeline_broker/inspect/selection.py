"""What of a data directory is shown.

Rules of this file: no I/O. A selection of partitions or offsets narrows what is shown of the journal, which is one and
verified as a whole; of the archive, other partitions and segments are not even read.
"""

import attrs

from pipeline_broker.records.record import Record
from pipeline_broker.wire.uuid_text import uuid_text

__all__ = ["DEPTHS", "EVERYTHING", "Selection"]

DEPTHS = ("segments", "frames", "entries", "batches", "records")
"""How deep a report goes; each includes those before it."""


@attrs.frozen(kw_only=True)
class Selection:
    """See the rules of the file.

    Attributes:
        depth: one of DEPTHS.
        topic: name or id; None for all.
        partition: its number; None for all.
        first_offset, last_offset: records in between, both included; None for no limit.
    """

    depth: str = DEPTHS[0]
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether something of this depth is left out."""
        limits = (self.topic, self.partition, self.first_offset, self.last_offset)
        return any(limit is not None for limit in limits)

    @property
    def with_records(self) -> bool:
        """Whether single records are shown."""
        return self.shows("records")

    @property
    def shows_commits(self) -> bool:
        """Whether frames and edits are shown, which belong to many partitions."""
        return self.shows("frames") and not self.is_narrow

    def shows(self, depth: str) -> bool:
        """Whether the report goes so deep."""
        return DEPTHS.index(self.depth) >= DEPTHS.index(depth)

    def takes_topic(self, name: str | None, topic_id: bytes) -> bool:
        """Whether the topic is among those asked for."""
        return self.topic is None or self.topic in {name, uuid_text(topic_id)}

    def takes(self, name: str | None, topic_id: bytes, partition: int) -> bool:
        """Whether the partition is among those asked for."""
        return self.partition in {None, partition} and self.takes_topic(name, topic_id)

    def takes_offsets(self, first: int, last: int) -> bool:
        """Whether some of the offsets are among those asked for."""
        return (self.first_offset is None or last >= self.first_offset) and (
            self.last_offset is None or first <= self.last_offset
        )

    def takes_record(self, record: Record) -> bool:
        """Whether the record is among those asked for, if its partition is."""
        return self.takes_offsets(record.offset, record.offset)


EVERYTHING = Selection()
