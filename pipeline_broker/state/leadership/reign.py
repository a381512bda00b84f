"""The entries of a journal that count for a partition: those after the OPEN record of its epoch (C6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from pipeline_broker.state.leadership.records import OpenRecord

__all__ = ["entries_that_count"]

Entry = TypeVar("Entry")


def entries_that_count(entries: Iterable[OpenRecord | Entry | None], epoch: int) -> Iterator[Entry]:
    """Yield the entries of one partition that belong to an epoch.

    Args:
        entries: of the partition in one journal, in order. An OpenRecord opens it, and None closes it.
        epoch: of the leadership, from the cluster's metadata.
    """
    opened: OpenRecord | None = None
    for entry in entries:
        if entry is None or isinstance(entry, OpenRecord):
            opened = entry
        elif opened is not None and opened.epoch == epoch:
            yield entry
