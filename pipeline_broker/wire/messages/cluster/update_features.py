"""UpdateFeatures: change the finalized levels of features (KIP-584)."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int8, int16, int32, string


@attrs.define
class UpdateFeaturesRequest:
    SCHEMA = schema_of(ApiKey.UPDATE_FEATURES)

    @attrs.define
    class FeatureUpdateKey:
        feature: str = string("0+")
        max_version_level: int = int16("0+")
        allow_downgrade: bool = boolean("0")
        upgrade_type: int = int8("1+", default=1)

    timeout_ms: int = int32("0+", default=60000)
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = array("FeatureUpdateKey", "0+")
    validate_only: bool = boolean("1+")


@attrs.define
class UpdateFeaturesResponse:
    SCHEMA = schema_of(ApiKey.UPDATE_FEATURES)

    @attrs.define
    class UpdatableFeatureResult:
        feature: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = array(
        "UpdatableFeatureResult", "0-1", ignorable=True
    )
