"""DescribeLogDirs: describe the log directories, and the size of each partition in them."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int16, int32, int64, string


@attrs.define
class DescribeLogDirsRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_LOG_DIRS)

    @attrs.define
    class DescribableLogDirTopic:
        topic: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = array(
        "DescribableLogDirTopic", "0+", nullable="0+"
    )


@attrs.define
class DescribeLogDirsResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_LOG_DIRS)

    @attrs.define
    class DescribeLogDirsResult:
        error_code: int = int16("0+")
        log_dir: str = string("0+")
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = array("DescribeLogDirsTopic", "0+")
        total_bytes: int = int64("4+", default=-1, ignorable=True)
        usable_bytes: int = int64("4+", default=-1, ignorable=True)
        is_cordoned: bool = boolean("5+", default=False, ignorable=True)

    @attrs.define
    class DescribeLogDirsTopic:
        name: str = string("0+")
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = array("DescribeLogDirsPartition", "0+")

    @attrs.define
    class DescribeLogDirsPartition:
        partition_index: int = int32("0+")
        partition_size: int = int64("0+")
        offset_lag: int = int64("0+")
        is_future_key: bool = boolean("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = array("DescribeLogDirsResult", "0+")
