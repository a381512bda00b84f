"""ApiVersions: list the APIs and versions that a broker supports."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int16, int32, int64, string


@attrs.define
class ApiVersionsRequest:
    SCHEMA = schema_of(ApiKey.API_VERSIONS)

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)


@attrs.define
class ApiVersionsResponse:
    SCHEMA = schema_of(ApiKey.API_VERSIONS)

    @attrs.define
    class ApiVersion:
        api_key: int = int16("0+")
        min_version: int = int16("0+")
        max_version: int = int16("0+")

    @attrs.define
    class SupportedFeatureKey:
        name: str = string("3+")
        min_version: int = int16("3+")
        max_version: int = int16("3+")

    @attrs.define
    class FinalizedFeatureKey:
        name: str = string("3+")
        max_version_level: int = int16("3+")
        min_version_level: int = int16("3+")

    error_code: int = int16("0+")
    api_keys: list[ApiVersionsResponse.ApiVersion] = array("ApiVersion", "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = array(
        "SupportedFeatureKey", "3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = array(
        "FinalizedFeatureKey", "3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)
