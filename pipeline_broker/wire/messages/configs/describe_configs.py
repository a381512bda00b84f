"""DescribeConfigs: describe the configs of topics, brokers and other resources."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int8, int16, int32, string


@attrs.define
class DescribeConfigsRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_CONFIGS)

    @attrs.define
    class DescribeConfigsResource:
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configuration_keys: list[str] | None = array("string", "0+", nullable="0+")

    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = array("DescribeConfigsResource", "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


@attrs.define
class DescribeConfigsResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_CONFIGS)

    @attrs.define
    class DescribeConfigsResult:
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = array(
            "DescribeConfigsResourceResult", "0+"
        )

    @attrs.define
    class DescribeConfigsResourceResult:
        name: str = string("0+")
        value: str | None = string("0+", nullable="0+")
        read_only: bool = boolean("0+")
        config_source: int = int8("1+", default=-1, ignorable=True)
        is_sensitive: bool = boolean("0+")
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = array(
            "DescribeConfigsSynonym", "1+", ignorable=True
        )
        config_type: int = int8("3+", ignorable=True)
        documentation: str | None = string("3+", nullable="0+", ignorable=True)

    @attrs.define
    class DescribeConfigsSynonym:
        name: str = string("1+")
        value: str | None = string("1+", nullable="0+")
        source: int = int8("1+")

    throttle_time_ms: int = int32("0+")
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = array("DescribeConfigsResult", "0+")
