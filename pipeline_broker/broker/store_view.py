"""A broker's store of objects as plain values, for all that show it: what was asked for, and how its parts stand.

Rules of this file: imported where a broker has a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pipeline_broker.log.archive.objects.object_store import ObjectSegmentStore
from pipeline_broker.log.object_journal.object_journal import ObjectJournal

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.log.object_journal.journal_state import JournalState
    from pipeline_broker.objects.store_figures import StoreTotals

__all__ = ["CacheState", "StoreView", "store_view"]


@attrs.frozen
class CacheState:
    """The blocks of objects in memory: how often one was there, and was not; how many bytes there are now."""

    hits: int = 0
    misses: int = 0
    size_bytes: int = 0


@attrs.frozen
class StoreView:
    """See the file.

    Attributes:
        totals: of all requests.
        cache: of what is read of the archive.
        journal: None where it is on a disk.
    """

    totals: StoreTotals
    cache: CacheState
    journal: JournalState | None


def store_view(broker: Broker) -> StoreView | None:
    """How things stand; None without a store."""
    figures, archive, journal = broker.ports.store_figures, broker.logs.archive, broker.logs.journal
    if figures is None:
        return None
    cache = CacheState()
    if archive is not None and isinstance(archive.store, ObjectSegmentStore):
        found = archive.store.cache
        cache = CacheState(found.hits, found.misses, found.size_bytes)
    return StoreView(figures.totals(), cache, journal.state() if isinstance(journal, ObjectJournal) else None)
