"""StreamsGroupTopologyDescriptionUpdate (KIP-1331): store the description of a topology for administrators."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int8, int16, int32, string, struct


@attrs.frozen
class StreamsGroupTopologyDescriptionUpdateTopologyDescriptionNode:
    name: str = string("0+")
    node_type: int = int8("0+")
    source_topics: list[str] = array("string", "0+")
    sink_topic: str | None = string("0+", nullable="0+", default=None)
    stores: list[str] = array("string", "0+")
    successors: list[str] = array("string", "0+")


@attrs.frozen
class StreamsGroupTopologyDescriptionUpdateTopologyDescription:
    subtopologies: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionSubtopology] = array(
        "TopologyDescriptionSubtopology", "0+"
    )
    global_stores: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionGlobalStore] = array(
        "TopologyDescriptionGlobalStore", "0+"
    )


@attrs.define
class StreamsGroupTopologyDescriptionUpdateRequest:
    SCHEMA = schema_of(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE)
    TopologyDescription = StreamsGroupTopologyDescriptionUpdateTopologyDescription
    TopologyDescriptionNode = StreamsGroupTopologyDescriptionUpdateTopologyDescriptionNode

    @attrs.define
    class TopologyDescriptionSubtopology:
        subtopology_id: str = string("0+")
        nodes: list[StreamsGroupTopologyDescriptionUpdateTopologyDescriptionNode] = array(
            "TopologyDescriptionNode", "0+"
        )

    @attrs.define
    class TopologyDescriptionGlobalStore:
        source: StreamsGroupTopologyDescriptionUpdateTopologyDescriptionNode = struct(
            StreamsGroupTopologyDescriptionUpdateTopologyDescriptionNode, "0+"
        )
        processor: StreamsGroupTopologyDescriptionUpdateTopologyDescriptionNode = struct(
            StreamsGroupTopologyDescriptionUpdateTopologyDescriptionNode, "0+"
        )

    group_id: str = string("0+")
    member_id: str = string("0+")
    topology_epoch: int = int32("0+")
    topology_description: StreamsGroupTopologyDescriptionUpdateTopologyDescription = struct(
        StreamsGroupTopologyDescriptionUpdateTopologyDescription, "0+"
    )


@attrs.define
class StreamsGroupTopologyDescriptionUpdateResponse:
    SCHEMA = schema_of(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
