"""What `consume` was asked for.

Rules of this file: data only, in the client's terms.
"""

from __future__ import annotations

import attrs

from pipeline_broker.client.offsets import Place
from pipeline_broker.client.record_format import Printer

__all__ = ["ConsumeOptions"]


@attrs.frozen
class ConsumeOptions:
    """What is read and how it is printed.

    Attributes:
        partitions: of each; none: all.
        start: where reading begins; of a group only where nothing is committed.
        until: where it ends; None: it goes on.
        count: records after which it ends; None: it does not.
        group: whose member reads; None: nobody's.
        commits: what a group has read.
        isolation: see `client.offsets`.
        printer: makes the bytes of a record.
        is_quiet: no bar, no warnings.
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
    is_quiet: bool
