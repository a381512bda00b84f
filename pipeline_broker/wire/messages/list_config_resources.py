"""ListConfigResources: what settings can be described of."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int8, int16, int32, string


@attrs.define
class ListConfigResourcesRequest:
    """Request of API key 74: versions 0-1, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=74, versions="0-1", flexible="0+")

    resource_types: list[int] = array("int8", "1+")


@attrs.define
class ListConfigResourcesResponse:
    """Response of API key 74: versions 0-1, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=74, versions="0-1", flexible="0+")

    @attrs.define
    class ConfigResource:
        """One element of `config_resources`."""

        resource_name: str = string("0+")
        resource_type: int = int8("1+", default=16, ignorable=True)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = array("ConfigResource", "0+")
