"""The callbacks from the share coordinator to its broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from pipeline_broker.broker.ports import Submit
from pipeline_broker.broker.waiting_fetches import WaitingFetches
from pipeline_broker.log.partition.partition_log import PartitionLog

__all__ = ["SharePorts"]


@attrs.frozen
class SharePorts:
    """Callbacks and parts that a broker passes to its share coordinator.

    Attributes:
        configs_of: returns the settings of a group, by its id.
        fetches: parked fetches.
        submit: commits entries that no request waits for.
        wake_timer: called when `next_deadline_ms` has become earlier.
        level: returns the finalized level of `share.version`.
        raise_log_start: deletes the records of a log before an offset; its last argument is the time in milliseconds.
    """

    configs_of: Callable[[str], Mapping[str, str]]
    fetches: WaitingFetches
    submit: Submit
    wake_timer: Callable[[], None]
    level: Callable[[], int]
    raise_log_start: Callable[[PartitionLog, int, int], None]
