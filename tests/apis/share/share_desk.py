"""A desk for share groups, with requests of one member."""

from __future__ import annotations

from typing import Any

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.share.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.share_acknowledge import ShareAcknowledgeRequest
from pipeline_broker.wire.messages.share.share_fetch import ShareFetchRequest
from pipeline_broker.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.desk import Desk

ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]
GROUP = "g"


class ShareDesk:
    """A desk with a topic `t`, a member of group `g`, and its session."""

    def __init__(self, *settings: str, partitions: int = 1, desk: Desk | None = None, topic: str = "t") -> None:
        self.desk = desk or Desk(*settings)
        self.topic = topic
        if desk is None:
            wanted = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
            self.ask(CreateTopicsRequest(topics=[wanted]), 7)
            self.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
        found = self.desk.broker.topics.get(topic)
        assert found is not None
        self.topic_id = found.topic_id
        self.member_id = "m"

    def ask(self, message: Any, version: int) -> Any:
        return self.desk.ask(message, version)

    def restart(self) -> ShareDesk:
        return ShareDesk(desk=self.desk.restart(), topic=self.topic)

    def begin(self) -> None:
        """Join, and open a session that begins with the first record."""
        self.reset("earliest")
        self.heartbeat()
        self.fetch(0, [0])

    def reset(self, where: str) -> None:
        self.configure({"share.auto.offset.reset": where})

    def configure(self, settings: dict[str, str]) -> None:
        """Set a config of the group, by IncrementalAlterConfigs."""
        broker = self.desk.broker
        write = broker.dynamic_settings.alter(("group", GROUP), settings)
        self.desk.commit([broker.append_metadata(write, self.desk.now_ms)])
        broker.dynamic_settings.durable(write)

    def heartbeat(self, epoch: int = 0, **more: Any) -> Any:
        topics = [self.topic] if epoch == 0 else None
        fields = {"group_id": GROUP, "member_id": self.member_id, "subscribed_topic_names": topics} | more
        return self.ask(ShareGroupHeartbeatRequest(member_epoch=epoch, **fields), 1)

    def produce(self, count: int, partition: int = 0, size: int = 1) -> None:
        batch = build_batch([NewRecord(b"v" * size, None, self.desk.now_ms) for _ in range(count)])
        data = ProduceRequest.PartitionProduceData(partition, batch)
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(self.topic, partition_data=[data])]
        )
        assert self.ask(request, 9).responses[0].partition_responses[0].error_code == 0

    def fetch_request(
        self, epoch: int, partitions: Any = (), acknowledgements: Any = None, *, wait_ms: int = 0, **more: Any
    ) -> ShareFetchRequest:
        said: dict[int, Any] = {partition: [] for partition in partitions}
        for partition, batches in (acknowledgements or {}).items():
            said[partition] = [ShareFetchRequest.AcknowledgementBatch(*batch) for batch in batches]
        wanted = [
            ShareFetchRequest.FetchPartition(partition, acknowledgement_batches=batches)
            for partition, batches in said.items()
        ]
        fields = {"min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500} | more
        return ShareFetchRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=epoch,
            max_wait_ms=wait_ms,
            topics=[ShareFetchRequest.FetchTopic(self.topic_id, wanted)] if wanted else [],
            **fields,
        )

    def fetch(self, epoch: int, partitions: Any = (), acknowledgements: Any = None, *, version: int = 2, **more: Any):
        return self.ask(self.fetch_request(epoch, partitions, acknowledgements, **more), version)

    def acknowledge_request(self, epoch: int, batches: Any, partition: int = 0, **more: Any) -> ShareAcknowledgeRequest:
        said = [ShareAcknowledgeRequest.AcknowledgementBatch(*batch) for batch in batches]
        wanted = ShareAcknowledgeRequest.AcknowledgePartition(partition, said)
        return ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=epoch,
            topics=[ShareAcknowledgeRequest.AcknowledgeTopic(self.topic_id, [wanted])] if said else [],
            **more,
        )

    def acknowledge(self, epoch: int, batches: Any, partition: int = 0, *, version: int = 2, **more: Any) -> Any:
        return self.ask(self.acknowledge_request(epoch, batches, partition, **more), version)

    def offsets(self) -> list[tuple[int, int]]:
        """Return the group's start offset and lag in each partition."""
        wanted = DescribeShareGroupOffsetsRequest.Group(GROUP, None)
        (group,) = self.ask(DescribeShareGroupOffsetsRequest([wanted]), 1).groups
        return [(found.start_offset, found.lag) for topic in group.topics for found in topic.partitions]


def acquired(response: Any) -> list[tuple[int, int, int]]:
    """Return the records that a fetch acquired."""
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in response.responses
        for data in topic.partitions
        for one in data.acquired_records
    ]


def errors(response: Any) -> list[int]:
    """Return the errors of all partitions."""
    return [data.error_code for topic in response.responses for data in topic.partitions]
