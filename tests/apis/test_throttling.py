"""A request above its quota gets a throttle time, and its connection is not read for that time (KIP-219)."""

import attrs
import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.security.principal import KafkaPrincipal
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from stages.request import NO_OP, Close, Parked, Pending, Unfinished, go_on
from tests.apis.configs.quota_requests import alter
from tests.apis.desk import Desk

EVERYBODY = [("user", None)]
MS = 1_000_000
BATCH = 970
"""A batch with a record of 900 bytes."""


@pytest.fixture
def desk():
    desk = Desk()
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 7)
    return desk


def produce_request(desk, size, acks=-1, topic="t"):
    data = ProduceRequest.PartitionProduceData(0, build_batch([NewRecord(b"x" * size, None, desk.now_ms)]))
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])])


def produce(desk, size, version=9):
    answer = desk.ask(produce_request(desk, size), version)
    return answer.throttle_time_ms, answer.responses[0].partition_responses[0].error_code


def fetch_request(session_id=0, epoch=-1):
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic="t", partitions=[partition])] if epoch <= 0 else []
    return FetchRequest(topics=topics, session_id=session_id, session_epoch=epoch, max_bytes=1 << 20)


def fetch(desk, session_id=0, epoch=-1):
    return desk.ask(fetch_request(session_id, epoch), 12)


def listed(answer):
    return [
        (topic.topic, data.partition_index, len(data.records or b""))
        for topic in answer.responses
        for data in topic.partitions
    ]


class TestProduce:
    @pytest.mark.parametrize("version", [one for one in versions_of(ProduceRequest) if one < 13])
    def test_the_fast_and_the_general_path_throttle_alike(self, desk, version):
        """The first request takes the general path, later ones the fast path; both count their bytes."""
        alter(desk, EVERYBODY, ("producer_byte_rate", 1_000.0))
        told = [produce(desk, 6_000, version) for _ in range(4)]
        assert desk.connection.session.produce_templates is not None
        assert [code for _, code in told] == [0] * 4
        frame = 6_000 + 130
        for number, (throttle_ms, _) in enumerate(told, 1):
            expected = max(0, (number * frame / 10 - 1_000) / 1_000 * 10_000)
            assert throttle_ms == pytest.approx(expected, rel=0.05, abs=60)
        assert desk.connection.throttles == [throttle_ms / 1_000 for throttle_ms, _ in told if throttle_ms]

    def test_a_throttled_request_is_appended_and_durable(self, desk):
        alter(desk, EVERYBODY, ("producer_byte_rate", 1.0))
        result = desk.decide(produce_request(desk, 1_000), 9)
        assert isinstance(result, Pending)
        assert desk.connection.throttles

    @pytest.mark.parametrize("requests", [1, 2], ids=["general way", "short way"])
    def test_a_throttle_above_31_bits_is_reported_as_the_maximum(self, desk, requests):
        """A very small quota can require years; the field has 31 bits of milliseconds."""
        assert desk.ask(produce_request(desk, 6_000), 9).throttle_time_ms == 0
        alter(desk, EVERYBODY, ("producer_byte_rate", 1e-9))  # whole enough for Kafka's check
        for _ in range(requests):
            told, code = produce(desk, 6_000)
            assert (told, code) == (2**31 - 1, 0)

    def test_without_an_answer_the_connection_is_throttled_too(self, desk):
        alter(desk, EVERYBODY, ("producer_byte_rate", 1.0))
        result = desk.decide(produce_request(desk, 1_000, acks=0), 9)
        assert isinstance(result, Pending)
        assert result.result is NO_OP
        assert len(desk.connection.throttles) == 1

    def test_without_an_answer_the_time_is_not_charged(self, desk):
        alter(desk, EVERYBODY, ("request_percentage", 1.0))
        desk.request_ns = 500 * MS
        assert isinstance(desk.decide(produce_request(desk, 10, acks=0, topic="none"), 9), Close)
        desk.decide(produce_request(desk, 10, acks=0), 9)
        assert not desk.connection.throttles

    def test_throttling_ends_with_the_windows(self, desk):
        alter(desk, EVERYBODY, ("producer_byte_rate", 1_000.0))
        assert produce(desk, 20_000)[0] > 0
        desk.now_ms += 11_000
        assert produce(desk, 5_000)[0] == 0

    def test_quotas_of_others_do_not_count(self, desk):
        alter(desk, [("user", "somebody else")], ("producer_byte_rate", 1.0))
        alter(desk, [("client-id", "not the desk")], ("producer_byte_rate", 1.0))
        assert produce(desk, 20_000)[0] == 0

    def test_the_client_of_a_quota_is_the_principal_with_its_client_id(self, desk):
        alter(desk, [("user", "ann"), ("client-id", "desk")], ("producer_byte_rate", 1.0))
        assert [produce(desk, 1_000)[0] for _ in range(2)] == [0, 0]
        desk.connection.session.principal = KafkaPrincipal("User", "ann")
        assert all(produce(desk, 1_000)[0] > 0 for _ in range(2))

    def test_a_client_without_an_id_is_one_client_on_either_way(self, desk):
        alter(desk, [("client-id", None)], ("producer_byte_rate", 1.0))
        desk.client_id = None
        (first_ms, _), (second_ms, _) = [produce(desk, 1_000) for _ in range(2)]
        assert desk.connection.session.produce_templates is not None
        assert second_ms > 1.5 * first_ms
        assert [it.client_id for it in desk.broker.quotas.statistics().produce] == [""]

    def test_a_removed_quota_throttles_no_client(self, desk):
        alter(desk, EVERYBODY, ("producer_byte_rate", 1.0))
        alter(desk, EVERYBODY, ("producer_byte_rate", None))
        assert not desk.broker.quotas.is_active
        assert produce(desk, 20_000)[0] == 0


class TestFetch:
    def test_a_throttled_answer_is_empty_and_its_bytes_are_not_counted(self, desk):
        produce(desk, 900)
        alter(desk, EVERYBODY, ("consumer_byte_rate", 110.0))
        assert listed(fetch(desk)) == [("t", 0, BATCH)]
        refused = fetch(desk)
        assert (listed(refused), refused.error_code) == ([], 0)
        assert refused.throttle_time_ms == pytest.approx(10_000, rel=0.2)
        assert fetch(desk).throttle_time_ms == refused.throttle_time_ms
        desk.now_ms += 11_000
        assert listed(fetch(desk)) == [("t", 0, BATCH)]

    def test_no_more_is_read_than_the_windows_allow(self, desk):
        """Two batches wait; one fits."""
        for _ in range(2):
            produce(desk, 900)
        alter(desk, EVERYBODY, ("consumer_byte_rate", 150.0))
        answer = fetch(desk)
        assert (listed(answer), answer.throttle_time_ms) == ([("t", 0, BATCH)], 0)

    def test_an_incremental_session_returns_withheld_records_later(self, desk):
        first = fetch(desk, epoch=0)
        produce(desk, 2_000)
        alter(desk, EVERYBODY, ("consumer_byte_rate", 150.0))
        fetch(desk)
        alter(desk, EVERYBODY, ("consumer_byte_rate", 1.0))
        throttled = fetch(desk, first.session_id, 1)
        assert (listed(throttled), throttled.session_id) == ([], first.session_id)
        assert throttled.throttle_time_ms > 0
        alter(desk, EVERYBODY, ("consumer_byte_rate", None))
        assert listed(fetch(desk, first.session_id, 2)) == [("t", 0, 2_070)]

    def test_a_throttled_full_fetch_opens_no_session(self, desk):
        produce(desk, 900)
        alter(desk, EVERYBODY, ("consumer_byte_rate", 110.0))
        fetch(desk)
        assert fetch(desk, epoch=0).session_id == 0

    def test_a_batch_above_all_windows_is_returned_if_nothing_else_was(self, desk):
        """Otherwise it would never be returned. It counts, and the client waits afterwards."""
        produce(desk, 900)
        alter(desk, EVERYBODY, ("consumer_byte_rate", 10.0))
        answer = fetch(desk)
        assert listed(answer) == [("t", 0, BATCH)]
        assert answer.throttle_time_ms == pytest.approx(95_000, rel=0.1)
        assert listed(fetch(desk)) == []
        desk.now_ms += 11_000
        assert listed(fetch(desk)) == [("t", 0, BATCH)]

    def test_bytes_read_from_disk_count_too(self, desk):
        produce(desk, 900)
        again = desk.restart()
        alter(again, EVERYBODY, ("consumer_byte_rate", 110.0))
        again.files.is_cold = True
        assert isinstance(again.decide(fetch_request(), 12), Parked)
        assert listed(fetch(again)) == []

    def test_a_client_whose_answer_is_read_from_the_disk_is_throttled_before_that(self, desk):
        """Connections belong to the event loop, and the answer is built in a thread."""
        produce(desk, 900)
        again = desk.restart()
        alter(again, EVERYBODY, ("consumer_byte_rate", 10.0))
        again.files.is_cold = True
        request = fetch_request()
        result = again.decide(request, 12)
        assert isinstance(result, Parked)
        throttles = list(again.connection.throttles)
        assert len(throttles) == 1
        assert again.finish(request, 12, result).throttle_time_ms == throttles[0] * 1_000
        assert again.connection.throttles == throttles

    @pytest.mark.parametrize("is_cold", [False, True], ids=["cached", "from the disk"])
    def test_the_size_of_the_answer_counts(self, desk, is_cold):
        """Records in memory and on disk, and errors, count alike; the answer omits other partitions."""
        produce(desk, 900)
        desk = desk.restart()
        alter(desk, EVERYBODY, ("consumer_byte_rate", 1e6))
        desk.files.is_cold = is_cold
        request = fetch_request()
        (topic,) = request.topics
        (found,) = topic.partitions
        topic.partitions = [found, *(attrs.evolve(found, partition=missing) for missing in range(5, 15))]
        result = desk.decide(request, 12)
        assert isinstance(result, Parked) is is_cold
        parts = (result.work() if is_cold else result).parts
        (client,) = desk.broker.quotas.statistics().fetch
        total = desk.broker.quotas.fetch.total(client.user or "", client.client_id or "", desk.now_ms)
        assert total == pytest.approx(sum(map(len, parts)), abs=8)  # a header, and the length of records not read yet

    def test_time_of_the_handlers_empties_it_too(self, desk):
        produce(desk, 900)
        alter(desk, EVERYBODY, ("request_percentage", 0.001), ("consumer_byte_rate", 1e6))
        desk.request_ns = MS
        answer = fetch(desk)
        assert (listed(answer), answer.throttle_time_ms > 0) == ([], True)
        (client,) = desk.broker.quotas.statistics().fetch
        assert client.per_second == 0


class TestRequestTime:
    def test_percent_of_one_thread(self, desk):
        """Two seconds of handling in 10 are 20 percent: twice a limit of 10, so the throttle is a whole window."""
        alter(desk, EVERYBODY, ("request_percentage", 10.0))
        desk.request_ns = 500 * MS
        assert desk.ask(ListGroupsRequest(), 3).throttle_time_ms == 0
        assert [desk.ask(ListGroupsRequest(), 3).throttle_time_ms for _ in range(4)][-1] == 1_000
        assert desk.connection.throttles[-1] == 1

    @pytest.mark.parametrize(("percentage", "is_throttled"), [(1.0, True), (50.0, False)])
    def test_each_turn_of_a_request_counts_but_not_the_time_between(self, desk, percentage, is_throttled):
        alter(desk, EVERYBODY, ("request_percentage", percentage))
        desk.request_ns = 100 * MS
        partitions = [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(index) for index in range(500)]
        request = OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderEpochRequest.OffsetForLeaderTopic("t", partitions)]
        )
        unfinished = desk.decide(request, 4)
        assert isinstance(unfinished, Unfinished)
        desk.now_ms += 60_000
        answer = desk.finish(request, 4, go_on(unfinished.steps))
        assert (answer.throttle_time_ms > 0) == is_throttled

    def test_every_api_counts(self, desk):
        alter(desk, EVERYBODY, ("request_percentage", 0.001))
        desk.request_ns = MS
        assert desk.ask(ApiVersionsRequest("c", "1"), 3).throttle_time_ms > 0
        assert produce(desk, 10)[0] > 0
        assert produce(desk, 10)[0] > 0

    def test_the_longest_of_the_throttles_counts(self, desk):
        """Bytes require ten seconds, time at most one."""
        alter(desk, EVERYBODY, ("request_percentage", 0.001), ("producer_byte_rate", 100.0))
        desk.request_ns = MS
        throttle_ms, _ = produce(desk, 2_000)
        assert throttle_ms > 10_000
        assert desk.connection.throttles == [throttle_ms / 1_000]

    def test_an_older_version_without_the_field_is_throttled_too(self, desk):
        alter(desk, EVERYBODY, ("request_percentage", 0.001))
        desk.request_ns = MS
        desk.ask(ListGroupsRequest(), 0)
        assert desk.connection.throttles


class TestStatistics:
    def test_the_rates_of_every_measured_client_are_reported(self, desk):
        alter(desk, [("client-id", "desk")], ("producer_byte_rate", 100.0), ("controller_mutation_rate", 1.0))
        throttle_ms, _ = produce(desk, 2_000)
        (client,) = desk.broker.quotas.statistics().produce
        assert (client.user, client.client_id, client.throttle_time_ms) == (None, "desk", throttle_ms)
        assert client.per_second == pytest.approx(210, rel=0.05)
        assert desk.broker.quotas.statistics().mutation == ()


def test_a_throttled_fetch_reports_the_error_of_its_session(desk):
    """The epoch advanced during the fetch; Kafka reports that whether the fetch is throttled or not."""
    first = fetch(desk, epoch=0)
    sessions = desk.broker.fetch_sessions
    begin = {"uses_topic_ids": False, "now_ms": desk.now_ms}
    old = sessions.begin(first.session_id, 1, {}, [], **begin)
    assert sessions.skip(old) is ErrorCode.NONE
    sessions.begin(first.session_id, 2, {}, [], **begin)
    assert sessions.skip(old) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
