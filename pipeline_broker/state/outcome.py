"""Results of state machines: answers to give and records to append.

See the package for how a caller settles a `Write`.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs

from pipeline_broker.records.batch import BatchBody

__all__ = ["Completion", "Outcome", "ReplayedWrites", "StateRecord", "Write"]


class StateRecord(NamedTuple):
    """A record to append to an internal partition; the value None is a tombstone."""

    key: bytes
    value: bytes | None


@attrs.frozen(eq=False)
class Write:
    """Records that are appended together, as one batch of one partition.

    Attributes:
        subject: the group or share partition, which selects the partition of the internal topic. Writes to the metadata
            partition have a topic name or nothing.
        records: in the order in which to append them.
        change: the change that takes effect once the records are durable; private to the machine.
        body: the records as an encoded batch, if the machine has already made one.
    """

    subject: str
    records: tuple[StateRecord, ...]
    change: object = None
    body: BatchBody | None = None


class ReplayedWrites:
    """Base of machines that apply a durable change like a startup does: by replaying its records."""

    def durable(self, write: Write) -> None:
        for record in write.records:
            self.replay(record.key, record.value)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one durable record; ignore records of other types.

        Raises:
            CorruptStateRecordError: the record cannot be decoded.
        """
        raise NotImplementedError


class Completion(NamedTuple):
    token: object
    result: object


@attrs.define
class Outcome:
    """The answers and writes that one call produced, in order. Each token is completed exactly once."""

    completions: list[Completion] = attrs.Factory(list)
    writes: list[Write] = attrs.Factory(list)

    def extend(self, more: Outcome) -> None:
        self.completions += more.completions
        self.writes += more.writes
