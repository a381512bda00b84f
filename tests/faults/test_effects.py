"""Each effect on a request and its neighbours, in both modes, through a whole server."""

import attrs
import pytest
import trio

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.faults.effects import CorruptCrc, Delay, Error
from pipeline_broker.faults.names import FaultError
from pipeline_broker.records.batch import MAGIC_END
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsResponse
from tests.faults.in_memory import LIMITS, error_of, fetch, list_groups, produce, run, serving

each_mode = pytest.mark.parametrize("mode", ["classic", "pipelined"])
NOT_LEADER = "NOT_LEADER_OR_FOLLOWER"


def through(test):
    """Run a test of a scene in both modes on a virtual clock."""

    @each_mode
    def in_mode(mode):
        async def main():
            async with serving(mode) as scene:
                await test(scene, await scene.connect())

        run(main)

    in_mode.__name__, in_mode.__doc__ = test.__name__, test.__doc__
    return in_mode


@through
async def test_an_error_replaces_handling(scene, client):
    rule = scene.faults.when("Produce", topic="t", nth=2).error(NOT_LEADER)
    codes = [error_of(await client.ask(produce(b"%d" % number))) for number in range(3)]
    assert codes == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]
    assert scene.values() == [b"0", b"2"]
    assert (rule.matched, rule.hits) == (3, 1)


@through
async def test_an_error_after_handling_keeps_the_records(scene, client):
    scene.faults.when("Produce", nth=1).error("REQUEST_TIMED_OUT", "after")
    assert error_of(await client.ask(produce(b"a"))) == ErrorCode.REQUEST_TIMED_OUT
    assert error_of(await client.ask(produce(b"b"))) == 0
    assert scene.values() == [b"a", b"b"]


@through
async def test_a_rule_is_about_its_topic_partition_and_client_alone(scene, client):
    scene.faults.when("Produce", topic="t", partition=1, client_id="meant").error(NOT_LEADER)
    meant = await scene.connect("meant")
    assert error_of(await client.ask(produce(b"a", partition=1))) == 0
    assert error_of(await meant.ask(produce(b"a", partition=0))) == 0
    assert error_of(await meant.ask(produce(b"a", topic="u"))) == 0
    assert error_of(await meant.ask(produce(b"a", partition=1))) == ErrorCode.NOT_LEADER_OR_FOLLOWER


@through
async def test_a_delay_holds_a_response_and_later_ones_in_order(scene, client):
    scene.faults.when("Produce", nth=2).delay(5)
    began = trio.current_time()
    client.send(*[produce(b"%d" % number) for number in range(4)])
    times = []
    for _ in range(4):
        assert error_of(await client.receive()) == 0
        times.append(trio.current_time() - began)
    assert times[0] < 0.1
    assert [round(each) for each in times[1:]] == [5, 5, 5]
    assert scene.values() == [b"0", b"1", b"2", b"3"]


@through
async def test_a_delay_does_not_affect_other_connections(scene, client):
    scene.faults.when("Produce").delay(50)
    client.send(produce(b"a"))
    other = await scene.connect()
    began = trio.current_time()
    assert (await other.ask(list_groups())).error_code == 0
    assert trio.current_time() - began < 0.1
    assert error_of(await client.receive()) == 0
    assert trio.current_time() - began >= 49


@through
async def test_delays_of_several_rules_add_up(scene, client):
    scene.faults.when("ListGroups").delay(2)
    scene.faults.when("ListGroups").delay(3)
    began = trio.current_time()
    await client.ask(list_groups())
    assert round(trio.current_time() - began) == 5


@through
async def test_a_parked_fetch_is_delayed_when_it_is_answered(scene, client):
    scene.faults.when("Fetch").delay(3)
    began = trio.current_time()
    client.send(fetch(wait_ms=1000))
    await client.receive()
    assert 3.9 < trio.current_time() - began < 4.2


@through
async def test_a_dropped_response_blocks_later_ones_until_its_rule_is_removed(scene, client):
    rule = scene.faults.when("Produce", nth=1).drop()
    await client.ask_is_unanswered(produce(b"a"))
    await client.ask_is_unanswered(produce(b"b"))
    assert scene.values()[:1] == [b"a"]
    scene.faults.remove(rule.number)
    assert await client.memory.receive_all() == []
    assert len(scene.faults.held) == 0


@through
async def test_disconnecting_before_handling_appends_nothing_and_after_it_everything(scene, client):
    scene.faults.when("Produce", nth=1).disconnect("before")
    scene.faults.when("Produce", nth=2).disconnect("after")
    client.send(list_groups(), produce(b"a"))
    await client.receive()
    assert await client.memory.receive_all() == []
    second = await scene.connect()
    second.send(produce(b"b"))
    assert await second.memory.receive_all() == []
    assert scene.values() == [b"b"]


@through
async def test_a_partial_write_ends_in_the_middle_of_the_answer(scene, client):
    expected = await client.ask(list_groups())
    assert isinstance(expected, ListGroupsResponse)
    scene.faults.when("ListGroups").partial_write(6)
    client.send(list_groups())
    data = await client.memory.receive_bytes()
    assert len(data) == 6
    assert int.from_bytes(data[:4], "big") > 2
    assert await client.memory.receive_bytes() == b""


@through
async def test_corrupt_crc_strikes_the_first_batch_once(scene, client):
    await client.ask(produce(b"a"))
    await client.ask(produce(b"b"))
    rule = scene.faults.when("Fetch", topic="t", times=1).corrupt_crc()
    await client.ask(fetch(offset=2))
    await client.ask(fetch(topic="u"))
    assert rule.hits == 0
    (topic,) = (await client.ask(fetch())).responses
    data = bytes(topic.partitions[0].records)
    (topic,) = (await client.ask(fetch())).responses
    intact = bytes(topic.partitions[0].records)
    assert rule.hits == 1
    differing = [place for place, (one, other) in enumerate(zip(data, intact, strict=True)) if one != other]
    assert differing == [MAGIC_END]
    assert scene.values() == [b"a", b"b"]


@through
async def test_a_throttle_is_reported_and_applied(scene, client):
    scene.faults.when("Produce", nth=2).throttle(4000)
    assert (await client.ask(produce(b"a"))).throttle_time_ms == 0
    began = trio.current_time()
    assert (await client.ask(produce(b"b"))).throttle_time_ms == 4000
    assert trio.current_time() - began < 0.1
    assert (await client.ask(produce(b"c"))).throttle_time_ms == 0
    assert 3.9 < trio.current_time() - began < 4.2


@through
async def test_a_request_without_an_answer_is_throttled_too(scene, client):
    scene.faults.when("Produce").throttle(4000)
    began = trio.current_time()
    client.send(produce(b"a", acks=0))
    client._received += 1
    await trio.sleep(0.1)
    await client.ask(list_groups())
    assert 3.9 < trio.current_time() - began < 4.2


@through
async def test_a_pause_in_the_queue_stops_the_queue_until_it_is_released(scene, client):
    rule = scene.faults.when("Produce", nth=2).pause("queue")
    client.send(*[produce(b"%d" % number) for number in range(4)])
    assert error_of(await client.receive()) == 0
    await client.nothing_comes()
    assert scene.values() == [b"0"]
    assert scene.faults.held.count(rule.number) == 1
    assert scene.faults.release(rule.number)
    for _ in range(3):
        assert error_of(await client.receive()) == 0
    assert scene.values() == [b"0", b"1", b"2", b"3"]
    assert not scene.faults.release(rule.number)


@through
async def test_a_pause_in_the_response_order_holds_the_response_of_a_handled_request(scene, client):
    rule = scene.faults.when("Produce", nth=1).pause("response order")
    client.send(produce(b"a"), list_groups())
    await client.nothing_comes()
    assert scene.values() == [b"a"]
    scene.faults.release(rule.number)
    assert error_of(await client.receive()) == 0
    await client.receive()


@through
async def test_several_pauses_hold_one_after_the_other(scene, client):
    first = scene.faults.when("ListGroups").pause("queue")
    second = scene.faults.when("ListGroups").pause("response_order")
    third = scene.faults.when("ListGroups").pause("queue")
    client.send(list_groups())
    for rule in (first, third, second):
        await client.nothing_comes()
        assert scene.faults.release(rule.number)
    await client.receive()
    assert [rule.hits for rule in (first, second, third)] == [1, 1, 1]


@through
async def test_a_function_can_observe_answer_or_return_an_effect(scene, client):
    seen = []

    def look(subject):
        seen.append((subject.version, subject.client_id, type(subject.message).__name__))
        return {
            2: ListGroupsResponse(error_code=77),
            3: Error("COORDINATOR_NOT_AVAILABLE"),
            4: Delay(2),
        }.get(len(seen))

    scene.faults.when("ListGroups").call(look)
    codes = [(await client.ask(list_groups())).error_code for _ in range(3)]
    began = trio.current_time()
    codes.append((await client.ask(list_groups())).error_code)
    assert codes == [0, 77, ErrorCode.COORDINATOR_NOT_AVAILABLE, 0]
    assert round(trio.current_time() - began) == 2
    assert seen == [(4, "client", "ListGroupsRequest")] * 4


@through
async def test_an_invalid_effect_of_a_function_is_an_unknown_server_error(scene, client):
    scene.faults.when("ListGroups").call(lambda subject: CorruptCrc())
    assert (await client.ask(list_groups())).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@through
async def test_a_function_can_corrupt_a_checksum_once(scene, client):
    await client.ask(produce(b"a"))
    rule = scene.faults.when("Fetch", times=2).call(lambda subject: CorruptCrc())
    (topic,) = (await client.ask(fetch())).responses
    corrupt = bytes(topic.partitions[0].records)
    (topic,) = (await client.ask(fetch(offset=1))).responses
    assert rule.hits == 2
    (topic,) = (await client.ask(fetch())).responses
    assert bytes(topic.partitions[0].records) != corrupt


@through
async def test_an_exception_of_a_function_is_an_unknown_server_error(scene, client):
    scene.faults.when("ListGroups").call(lambda subject: 1 // 0)
    assert (await client.ask(list_groups())).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    scene.faults.clear()
    assert (await client.ask(list_groups())).error_code == 0


@through
async def test_an_error_without_a_response_closes_the_connection(scene, client):
    """Kafka with acks=0: an error closes the connection, and later requests are not appended."""
    scene.faults.when("Produce", nth=2).error(NOT_LEADER)
    client.send(produce(b"a", acks=0), produce(b"b", acks=0))
    assert await client.memory.receive_all() == []
    assert scene.values() == [b"a"]


@through
async def test_removed_rules_release_everything(scene, client):
    faults = scene.faults
    waiting = []
    for make in (
        lambda maker: maker.delay(3000),
        lambda maker: maker.pause("response_order"),
        lambda maker: maker.pause("queue"),
    ):
        other = await scene.connect(f"c{len(waiting)}")
        make(faults.when("ListGroups", client_id=other.client_id))
        other.send(list_groups())
        waiting.append(other)
        await trio.sleep(0.1)
    assert faults.clear() == 3
    for other in waiting:
        assert (await other.receive()).error_code == 0
    assert len(faults.held) == 0


def test_responses_of_a_closed_connection_are_dropped():
    """Classic mode does not read a connection with a request in flight, so it detects this when it sends."""

    async def main():
        async with serving("pipelined") as scene:
            client = await scene.connect()
            scene.faults.when("ListGroups").delay(1000)
            client.send(list_groups())
            await trio.sleep(1)
            assert len(scene.faults.held) == 1
            client.memory.reset()
            await trio.sleep(1)
            assert len(scene.faults.held) == 0

    run(main)


@through
async def test_a_malformed_request_matches_no_rule(scene, client):
    rule = scene.faults.when("Produce", topic="t").drop()
    client.memory.send(bytes.fromhex("0000000900000001ffff7f"))
    assert await client.memory.receive_all() == []
    assert rule.matched == 0


@each_mode
@pytest.mark.parametrize("effect", ["drop", "pause"])
def test_shutdown_does_not_wait_for_rules(mode, effect):
    """The drain of this server has no deadline, so it would wait forever."""

    async def main():
        async with serving(mode, limits=attrs.evolve(LIMITS, drain_seconds=float("inf"))) as scene:
            client = await scene.connect()
            getattr(scene.faults.when("ListGroups"), effect)()
            client.send(list_groups())
            await trio.sleep(1)
        assert len(await client.memory.receive_all()) == (effect == "pause")

    run(main)


def test_effects_that_do_not_apply_are_refused():
    async def main():
        async with serving("pipelined") as scene:
            with pytest.raises(FaultError, match="corrupt_crc applies to Fetch and ShareFetch, not Produce"):
                scene.faults.when("Produce").corrupt_crc()
            with pytest.raises(FaultError, match="a rule about files needs a data directory"):
                scene.faults.when("Produce").pause("commit")
            with pytest.raises(FaultError, match="fault rule 3 does not exist; existing rules: none"):
                scene.faults.remove(3)
            assert not scene.faults.is_active

    run(main)


def test_a_broker_without_rules_has_its_dispatcher_alone():
    async def main():
        async with serving("pipelined") as scene:
            plain = scene.application.handle
            assert not scene.broker.has_faults
            scene.faults.when("Produce").drop()
            assert scene.application.handle != plain
            assert "FaultyRequests" in repr(scene.application.handle)

    run(main)
