"""The options of `consume`, in terms of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pipeline_broker.client.offsets import Place
from pipeline_broker.client.record_format import Printer

if TYPE_CHECKING:
    from pipeline_broker.client.remote_schemas import RemoteSchemas

__all__ = ["ConsumeOptions"]


@attrs.frozen
class ConsumeOptions:
    """The options of a run of `consume`.

    Attributes:
        partitions: partition numbers of each topic; empty: all.
        start: the first position; with a group only for partitions without a committed offset.
        until: the end position; None: wait for more records.
        count: the number of records to print; None: no limit.
        group: the group to join; None: no group.
        commits: commit offsets of the group.
        isolation: READ_COMMITTED or READ_UNCOMMITTED of `client.offsets`.
        printer: formats a record.
        schemas: decode keys and values; None: print them as they are.
        is_quiet: show no progress bar and no warnings.
    """

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    start: Place
    until: Place | None
    count: int | None
    group: str | None
    commits: bool
    isolation: int
    printer: Printer
    schemas: RemoteSchemas | None
    is_quiet: bool
