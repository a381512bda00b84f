"""What a state machine asks of its caller.

Rules of this room: a machine is synchronous. It never reads a clock (`now_ms`, milliseconds since 1970, is passed in
and never runs backwards), never calls out, never does I/O. It returns what must be done: answers to give, and records
to append. A record counts only once it is durable: the caller appends `Write.records` and then hands the same `Write`
back, to `durable` or to `failed`. A commit that failed takes all later ones with it, so writes are settled in order.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs

from pipeline_broker.records.batch import BatchBody

__all__ = ["Completion", "Outcome", "ReplayedWrites", "StateRecord", "Write"]


class StateRecord(NamedTuple):
    """One key and value to append to an internal partition; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


@attrs.frozen(eq=False)
class Write:
    """Records that belong together: one batch, in one partition.

    Attributes:
        subject: the group or topic they are about; a group decides the partition of `__consumer_offsets`.
        records: in the order to append them.
        change: what becomes true when they are durable. The machine's own; opaque to the caller.
        body: the same records as they stand in a batch, where that was made before.
    """

    subject: str
    records: tuple[StateRecord, ...]
    change: object = None
    body: BatchBody | None = None


class ReplayedWrites:
    """A machine whose changes become true as they do at a start: each record is replayed, once it is durable."""

    def durable(self, write: Write) -> None:
        """The records of a change are durable."""
        for record in write.records:
            self.replay(record.key, record.value)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record; those of other subjects are read past."""
        raise NotImplementedError


class Completion(NamedTuple):
    """The answer to a request that was parked under `token`."""

    token: object
    result: object


@attrs.define
class Outcome:
    """What one call leaves to do, in order; each token is completed exactly once."""

    completions: list[Completion] = attrs.Factory(list)
    writes: list[Write] = attrs.Factory(list)

    def extend(self, more: Outcome) -> None:
        """Do what another call left to do, too."""
        self.completions += more.completions
        self.writes += more.writes
