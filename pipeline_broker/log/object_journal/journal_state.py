"""The name and the status of a journal in an object store."""

from typing import NamedTuple

from pipeline_broker.objects.lease_keeper import LeaseState

__all__ = ["JournalState", "journal_name"]


def journal_name(node: int) -> str:
    return f"wal/{node}"


class JournalState(NamedTuple):
    """The status of a journal in an object store.

    Attributes:
        generation: number of this owner of the log.
        slots, size_bytes: number and total size of the slots that are not archived yet.
        in_flight: number of slots that were started and are not confirmed.
        is_fenced: whether another broker has taken over.
        lease: the owner's lease; None without one.
    """

    generation: int
    slots: int
    size_bytes: int
    in_flight: int
    is_fenced: bool
    lease: LeaseState | None
