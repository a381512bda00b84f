"""Records of committed offsets in `__consumer_offsets`. Only old brokers write type 0."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.schema import Schema, int32, int64, string, uuid


@attrs.define
class LegacyOffsetCommitKey:
    SCHEMA = Schema(key=0, versions="0", flexible="none")

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


@attrs.define
class LegacyOffsetCommitValue:
    SCHEMA = Schema(key=0, versions="0", flexible="none")

    offset: int = int64("0")
    metadata: str = string("0")
    commit_timestamp: int = int64("0")


@attrs.define
class OffsetCommitKey:
    SCHEMA = Schema(key=1, versions="0", flexible="none")

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


@attrs.define
class OffsetCommitValue:
    SCHEMA = Schema(key=1, versions="0-4", flexible="4+")

    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", tag=0, ignorable=True)
