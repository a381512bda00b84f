"""Records that a start could not take over, and left out.

Rules of this file: each is named once in the log, up to LINES_MAX; the rest is counted. What a record holds comes from
anybody and may be secret: of it the log has the reason only, in one line of bounded length.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import attrs

__all__ = ["LINES_MAX", "SetAside", "SetAsideRecord", "reason_line"]

logger = logging.getLogger(__name__)

LINES_MAX = 100
"""Records that a start names, in the log and in `SetAside.records`; a client may once have written millions."""
REASON_CHARACTERS_MAX = 200


class SetAsideRecord(NamedTuple):
    """One record.

    Attributes:
        topic, partition, offset: where it is.
        reason: why it was left out.
    """

    topic: str
    partition: int
    offset: int
    reason: str


@attrs.define
class SetAside:
    """What a start has left out.

    Attributes:
        count: of all records.
        records: the first ones.
    """

    count: int = 0
    records: list[SetAsideRecord] = attrs.Factory(list)

    def has_any_of(self, topic: str) -> bool:
        """Whether any record of a topic may be among those that were left out."""
        return self.count > LINES_MAX or any(record.topic == topic for record in self.records)

    def add(self, topic: str, partition: int, offset: int, error: Exception) -> None:
        """Leave out one record."""
        self.count += 1
        if self.count > LINES_MAX:
            return
        record = SetAsideRecord(topic, partition, offset, reason_line(error))
        self.records.append(record)
        logger.warning("%s-%d offset %d is set aside: %s", topic, partition, offset, record.reason)

    def end(self) -> None:
        """The start has replayed everything: tell how many were not named."""
        if self.count > LINES_MAX:
            logger.warning("%d more records are set aside; inspect lists them", self.count - LINES_MAX)


def reason_line(error: Exception) -> str:
    """The text of an error as one line of plain characters."""
    text = str(error)[:REASON_CHARACTERS_MAX]
    return text if text.isprintable() else ascii(text)
