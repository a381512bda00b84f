"""Records that a startup could not apply: they stay in the log and are reported."""

from __future__ import annotations

import logging
from typing import NamedTuple

import attrs

__all__ = ["LINES_MAX", "SetAside", "SetAsideRecord", "reason_line"]

logger = logging.getLogger(__name__)

LINES_MAX = 100
"""Records that a startup names, in the log and in `SetAside.records`; a client may have written millions."""
REASON_CHARACTERS_MAX = 200


class SetAsideRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    reason: str


@attrs.define
class SetAside:
    """The records that a startup set aside.

    Attributes:
        count: number of these records.
        records: the first LINES_MAX of them.
    """

    count: int = 0
    records: list[SetAsideRecord] = attrs.Factory(list)

    def has_any_of(self, topic: str) -> bool:
        """Return True if records of a topic were set aside, or if that is unknown because too many were."""
        return self.count > LINES_MAX or any(record.topic == topic for record in self.records)

    def add(self, topic: str, partition: int, offset: int, error: Exception) -> None:
        """Set one record aside, and log it unless LINES_MAX records are logged already."""
        self.count += 1
        if self.count > LINES_MAX:
            return
        # The content of the record may come from any client and may be secret: only the reason is kept and logged.
        record = SetAsideRecord(topic, partition, offset, reason_line(error))
        self.records.append(record)
        logger.warning("%s-%d offset %d is set aside: %s", topic, partition, offset, record.reason)

    def end(self) -> None:
        if self.count > LINES_MAX:
            logger.warning("%d more records are set aside; the command inspect lists them", self.count - LINES_MAX)


def reason_line(error: Exception) -> str:
    """Return the message of an error as one printable line of bounded length."""
    text = str(error)[:REASON_CHARACTERS_MAX]
    return text if text.isprintable() else ascii(text)
