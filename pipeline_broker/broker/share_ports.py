"""What the share coordinator asks of its broker.

Rules of this file: as of `ports`: made once, by the broker, before the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from pipeline_broker.broker.ports import Submit
from pipeline_broker.broker.waiting_fetches import WaitingFetches
from pipeline_broker.log.partition.partition_log import PartitionLog

__all__ = ["SharePorts"]


@attrs.frozen
class SharePorts:
    """See the rules of the file.

    Attributes:
        configs_of: what was set for a single group, by its id.
        fetches: that wait for records.
        submit: commits entries that no request waits for.
        wake_timer: called when `next_deadline_ms` has become earlier.
        raise_log_start: deletes what stands before an offset of one of the topic's logs, at a time in milliseconds.
    """

    configs_of: Callable[[str], Mapping[str, str]]
    fetches: WaitingFetches
    submit: Submit
    wake_timer: Callable[[], None]
    raise_log_start: Callable[[PartitionLog, int, int], None]
