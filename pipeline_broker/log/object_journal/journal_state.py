"""What others ask of a journal in a store beside its contents: its name, and how it stands.

Rules of this file: data only.
"""

from typing import NamedTuple

from pipeline_broker.objects.lease_keeper import LeaseState

__all__ = ["JournalState", "journal_name"]


def journal_name(node: int) -> str:
    """The log of a node's journal in its store."""
    return f"wal/{node}"


class JournalState(NamedTuple):
    """How a journal stands.

    Attributes:
        generation: which owner of the log this is.
        slots, size_bytes: that are not given back: the archive does not hold them yet.
        in_flight: slots that are begun and not confirmed.
        is_fenced: another broker has taken over.
        lease: of the owner; None where none is kept.
    """

    generation: int
    slots: int
    size_bytes: int
    in_flight: int
    is_fenced: bool
    lease: LeaseState | None
