"""A desk with state of every kind, and internal topics to which a test can append anything."""

from __future__ import annotations

import copy
from typing import Any

from pipeline_broker.apis.data.produce import ADMIN_CLIENT_ID
from pipeline_broker.broker.coordinator import append_records
from pipeline_broker.log.compaction.cleaning import clean
from pipeline_broker.log.journal.clean_shutdown import remove_mark
from pipeline_broker.log.partition.compaction_of_logs import next_round
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState, Member
from pipeline_broker.state.groups.classic.messages import MemberProtocol
from pipeline_broker.state.groups.classic.records import group_metadata_record
from pipeline_broker.state.groups.offset_records import CommittedOffset, OffsetKey, offset_record
from pipeline_broker.state.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.apis.desk import DIRECTORY, Desk
from tests.apis.share.share_desk import ShareDesk
from tests.apis.transactions.transaction_desk import Producer
from tests.coordinators import coordinator_of, transaction_coordinator_of

SETTINGS = (
    "num.partitions=2",
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "share.coordinator.state.topic.num.partitions=2",
    "group.coordinator.rebalance.protocols=classic,consumer,share",
)
GROUPS = ("classic", "consumer", "g", "offsets")
TRANSACTIONS = ("ended", "open")
TOPIC = "t"
DEDUPE_BYTES = 1 << 20
SEGMENT_MS = 8 * 86_400_000
STATE_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC, METADATA_TOPIC)
UNKNOWN_TYPE = b"\x7f\x7f"


def produce_request(topic: str, partition: int, batch: bytes) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(partition, batch)
    return ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(topic, partition_data=[data])])


class ReplayDesk(Desk):
    def restart(self, *settings: str, clean: bool = True) -> ReplayDesk:
        """Open another broker on the same files, after an orderly shutdown or a kill."""
        self.journal.close()
        if not clean:
            remove_mark(self.files, DIRECTORY)
        return type(self)(*(settings or self.settings), files=self.files)

    def copy(self) -> ReplayDesk:
        """Open another broker on a copy of the files, after an orderly shutdown of this one."""
        self.journal.close()
        return type(self)(*self.settings, files=copy.deepcopy(self.files))

    def append(self, topic: str, partition: int, records: list[tuple[bytes | None, bytes | None]], **more: Any) -> None:
        """Append a batch as if an older release had accepted it."""
        log = self.broker.logs.find(topic, partition)
        assert log is not None
        batch = build_batch([NewRecord(value, key, self.now_ms) for key, value in records], **more)
        entry = log.append(read_header(batch), batch, self.now_ms).entry
        assert entry is not None
        self.commit([entry])

    def compact_all(self) -> None:
        """Archive the journal, begin new segments, and compact the older ones even if they are hardly dirty."""
        self.archive_all()
        self.now_ms += SEGMENT_MS
        for topic in STATE_TOPICS:
            for log in self.broker.logs.partitions(topic):
                self.append(topic, log.partition, [(UNKNOWN_TYPE, b"")])
        self.archive_all()
        while (found := next_round(self.broker.logs, self.now_ms, is_forced=True)) is not None:
            cleaned = clean(self.archive, found.manifest, found.plan, found.last_records, self.now_ms, DEDUPE_BYTES)
            if cleaned is None:
                return
            edit, deleted = self.archive.replace(found.key, cleaned)
            self.broker.logs.show(edit)
            self.archive.delete_files(deleted)

    def produce(
        self,
        topic: str,
        partition: int,
        records: list[tuple[bytes | None, bytes | None]],
        *,
        client_id: str = ADMIN_CLIENT_ID,
        damage: bool = False,
        **fields: int,
    ) -> Any:
        """Return the response to a produce request to an internal topic, by an administrator unless another client is
        given.

        `fields` are those of the batch.
        """
        batch = bytearray(build_batch([NewRecord(value, key, self.now_ms) for key, value in records], **fields))
        batch[-1] ^= damage
        self.client_id = client_id
        return self.ask(produce_request(topic, partition, bytes(batch)), 9).responses[0].partition_responses[0]

    def partition(self, topic: str) -> int:
        """Return the partition of a topic with state that these tests write to; that of the group "new"."""
        return 0 if topic in (METADATA_TOPIC, OFFSETS_TOPIC) else 1


def with_state() -> ReplayDesk:
    """Return a desk with groups of every type, offsets, transactions and share partitions."""
    desk = ReplayDesk(*SETTINGS)
    for topic_name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC, TOPIC):
        desk.create_topic(topic_name)
    topic = desk.broker.topics.get(TOPIC)
    assert topic is not None
    classic = ClassicGroup(
        group_id="classic",
        state=GroupState.STABLE,
        generation_id=3,
        protocol_type="consumer",
        protocol_name="range",
        leader="m",
    )
    classic.add(
        Member(
            member_id="m",
            group_instance_id="i",
            client_id="c",
            client_host="h",
            rebalance_timeout_ms=60_000,
            session_timeout_ms=30_000,
            protocols=(MemberProtocol("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"),),
        )
    )
    groups = desk.broker.groups.topic
    records = {"classic": [group_metadata_record(classic, {"m": b"assigned"})]}
    for name in ("classic", "offsets"):
        offset = offset_record(OffsetKey(name, TOPIC, 1), CommittedOffset(7, -1, "note", desk.now_ms))
        records.setdefault(name, []).append(offset)
    for name, written in records.items():
        log = groups.log_of(name)
        assert log is not None
        desk.commit([append_records(log, written, desk.now_ms)])
    joins = ConsumerGroupHeartbeatRequest("consumer", "m", 0, rebalance_timeout_ms=60_000, topic_partitions=[])
    joins.subscribed_topic_names = [TOPIC]
    assert desk.ask(joins, 1).error_code == 0
    sharing = ShareDesk(desk=desk, topic=TOPIC)
    sharing.reset("earliest")
    sharing.heartbeat()
    sharing.produce(5)
    sharing.fetch(0, [0])
    sharing.fetch(1, [0], {0: [(0, 1, [1])]})
    for name in TRANSACTIONS:
        producer = Producer(desk, name)
        desk.ask(producer.add(0), 3)
        desk.ask(producer.produce(0), 9)
        if name == "ended":
            assert producer.ended() == 0
    return desk.restart()


def seen(desk: Desk) -> dict[str, Any]:
    """Return all state of `with_state` that the broker shows."""
    broker = desk.broker
    topic = broker.topics.get(TOPIC)
    assert topic is not None
    share = broker.share.manager.states.find(ShareKey("g", topic.topic_id, 0))
    assert share is not None
    return {
        "topics": [broker.topics.get(name) for name in sorted(broker.internal_topics | {TOPIC})],
        "listed": [
            each for groups in broker.groups for each in groups.coordinator.list_groups() if each.group_id in GROUPS
        ],
        "classic": coordinator_of(broker, "classic").describe("classic"),
        "consumer": coordinator_of(broker, "consumer").consumer.describe("consumer"),
        "share": coordinator_of(broker, "g").share.describe("g"),
        "offsets": [coordinator_of(broker, group_id).fetch(group_id) for group_id in GROUPS],
        "transactions": [transaction_coordinator_of(broker, name).get(name) for name in TRANSACTIONS],
        "state": (share.start_offset, share.batches, share.state_epoch),
        "ends": [log.log_end_offset for log in broker.logs.partitions(TOPIC)],
    }
