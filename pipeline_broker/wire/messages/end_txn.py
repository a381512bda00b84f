"""EndTxn: commit or abort the transaction of a producer."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, boolean, int16, int32, int64, string


@attrs.define
class EndTxnRequest:
    """Request of API key 26: versions 0-5, flexible 3+."""

    SCHEMA: ClassVar[Schema] = Schema(key=26, versions="0-5", flexible="3+")

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


@attrs.define
class EndTxnResponse:
    """Response of API key 26: versions 0-5, flexible 3+."""

    SCHEMA: ClassVar[Schema] = Schema(key=26, versions="0-5", flexible="3+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
