"""AlterConfigs: set all values of a resource, the predecessor of IncrementalAlterConfigs."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, int8, int16, int32, string


@attrs.define
class AlterConfigsRequest:
    """Request of API key 33: versions 0-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=33, versions="0-2", flexible="2+")

    @attrs.define
    class AlterConfigsResource:
        """One element of `resources`."""

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[AlterConfigsRequest.AlterableConfig] = array("AlterableConfig", "0+")

    @attrs.define
    class AlterableConfig:
        """One element of `configs`."""

        name: str = string("0+")
        value: str | None = string("0+", nullable="0+")

    resources: list[AlterConfigsRequest.AlterConfigsResource] = array("AlterConfigsResource", "0+")
    validate_only: bool = boolean("0+")


@attrs.define
class AlterConfigsResponse:
    """Response of API key 33: versions 0-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=33, versions="0-2", flexible="2+")

    @attrs.define
    class AlterConfigsResourceResponse:
        """One element of `responses`."""

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = array("AlterConfigsResourceResponse", "0+")
