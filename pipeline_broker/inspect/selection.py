"""The selection of data that a report shows."""

import attrs

from pipeline_broker.records.record import Record
from pipeline_broker.wire.uuid_text import uuid_text

__all__ = ["DEPTHS", "EVERYTHING", "Selection"]

DEPTHS = ("segments", "frames", "entries", "batches", "records")
"""Depths of a report; each includes the previous ones."""


@attrs.frozen(kw_only=True)
class Selection:
    """A depth, and limits by topic, partition and offset.

    Limits only narrow the report of the journal, which is verified as a whole. Of the archive, other partitions and
    segments are not read.

    Attributes:
        depth: one of DEPTHS.
        topic: name or id; None for all.
        partition: number; None for all.
        first_offset, last_offset: inclusive range of offsets; None for no limit.
    """

    depth: str = DEPTHS[0]
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None

    @property
    def is_narrow(self) -> bool:
        limits = (self.topic, self.partition, self.first_offset, self.last_offset)
        return any(limit is not None for limit in limits)

    @property
    def with_records(self) -> bool:
        return self.shows("records")

    @property
    def shows_commits(self) -> bool:
        """True if frames and edits are shown. A commit belongs to many partitions, so limits exclude it."""
        return self.shows("frames") and not self.is_narrow

    def shows(self, depth: str) -> bool:
        return DEPTHS.index(self.depth) >= DEPTHS.index(depth)

    def takes_topic(self, name: str | None, topic_id: bytes) -> bool:
        return self.topic is None or self.topic in {name, uuid_text(topic_id)}

    def takes(self, name: str | None, topic_id: bytes, partition: int) -> bool:
        return self.partition in {None, partition} and self.takes_topic(name, topic_id)

    def takes_offsets(self, first: int, last: int) -> bool:
        return (self.first_offset is None or last >= self.first_offset) and (
            self.last_offset is None or first <= self.last_offset
        )

    def takes_record(self, record: Record) -> bool:
        return self.takes_offsets(record.offset, record.offset)


EVERYTHING = Selection()
