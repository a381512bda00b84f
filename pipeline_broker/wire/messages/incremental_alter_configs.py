"""IncrementalAlterConfigs: change single configuration values."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, int8, int16, int32, string


@attrs.define
class IncrementalAlterConfigsRequest:
    """Request of API key 44: versions 0-1, flexible 1+."""

    SCHEMA: ClassVar[Schema] = Schema(key=44, versions="0-1", flexible="1+")

    @attrs.define
    class AlterConfigsResource:
        """One element of `resources`."""

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = array("AlterableConfig", "0+")

    @attrs.define
    class AlterableConfig:
        """One element of `configs`."""

        name: str = string("0+")
        config_operation: int = int8("0+")
        value: str | None = string("0+", nullable="0+")

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = array("AlterConfigsResource", "0+")
    validate_only: bool = boolean("0+")


@attrs.define
class IncrementalAlterConfigsResponse:
    """Response of API key 44: versions 0-1, flexible 1+."""

    SCHEMA: ClassVar[Schema] = Schema(key=44, versions="0-1", flexible="1+")

    @attrs.define
    class AlterConfigsResourceResponse:
        """One element of `responses`."""

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = array(
        "AlterConfigsResourceResponse", "0+"
    )
