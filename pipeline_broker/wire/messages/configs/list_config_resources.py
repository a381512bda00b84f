"""ListConfigResources: list the resources that have configs."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int8, int16, int32, string


@attrs.define
class ListConfigResourcesRequest:
    SCHEMA = schema_of(ApiKey.LIST_CONFIG_RESOURCES)

    resource_types: list[int] = array("int8", "1+")


@attrs.define
class ListConfigResourcesResponse:
    SCHEMA = schema_of(ApiKey.LIST_CONFIG_RESOURCES)

    @attrs.define
    class ConfigResource:
        resource_name: str = string("0+")
        resource_type: int = int8("1+", default=16, ignorable=True)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = array("ConfigResource", "0+")
