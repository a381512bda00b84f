"""What a client is told when a partition cannot be read.

Rules of this file: the error is of the one partition that it happened to; the reason goes to the log of the process.
"""

from __future__ import annotations

import logging

from pipeline_broker.log.errors import LogError
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.wire.error import ErrorCode

__all__ = ["storage_error"]

logger = logging.getLogger(__name__)


def storage_error(log: PartitionLog, error: OSError | LogError) -> ErrorCode:
    """The error code: the disk failed, or what it holds is not what was written."""
    logger.warning("%s-%d cannot be read: %s", log.topic, log.partition, error)
    return ErrorCode[error.error_name] if isinstance(error, LogError) else ErrorCode.KAFKA_STORAGE_ERROR
