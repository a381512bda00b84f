"""A cluster whose brokers stop and start while leaders move, against a model of its topic.

The clients send single requests, so every answer is compared, also those to a batch that is sent again.
"""

import itertools

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pipeline_broker import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from pipeline_broker.wire.messages.data.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.apis.wire_client import WireClient
from tests.embedded.clusters import create_replicated, wait_until

PARTITIONS = range(2)
NODES = range(1, 4)
OLDEST = -2
LATEST = -1
RETRIED = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
names = itertools.count()


class Partition:
    """The model of a partition: its entries with their producers' transactions, and its leaderships."""

    def __init__(self, leader, candidates):
        self.leader, self.candidates, self.epoch = leader, candidates, 0
        self.entries = []  # value, number of its transaction or None; None for a marker
        self.starts = {0: 0}  # by epoch: the offset at which it began, if it has entries
        self.log_start = 0
        self.former = set()

    @property
    def end(self):
        return len(self.entries)

    def elect(self, node):
        self.former.add(self.leader)
        self.leader, self.epoch = node, self.epoch + 1

    def append(self, *entries):
        self.starts.setdefault(self.epoch, self.end)
        self.entries += entries

    def values(self, counts):
        entries = itertools.takewhile(counts, enumerate(self.entries))
        return [(offset, entry) for offset, entry in entries if entry is not None and offset >= self.log_start]

    def end_of(self, epoch):
        """The latest epoch with entries up to this one, and where the next one begins."""
        later = [(each, start) for each, start in self.starts.items() if each > epoch]
        return min(later)[1] if later else self.end


class ElectionMachine(RuleBasedStateMachine):
    """Subclasses set `cluster` and `about`, which counts what an example is about."""

    cluster = None
    about = staticmethod(lambda name: None)

    @initialize()
    def create(self):
        self.topic = f"t{next(names)}"
        self.group = f"g-{self.topic}"
        create_replicated(self.cluster, self.topic, len(PARTITIONS), 3, {"retention.ms": "-1"})
        self.running, self.clients = set(NODES), {}
        self.partitions = [Partition(*self.on(1, self._leader, number)) for number in PARTITIONS]
        self.find_coordinators()
        self.values = map(str, itertools.count())
        self.producer = self.new_producer(None)
        self.sequences, self.last = [0 for _ in PARTITIONS], {}
        self.transaction, self.ended, self.numbers = None, {}, itertools.count()
        self.committed = {}
        for number in PARTITIONS:
            self.write(number, 1)

    def disconnect(self, node):
        if node in self.clients:
            self.clients.pop(node).socket.close()

    def teardown(self):
        for node in NODES:
            self.disconnect(node)
        for node in sorted(set(NODES) - self.running):
            self.cluster.start(self.cluster.brokers[node - 1])

    # The cluster

    def on(self, node, function, *arguments):
        return self.cluster.brokers[node - 1].on_loop(lambda running: function(running.broker, *arguments))

    def _leader(self, broker, number):
        leadership = broker.leadership
        return leadership.leader_of(self.topic, number).broker_id, leadership.replicas_of(self.topic, number)

    def coordinator(self, kind, subject):
        """The broker that leads the partition of a group or transactional id; None while it is stopped."""

        def find(broker):
            topic = getattr(broker, kind).topic
            return broker.leadership.recorded_leader(topic.name, topic.partition_of(subject))

        node = self.on(min(self.running), find)
        return node if node in self.running else None

    def find_coordinators(self):
        for key_type, key in enumerate((self.group, f"x-{self.topic}")):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            wait_until(
                lambda request=request: not self.ask(1, request, FindCoordinatorResponse, 4).coordinators[0].error_code
            )

    def ask(self, node, request, response, version):
        if node not in self.clients:
            self.clients[node] = WireClient(*self.cluster.brokers[node - 1].addresses["PLAINTEXT"])
        return self.clients[node].ask(request, response, version)

    def led(self, number):
        return self.partitions[number].leader in self.running

    @rule(number=st.sampled_from(PARTITIONS))
    def stop_leader(self, number):
        self.stop(self.partitions[number].leader)

    @rule(node=st.sampled_from(NODES))
    def stop(self, node):
        if self.running <= {node} or node not in self.running:
            return
        for partition in self.partitions:
            living = [each for each in partition.candidates if each in self.running and each != node]
            if partition.leader == node and 1 in self.running:
                partition.elect(living[0])
                self.about("an election")
                self.about("an election with an open transaction") if self.transaction else None
            elif partition.leader == node:
                self.about("a stop without a controller")
        self.cluster.stop(self.cluster.brokers[node - 1])
        self.running.remove(node)
        self.disconnect(node)
        for number in PARTITIONS:
            self.write_again(number)

    @rule(choice=st.integers(0, 1))
    def start(self, choice):
        stopped = [node for node in NODES if node not in self.running and (node == 1 or 1 in self.running)]
        if stopped:
            node = stopped[choice % len(stopped)]
            self.cluster.start(self.cluster.brokers[node - 1])
            self.running.add(node)

    @rule(choice=st.integers(0, 2), number=st.sampled_from(PARTITIONS))
    def move(self, choice, number):
        partition = self.partitions[number]
        others = [*sorted(self.running - {partition.leader}), partition.leader]
        self.move_to(number, others[choice % len(others)])

    @rule(number=st.sampled_from(PARTITIONS))
    def move_back(self, number):
        for node in sorted(self.partitions[number].former & self.running)[:1]:
            self.move_to(number, node)

    def move_to(self, number, node):
        partition = self.partitions[number]
        if 1 not in self.running or not self.led(number):
            return
        if node != partition.leader:
            self.about("a move")
            if any(partition.entries) and node in partition.former:
                self.about("a return to a former leader")
            partition.elect(node)
        self.cluster.move_leader(self.topic, number, self.cluster.brokers[node - 1])

    @rule(seconds=st.sampled_from([0.5, 5]))
    def advance(self, seconds):
        self.cluster.advance(seconds)

    # Records

    def new_producer(self, transactional_id):
        node = min(self.running) if transactional_id is None else self.coordinator("transactions", transactional_id)
        request = InitProducerIdRequest(transactional_id, 900_000)
        answer = self.until_settled(lambda: self.ask(node, request, InitProducerIdResponse, 4))
        assert answer.error_code == ErrorCode.NONE
        return answer.producer_id, answer.producer_epoch

    def until_settled(self, call):
        while (answer := call()).error_code in RETRIED:
            pass
        return answer

    def produce(self, number, records, transactional_id=None):
        data = ProduceRequest.PartitionProduceData(number, records)
        request = ProduceRequest(
            transactional_id, -1, 30_000, [ProduceRequest.TopicProduceData(self.topic, partition_data=[data])]
        )
        answer = self.ask(self.partitions[number].leader, request, ProduceResponse, 9)
        return answer.responses[0].partition_responses[0]

    @rule(number=st.sampled_from(PARTITIONS), count=st.integers(1, 3))
    def write(self, number, count):
        if not self.led(number):
            return
        values = list(itertools.islice(self.values, count))
        records = [NewRecord(value.encode(), None, 1_000_000) for value in values]
        (producer_id, epoch), sequence = self.producer, self.sequences[number]
        batch = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        answer = self.produce(number, batch)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, self.partitions[number].end)
        self.last[number] = batch, answer.base_offset, self.partitions[number].epoch
        self.sequences[number] += count
        self.partitions[number].append(*((value, None) for value in values))

    @rule(number=st.sampled_from(PARTITIONS))
    def write_again(self, number):
        if number not in self.last or not self.led(number):
            return
        batch, base_offset, epoch = self.last[number]
        answer = self.produce(number, batch)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, base_offset)
        if epoch != self.partitions[number].epoch:
            self.about("a duplicate after an election")

    @rule(number=st.sampled_from(PARTITIONS), share=st.floats(0, 1))
    def delete_records(self, number, share):
        if not self.led(number) or self.transaction:
            return
        partition = self.partitions[number]
        offset = max(partition.log_start, round(partition.end * share))
        wanted = DeleteRecordsRequest.DeleteRecordsPartition(number, offset)
        request = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(self.topic, [wanted])], 30_000)
        answer = self.ask(partition.leader, request, DeleteRecordsResponse, 2).topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, offset)
        partition.log_start = offset

    # Transactions

    @rule(numbers=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def begin(self, numbers):
        name = f"x-{self.topic}"
        node = self.coordinator("transactions", name)
        if self.transaction or node is None or not all(map(self.led, numbers)):
            return
        producer_id, epoch = self.new_producer(name)
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(self.topic, sorted(numbers))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[topic],
        )
        answer = self.ask(node, request, AddPartitionsToTxnResponse, 3)
        codes = {it.partition_error_code for it in answer.results_by_topic_v3_and_below[0].results_by_partition}
        assert codes == {ErrorCode.NONE}
        number = next(self.numbers)
        for partition in numbers:
            value = next(self.values)
            batch = build_batch(
                [NewRecord(value.encode(), None, 1_000_000)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,
                transactional=True,
            )
            answer = self.produce(partition, batch, name)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, self.partitions[partition].end)
            self.partitions[partition].append((value, number))
        self.transaction = number, numbers, producer_id, epoch, [each.epoch for each in self.partitions]

    @rule(is_commit=st.booleans())
    def end(self, is_commit):
        name = f"x-{self.topic}"
        node = self.coordinator("transactions", name)
        if not self.transaction or node is None or not all(map(self.led, self.transaction[1])):
            return
        number, numbers, producer_id, epoch, epochs = self.transaction
        request = EndTxnRequest(name, producer_id, epoch, is_commit)
        assert self.until_settled(lambda: self.ask(node, request, EndTxnResponse, 3)).error_code == ErrorCode.NONE
        if any(epochs[each] != self.partitions[each].epoch for each in numbers):
            self.about("an end of a transaction after an election")
        self.transaction, self.ended[number] = None, is_commit
        for each in numbers:
            self.partitions[each].append(None)
            # The markers for other brokers follow the answer.
            wait_until(lambda each=each: self.offset(each, LATEST) == self.partitions[each].end)

    # Groups

    @rule(number=st.sampled_from(PARTITIONS), offset=st.integers(0, 99))
    def commit(self, number, offset):
        node = self.coordinator("groups", self.group)
        if node is None:
            return
        wanted = OffsetCommitRequest.OffsetCommitRequestPartition(number, offset, committed_metadata=None)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(self.topic, partitions=[wanted])
        answer = self.ask(node, OffsetCommitRequest(self.group, topics=[topic]), OffsetCommitResponse, 7)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        self.committed[self.topic, number] = offset

    @invariant()
    def offsets_stay(self):
        if self.coordinator("groups", self.group) is not None:
            assert self.cluster.offsets(self.group) == self.committed

    # What clients see

    def list_offsets(self, number, timestamp, known):
        wanted = ListOffsetsRequest.ListOffsetsPartition(number, known, timestamp)
        request = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic(self.topic, [wanted])])
        answer = self.ask(self.partitions[number].leader, request, ListOffsetsResponse, 4)
        return answer.topics[0].partitions[0]

    def offset(self, number, timestamp):
        return self.list_offsets(number, timestamp, self.partitions[number].epoch).offset

    @invariant()
    def all_brokers_show_the_leaders(self):
        for node, number in itertools.product(self.running, PARTITIONS):
            partition = self.partitions[number]
            leader, replicas = self.on(node, self._leader, number)
            assert replicas == partition.candidates
            if self.led(number):
                assert leader == partition.leader
            elif 1 in self.running:
                assert leader == -1
            else:  # without a controller no broker learns that another one has stopped
                assert leader in {-1, partition.leader}

    @invariant()
    def records_stay(self):
        for number, partition in enumerate(self.partitions):
            if not self.led(number):
                continue
            shown = self.cluster.records(self.topic, partition=number, committed=False)
            all_of_them = partition.values(lambda _: True)
            assert [(it.offset, it.value.decode()) for it in shown] == [(at, value) for at, (value, _) in all_of_them]
            decided = partition.values(self.is_decided)
            visible = [(at, value) for at, (value, of) in decided if of is None or self.ended[of]]
            shown = self.cluster.records(self.topic, partition=number)
            assert [(it.offset, it.value.decode()) for it in shown] == visible

    def check(self):
        for fact in (self.all_brokers_show_the_leaders, self.offsets_and_epochs_stay, self.offsets_stay):
            fact()
        self.records_stay()

    def is_decided(self, numbered):
        _, entry = numbered
        return entry is None or not self.transaction or entry[1] != self.transaction[0]

    @invariant()
    def offsets_and_epochs_stay(self):
        for number, partition in enumerate(self.partitions):
            if not self.led(number):
                continue
            assert self.offset(number, OLDEST) == partition.log_start
            assert self.offset(number, LATEST) == partition.end
            if partition.epoch:
                fenced = self.list_offsets(number, LATEST, partition.epoch - 1)
                assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
            for epoch in partition.starts:
                if partition.end_of(epoch) > partition.log_start:
                    assert self.end_of_epoch(number, epoch) == partition.end_of(epoch)

    def end_of_epoch(self, number, epoch):
        partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(number, leader_epoch=epoch)
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(self.topic, [partition])
        request = OffsetForLeaderEpochRequest(topics=[topic])
        answer = self.ask(self.partitions[number].leader, request, OffsetForLeaderEpochResponse, 3)
        return answer.topics[0].partitions[0].end_offset
