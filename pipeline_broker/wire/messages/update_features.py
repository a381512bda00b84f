"""UpdateFeatures: finalize levels of features."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, int8, int16, int32, string


@attrs.define
class UpdateFeaturesRequest:
    """Request of API key 57: versions 0-2, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=57, versions="0-2", flexible="0+")

    @attrs.define
    class FeatureUpdateKey:
        """One element of `feature_updates`."""

        feature: str = string("0+")
        max_version_level: int = int16("0+")
        allow_downgrade: bool = boolean("0")
        upgrade_type: int = int8("1+", default=1)

    timeout_ms: int = int32("0+", default=60000)
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = array("FeatureUpdateKey", "0+")
    validate_only: bool = boolean("1+")


@attrs.define
class UpdateFeaturesResponse:
    """Response of API key 57: versions 0-2, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=57, versions="0-2", flexible="0+")

    @attrs.define
    class UpdatableFeatureResult:
        """One element of `results`."""

        feature: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = array(
        "UpdatableFeatureResult", "0-1", ignorable=True
    )
