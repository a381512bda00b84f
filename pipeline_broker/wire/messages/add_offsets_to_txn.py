"""AddOffsetsToTxn: the offsets of a group belong to a transaction."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, int16, int32, int64, string


@attrs.define
class AddOffsetsToTxnRequest:
    """Request of API key 25: versions 0-4, flexible 3+."""

    SCHEMA: ClassVar[Schema] = Schema(key=25, versions="0-4", flexible="3+")

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


@attrs.define
class AddOffsetsToTxnResponse:
    """Response of API key 25: versions 0-4, flexible 3+."""

    SCHEMA: ClassVar[Schema] = Schema(key=25, versions="0-4", flexible="3+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
