"""Error codes of partitions that cannot be read."""

from __future__ import annotations

import logging

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.errors import DamagedSegment, LogError
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.telemetry.bounded_log import PLACE

__all__ = ["storage_error"]

logger = logging.getLogger(__name__)


def storage_error(log: PartitionLog, error: OSError | LogError) -> ErrorCode:
    """Log why a partition cannot be read, and return the error of that partition.

    Returns:
        KAFKA_STORAGE_ERROR if the disk failed; the error's own code if the stored data is damaged.
    """
    if not isinstance(error, DamagedSegment):  # its reader has logged it, once for each damaged place
        place = f"{log.topic}-{log.partition}"
        logger.warning("%s cannot be read: %s", place, error, extra={PLACE: place})
    return ErrorCode[error.error_name] if isinstance(error, LogError) else ErrorCode.KAFKA_STORAGE_ERROR
