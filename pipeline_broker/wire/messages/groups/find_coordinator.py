"""FindCoordinator: find the coordinator of groups, transactional ids or share partitions."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int8, int16, int32, string


@attrs.define
class FindCoordinatorRequest:
    SCHEMA = schema_of(ApiKey.FIND_COORDINATOR)

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("string", "4+")


@attrs.define
class FindCoordinatorResponse:
    SCHEMA = schema_of(ApiKey.FIND_COORDINATOR)

    @attrs.define
    class Coordinator:
        key: str = string("4+")
        node_id: int = int32("4+")
        host: str = string("4+")
        port: int = int32("4+")
        error_code: int = int16("4+")
        error_message: str | None = string("4+", nullable="4+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[FindCoordinatorResponse.Coordinator] = array("Coordinator", "4+")
