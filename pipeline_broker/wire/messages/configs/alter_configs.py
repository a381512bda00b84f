"""AlterConfigs: replace all configs of a resource; the predecessor of IncrementalAlterConfigs."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int8, int16, int32, string


@attrs.define
class AlterConfigsRequest:
    SCHEMA = schema_of(ApiKey.ALTER_CONFIGS)

    @attrs.define
    class AlterConfigsResource:
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[AlterConfigsRequest.AlterableConfig] = array("AlterableConfig", "0+")

    @attrs.define
    class AlterableConfig:
        name: str = string("0+")
        value: str | None = string("0+", nullable="0+")

    resources: list[AlterConfigsRequest.AlterConfigsResource] = array("AlterConfigsResource", "0+")
    validate_only: bool = boolean("0+")


@attrs.define
class AlterConfigsResponse:
    SCHEMA = schema_of(ApiKey.ALTER_CONFIGS)

    @attrs.define
    class AlterConfigsResourceResponse:
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = array("AlterConfigsResourceResponse", "0+")
