"""A snapshot of a broker's object store: requests, cache and journal, for the metrics and the dashboard."""

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
    hits: int = 0
    misses: int = 0
    size_bytes: int = 0


@attrs.frozen
class StoreView:
    """The use of the broker's object store.

    Attributes:
        totals: requests since startup.
        cache: hits, misses and size of the cache for reads of the archive.
        journal: the journal in the store; None if the journal is on disk.
    """

    totals: StoreTotals
    cache: CacheState
    journal: JournalState | None


def store_view(broker: Broker) -> StoreView | None:
    """Return the use of the broker's object store; None without a store."""
    figures, archive, journal = broker.ports.store_figures, broker.logs.archive, broker.logs.journal
    if figures is None:
        return None
    cache = CacheState()
    if archive is not None and isinstance(archive.store, ObjectSegmentStore):
        found = archive.store.cache
        cache = CacheState(found.hits, found.misses, found.size_bytes)
    return StoreView(figures.totals(), cache, journal.state() if isinstance(journal, ObjectJournal) else None)
