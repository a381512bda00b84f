"""A fixed sequence of deeds that makes the broker do everything that it does to its data directory.

Rules of this file: the deeds come one after the other, on one connection, always the same; what is sent is random bytes
of a seed. Records are so large, and the segments of journal (variant `counting`) and topics so small, that segments
roll, are archived, recycled, retained, compacted and deleted many times. What must be left of it is noted in a History
(topics, commits, ids of producers) and in KeptPartitions (records).
"""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.node.admin_socket import NoBrokerError, ask
from pipeline_broker.node.operator_commands import CommandFailedError
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from tests.crashes.history import History, Register, TopicFate
from tests.crashes.kept import COMPACTED, DELETED, RETAINED, KeptPartition
from tests.crashes.kept_check import verify
from tests.crashes.kept_client import delete_records, write
from tests.crashes.member import commit_as_member, joined_group, leave_group
from tests.crashes.producers import new_producer_id
from tests.crashes.wire_client import WireClient

SETTINGS = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1")
SEGMENT = {"segment.bytes": "1048576", "file.delete.delay.ms": "0", "retention.ms": "-1"}
TOPICS = {
    "orders": (2, SEGMENT),
    "keys": (1, {**SEGMENT, "cleanup.policy": "compact", "delete.retention.ms": "0"}),
    "short": (1, {**SEGMENT, "retention.bytes": "1000000"}),
}
POLICIES = {"orders": DELETED, "keys": COMPACTED, "short": RETAINED}
GROUP = "group"
KEYS = (b"a", b"b", b"c", b"d")
LARGE_BYTES = 100_000
LARGE_RECORDS = 12
"""Of so many bytes: more than a segment of a topic."""
TIMEOUT_MS = 10_000
TIMESTAMP_MS = 1_700_000_000_000


class Deeds:
    """See the module."""

    def __init__(self, random, address, data):
        self.random = random
        self.address = address
        self.data = data
        self.history = History()
        self.topic_ids = {}
        self.kept = {
            (name, index): KeptPartition(name, index, POLICIES[name])
            for name, (partitions, _) in TOPICS.items()
            for index in range(partitions)
        }
        self.done = []

    def run(self):
        """Do all of them; whether the broker was there until the end."""
        try:
            with WireClient(self.address) as client:
                for deed in (
                    self._create_topics,
                    self._join,
                    self._make,
                    self._delete,
                    self._make,
                    self._overwrite_keys,
                    self._fill_short,
                    self._fill_orders,
                    self._grow,
                    self._overwrite_keys,
                    self._leave,
                ):
                    deed(client)
                    self.done.append(deed.__name__)
        except (ConnectionError, CommandFailedError, NoBrokerError):
            return False
        return True

    def write_everywhere(self):
        """A record more for each partition that is there: the broker works."""
        with WireClient(self.address) as client:
            for topic, index in self.kept:
                if topic in self.topic_ids:
                    self._write(client, topic, index, KEYS[0])

    def verify(self):
        """Hold what there is against what was told; gives the number of records that were compared."""
        return verify(self.address, self.history, self.topic_ids, self.kept.values())

    def _write(self, client, topic, index, key, size_bytes=100, *, is_tombstone=False):
        value = None if is_tombstone else self.random.randbytes(size_bytes)
        write(client, self.topic_ids, self.kept[topic, index], key, value, TIMESTAMP_MS)

    def _create(self, client, name, partitions, config):
        fate = self.history.topics[name] = TopicFate(partitions)
        configs = [CreateTopicsRequest.CreatableTopicConfig(*item) for item in config.items()]
        topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1, configs=configs)
        (result,) = client.ask(CreateTopicsRequest([topic], timeout_ms=TIMEOUT_MS)).topics
        assert result.error_code == ErrorCode.NONE, f"creating {name} got error {result.error_code}"
        fate.topic_id, fate.created = result.topic_id, True
        self.topic_ids[name] = result.topic_id

    def _create_topics(self, client):
        for name, (partitions, config) in TOPICS.items():
            self._create(client, name, partitions, config)
        new_producer_id(client, self.history)

    def _join(self, client):
        self._member = joined_group(client, GROUP)
        self._commit(client, 7)

    def _commit(self, client, offset):
        register = self.history.commits.setdefault((GROUP, "orders", 0), Register(None))
        register.send(offset)
        code = commit_as_member(client, GROUP, *self._member, self.topic_ids["orders"], offset)
        assert code == ErrorCode.NONE, f"the commit got error {code}"
        register.acknowledge()

    def _overwrite_keys(self, client):
        for number in range(LARGE_RECORDS):
            self._write(client, "keys", 0, KEYS[number % len(KEYS)], LARGE_BYTES)
        self._write(client, "keys", 0, KEYS[0], is_tombstone=True)
        ask(self.data, "compact")

    def _fill_short(self, client):
        for _ in range(2 * LARGE_RECORDS):
            self._write(client, "short", 0, None, LARGE_BYTES)
        ask(self.data, "retain")

    def _fill_orders(self, client):
        for _ in range(LARGE_RECORDS):
            self._write(client, "orders", 0, None, LARGE_BYTES)
            self._write(client, "orders", 1, None)
        delete_records(client, self.kept["orders", 0], LARGE_RECORDS - 2)
        delete_records(client, self.kept["orders", 1], 3)
        ask(self.data, "retain")

    def _make(self, client):
        self._create(client, "made", 1, SEGMENT)
        self.kept["made", 0] = KeptPartition("made", 0)
        for _ in range(LARGE_RECORDS // 2):
            self._write(client, "made", 0, None, LARGE_BYTES)

    def _delete(self, client):
        self.history.topics["made"].deletion_sent = True
        del self.topic_ids["made"], self.kept["made", 0]
        request = DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name="made")], timeout_ms=TIMEOUT_MS)
        (result,) = client.ask(request).responses
        assert result.error_code == ErrorCode.NONE, f"deleting got error {result.error_code}"
        self.history.topics["made"].deleted = True

    def _grow(self, client):
        fate, count = self.history.topics["orders"], TOPICS["orders"][0] + 1
        fate.partitions_sent = count
        topic = CreatePartitionsRequest.CreatePartitionsTopic("orders", count, assignments=None)
        (result,) = client.ask(CreatePartitionsRequest([topic], timeout_ms=TIMEOUT_MS)).results
        assert result.error_code == ErrorCode.NONE, f"adding a partition got error {result.error_code}"
        fate.partitions, fate.partitions_sent = count, None
        self.kept["orders", count - 1] = KeptPartition("orders", count - 1)
        self._write(client, "orders", count - 1, None)

    def _leave(self, client):
        self._commit(client, 8)
        leave_group(client, GROUP, self._member[1])
