"""Routing in a cluster of several brokers: leaders, coordinators, and failures of both."""

import functools

import attrs
import pytest
import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client import producer as producer_module
from pipeline_broker.client.cluster_client import connected
from pipeline_broker.client.consumer import Position, Reader
from pipeline_broker.client.errors import ClientError, ConnectionLost, NoSuchTopic
from pipeline_broker.client.groups import committed_offsets, list_groups
from pipeline_broker.client.offsets import BEGINNING, bounds_of, offsets_at
from pipeline_broker.client.produce_requests import ProducerOptions
from pipeline_broker.client.producer import producing
from pipeline_broker.records.batch import NewRecord
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.registry import ApiKey
from tests.client.fake_cluster import TOPIC, FakeCluster, HangUp, serving

TIMEOUT_S = 5.0

pytestmark = pytest.mark.trio


async def produce(address, partitions, rounds=3, *, timeout_s=TIMEOUT_S, options=None):
    """Write two records to each partition per round; returns the delivered records."""
    delivered = []
    async with connected([address], timeout_s) as cluster:
        arguments = cluster, TOPIC, options or ProducerOptions(), lambda batch, at: delivered.append((batch, at))
        async with producing(*arguments) as producer:
            number = 0
            for _ in range(rounds):
                for partition in partitions:
                    for _ in range(2):
                        number += 1
                        producer.add(NewRecord(b"%d" % number, timestamp=number), number, partition)
                await producer.flush()
    return delivered


async def consume(address, partitions, warn=lambda _: None):
    values = {}

    async def take(partition, batch):
        values.setdefault(partition[1], []).extend(record.value for record in batch.records)
        return batch.next_offset

    async with connected([address], TIMEOUT_S) as cluster:
        bounds = await bounds_of(cluster, [(TOPIC, partition) for partition in partitions])
        starts = await offsets_at(cluster, BEGINNING, bounds)
        positions = {it: Position(starts[it], bounds[it].end) for it in bounds}
        await Reader(cluster, positions, take, warn=warn).run()
    return values


async def test_each_leader_gets_the_records_of_its_partitions_and_is_read():
    fake = FakeCluster({0: 1, 1: 2, 2: 2, 3: 1})
    async with serving(fake) as address:
        await produce(address, range(4))
        values = await consume(address, range(4))
    assert values == {
        partition: [b"%d" % (8 * turn + 2 * partition + each) for turn in range(3) for each in (1, 2)]
        for partition in range(4)
    }
    assert {node for (node, key), count in fake.asked.items() if key == ApiKey.PRODUCE and count} == {1, 2}
    assert {node for (node, key), count in fake.asked.items() if key == ApiKey.FETCH and count} == {1, 2}


async def test_records_follow_a_leader_that_moves():
    fake = FakeCluster({0: 1, 1: 1})
    fake.hooks[ApiKey.PRODUCE] = lambda *_: fake.leaders.update({1: 2}) if fake.ends[1] == 2 else None
    async with serving(fake) as address:
        delivered = await produce(address, range(2))
        values = await consume(address, range(2))
    assert values[1] == [b"3", b"4", b"7", b"8", b"11", b"12"]
    assert sorted(number for batch, _ in delivered for number in batch.numbers) == list(range(1, 13))
    assert fake.asked[2, ApiKey.PRODUCE] > 0


async def test_a_reader_follows_a_leader_that_moves():
    fake = FakeCluster({0: 1, 1: 1})
    async with serving(fake) as address:
        await produce(address, range(2))
        fake.hooks[ApiKey.FETCH] = lambda *_: fake.leaders.update({1: 2})
        values = await consume(address, range(2))
    assert [len(values[partition]) for partition in range(2)] == [6, 6]


async def test_records_that_are_deleted_while_reading_are_skipped_with_a_warning():
    fake = FakeCluster({0: 1})
    warnings = []
    async with serving(fake) as address:
        await produce(address, [0])
        fake.hooks[ApiKey.FETCH] = lambda *_: setattr(fake, "start", 4)
        values = await consume(address, [0], warnings.append)
    assert values == {0: [b"5", b"6"]}
    assert warnings == ["t-0: offsets 0 to 3 were deleted, so they are skipped"]


async def test_a_batch_with_a_lost_response_is_stored_once():
    lost = []

    def append_and_hang_up(append, *batch):
        answer = append(*batch)
        if len(lost) < 2:
            lost.append(answer)
            raise HangUp
        return answer

    fake = FakeCluster({0: 1}, around_append=append_and_hang_up)
    async with serving(fake) as address:
        await produce(address, [0])
        values = await consume(address, [0])
    assert len(lost) == 2
    assert values[0] == [b"1", b"2", b"3", b"4", b"5", b"6"]


async def test_the_client_waits_for_a_missing_leader():
    fake = FakeCluster({0: None})
    seen = []

    def elect(*_):
        seen.append(1)
        if len(seen) > 3:
            fake.leaders[0] = 2

    fake.hooks[ApiKey.METADATA] = elect
    async with serving(fake) as address:
        await produce(address, [0], rounds=1)
    assert fake.ends[0] == 2


async def test_a_lasting_error_is_raised_after_the_timeout():
    fake = FakeCluster({0: None})
    async with serving(fake) as address:
        with pytest.raises(ExceptionGroup) as caught:
            await produce(address, [0], rounds=1, timeout_s=0.3)
    assert caught.group_contains(ClientError, match="nothing could be written to t for 0.3 s: .*LEADER_NOT_AVAILABLE")


async def test_idle_time_does_not_count_towards_the_timeout(mock_clock):
    """A first error after an idle period must be retried."""
    mock_clock.rate = 1
    refusals = []

    def refuse_once(append, *batch):
        return (refusals.pop(), -1) if refusals else append(*batch)

    fake = FakeCluster({0: 1}, around_append=refuse_once)
    async with (
        serving(fake) as address,
        connected([address], TIMEOUT_S) as cluster,
        producing(cluster, TOPIC, ProducerOptions(), lambda *_: None) as producer,
    ):
        for number in range(2):
            producer.add(NewRecord(b"x", timestamp=1), number, 0)
            await producer.flush()
            mock_clock.jump(2 * TIMEOUT_S)
            refusals.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert fake.ends[0] == 2


async def test_time_in_the_sink_does_not_count_towards_the_timeout(mock_clock):
    """A connection that broke while a pager blocked the output must be retried."""
    mock_clock.rate = 1
    fake, values, breaks = FakeCluster({0: 1}), [], []

    def hang_up(*_):
        if breaks:
            raise breaks.pop()

    async def take(_, batch):
        values.extend(record.value for record in batch.records)
        mock_clock.jump(2 * TIMEOUT_S)
        breaks.append(HangUp())
        return batch.next_offset

    fake.hooks[ApiKey.FETCH] = hang_up
    async with serving(fake) as address:
        await produce(address, [0])
        async with connected([address], TIMEOUT_S) as cluster:
            await Reader(cluster, {(TOPIC, 0): Position(0, 6)}, take).run()
    assert values == [b"1", b"2", b"3", b"4", b"5", b"6"]


async def test_a_batch_that_is_too_large_is_sent_in_halves_with_its_sequence_numbers():
    def refuse_large(append, node, partition, batch):
        return (ErrorCode.MESSAGE_TOO_LARGE, -1) if len(batch) > 200 else append(node, partition, batch)

    fake = FakeCluster({0: 1}, around_append=refuse_large)
    delivered = []
    async with serving(fake) as address, connected([address], TIMEOUT_S) as cluster:
        arguments = cluster, TOPIC, ProducerOptions(), lambda batch, at: delivered.append((batch, at))
        async with producing(*arguments) as producer:
            for number in range(20):
                producer.add(NewRecord(b"x" * 40, timestamp=1), number, 0)
    assert fake.ends[0] == 20
    assert [number for batch, _ in delivered for number in batch.numbers] == list(range(20))
    assert [at for _, at in delivered] == [batch.sequence for batch, _ in delivered]


async def test_a_single_record_that_is_too_large_is_an_error():
    fake = FakeCluster({0: 1}, around_append=lambda *_: (ErrorCode.MESSAGE_TOO_LARGE, -1))
    async with serving(fake) as address:
        with pytest.raises(ExceptionGroup) as caught:
            await produce(address, [0], rounds=1)
    assert caught.group_contains(ClientError, match=r"record 1 for t-0: .* \(MESSAGE_TOO_LARGE\)")


async def test_unacknowledged_bytes_are_bounded(monkeypatch):
    monkeypatch.setattr(producer_module, "UNACKNOWLEDGED_BYTES_MAX", 10_000)
    fake = FakeCluster({0: 1})
    sizes = []
    async with (
        serving(fake) as address,
        connected([address], TIMEOUT_S) as cluster,
        producing(cluster, TOPIC, ProducerOptions(), lambda *_: None) as producer,
    ):
        for number in range(200):
            producer.add(NewRecord(b"x" * 1000, timestamp=1), number, 0)
            sizes.append(producer.unacknowledged_bytes)
            await producer.wait_for_capacity()
    assert fake.ends[0] == 200
    assert 9_000 < max(sizes) < 12_000


async def test_a_coordinator_that_moved_is_found_again():
    fake = FakeCluster({0: 1}, coordinator=1)
    asked = []

    def move(node, _request):
        asked.append(node)
        fake.coordinator = 2

    fake.hooks[ApiKey.OFFSET_FETCH] = move
    async with serving(fake) as address, connected([address], TIMEOUT_S) as cluster:
        found = await committed_offsets(cluster, "g")
    assert asked == [1, 2]
    assert found[TOPIC, 0].offset == 5


async def test_a_coordinator_that_died_is_found_again():
    fake = FakeCluster({0: 1}, coordinator=2)
    asked = []

    def die(node, _request):
        asked.append(node)
        if node == 2:
            fake.coordinator = 1
            raise HangUp

    fake.hooks[ApiKey.OFFSET_FETCH] = die
    async with serving(fake) as address, connected([address], TIMEOUT_S) as cluster:
        found = await committed_offsets(cluster, "g")
    assert asked == [2, 1]
    assert found[TOPIC, 0].offset == 5


async def test_a_coordinator_on_a_new_broker_is_found():
    fake = FakeCluster({0: 1}, coordinator=2)
    async with serving(fake) as address, connected([address], TIMEOUT_S) as cluster:
        port = fake.ports.pop(2)
        assert list((await cluster.refresh(None)).brokers) == [1]
        fake.ports[2] = port
        found = await committed_offsets(cluster, "g")
    assert found[TOPIC, 0].offset == 5


async def test_committed_offsets_wait_for_pending_transactions_unless_only_shown():
    fake = FakeCluster({0: 1}, coordinator=1)
    asked = []
    fake.hooks[ApiKey.OFFSET_FETCH] = lambda _, request: asked.append(request.require_stable)
    async with serving(fake) as address, connected([address], TIMEOUT_S) as cluster:
        await committed_offsets(cluster, "g")
        await committed_offsets(cluster, "g", is_stable=False)
    assert asked == [True, False]


async def test_concurrent_requests_to_a_broker_share_a_connection():
    fake = FakeCluster({0: 1})
    async with serving(fake) as address, connected([address], TIMEOUT_S) as cluster:
        await cluster.refresh(None)
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(cluster.link, 2)
    assert fake.asked[2, ApiKey.API_VERSIONS] == 1


async def test_every_broker_lists_its_groups():
    fake = FakeCluster({0: 1}, nodes=3)
    async with serving(fake) as address, connected([address], TIMEOUT_S) as cluster:
        found = await list_groups(cluster)
    assert [(it.group, it.coordinator, it.type) for it in found] == [(f"of-{it}", it, "classic") for it in (1, 2, 3)]


async def test_an_unknown_topic_fails_at_once():
    fake = FakeCluster({0: 1})
    async with serving(fake) as address:
        with pytest.raises(ExceptionGroup) as caught, trio.fail_after(2):
            async with connected([address], TIMEOUT_S) as cluster:
                await cluster.ready(["other"])
    assert caught.group_contains(NoSuchTopic, match="topics create other")


async def test_one_reachable_address_is_enough_and_otherwise_all_are_named():
    fake = FakeCluster({0: 1})
    async with serving(fake) as address:
        async with connected([("127.0.0.1", 1), address], TIMEOUT_S) as cluster:
            assert (await cluster.refresh(None)).topic(TOPIC).name == TOPIC
        with pytest.raises(ExceptionGroup) as caught:
            async with connected([("127.0.0.1", 1), ("127.0.0.1", 2)], TIMEOUT_S):
                pass
    assert caught.group_contains(
        ConnectionLost, match="127.0.0.1:1: Connection refused; .*127.0.0.1:2: Connection refused"
    )


async def test_a_silent_broker_is_an_error_after_the_timeout():
    async def stay_silent(_stream):
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(functools.partial(trio.serve_tcp, stay_silent, 0, host="127.0.0.1"))
        address = listeners[0].socket.getsockname()[:2]
        with pytest.raises(ExceptionGroup) as caught:
            async with connected([address], 0.2):
                pass
        nursery.cancel_scope.cancel()
    assert caught.group_contains(ClientError, match="did not answer within 0.2 s")


class Refusing(FakeCluster):
    """A cluster that rejects the client's version of ApiVersions."""

    refuses = False

    def ApiVersions(self, node, request):  # noqa: N802 - the API's name
        answer = super().ApiVersions(node, request)
        return attrs.evolve(answer, error_code=ErrorCode.UNSUPPORTED_VERSION) if self.refuses else answer


async def test_a_refusal_is_not_retried_unless_another_address_may_answer_later():
    fake = Refusing({0: 1})
    fake.refuses = True
    async with serving(fake) as address:
        for addresses, is_retriable in (([address], False), ([address, ("127.0.0.1", 1)], True)):
            with pytest.raises(ExceptionGroup) as caught:
                async with connected(addresses, TIMEOUT_S):
                    pass
            (error,) = caught.value.exceptions
            assert (error.is_retriable, "rejects ApiVersions" in str(error)) == (is_retriable, True)


async def test_a_producer_that_is_refused_after_a_lost_connection_fails_at_once():
    fake = Refusing({0: 1})

    def hang_up(_node, _request):
        fake.refuses = True
        raise HangUp

    fake.hooks[ApiKey.PRODUCE] = hang_up
    async with serving(fake) as address:
        with trio.fail_after(60), pytest.raises(ExceptionGroup) as caught:
            await produce(address, [0], 1, timeout_s=1000)
    assert caught.group_contains(ClientError, match="rejects ApiVersions")


async def test_a_request_without_a_common_version_leaves_the_connection_usable():
    fake = FakeCluster({0: 1})
    async with serving(fake) as address, connected([address], TIMEOUT_S) as cluster:
        link = await cluster.link(None)
        with pytest.raises(ClientError, match="supports no version from 90 to 90 of Produce") as caught:
            link.send_oneway(ProduceRequest(None, 0, 1, []), range(90, 91))
        assert not caught.value.is_retriable
        assert (await cluster.refresh(None)).topic(TOPIC).name == TOPIC
