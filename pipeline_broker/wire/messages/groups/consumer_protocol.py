"""The contents of JoinGroup and SyncGroup requests of consumers. A broker reads them only to migrate a group."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.schema import Schema, array, binary, int32, string


@attrs.define
class ConsumerProtocolSubscription:
    # Key -1: the consumer protocol is not an API. No version is flexible.
    SCHEMA = Schema(key=-1, versions="0-3", flexible="none")

    @attrs.define
    class TopicPartition:
        topic: str = string("1+")
        partitions: list[int] = array("int32", "1+")

    topics: list[str] = array("string", "0+")
    user_data: bytes | None = binary("0+", nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = array("TopicPartition", "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


@attrs.define
class ConsumerProtocolAssignment:
    SCHEMA = Schema(key=-1, versions="0-3", flexible="none")

    @attrs.define
    class TopicPartition:
        topic: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = array("TopicPartition", "0+")
    user_data: bytes | None = binary("0+", nullable="0+", default=None)
