"""Requests that take several turns: their costs, answers and limits."""

import logging

import pytest

from pipeline_broker.apis import dispatch
from pipeline_broker.apis.call import REQUEST_COST_MAX, Call
from pipeline_broker.apis.cluster import describe_cluster
from pipeline_broker.apis.steps import EVERYTHING_AT_ONCE_MAX, TURNS_WITHOUT_PLACE, in_steps, paced
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import LARGE_REQUESTS_MAX
from pipeline_broker.wire import codec, decoding, encoding
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.cluster.describe_cluster import DescribeClusterRequest
from pipeline_broker.wire.messages.cluster.describe_log_dirs import DescribeLogDirsRequest
from pipeline_broker.wire.messages.cluster.elect_leaders import ElectLeadersRequest
from pipeline_broker.wire.messages.configs.list_config_resources import ListConfigResourcesRequest
from pipeline_broker.wire.messages.topics.describe_topic_partitions import DescribeTopicPartitionsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.primitives import ELEMENTS_A_TURN
from pipeline_broker.wire.registry import ApiKey
from stages.request import TURN_COST, Close, Request, Send, Unfinished, Waiting, go_on
from tests.apis.configs.quota_requests import alter
from tests.apis.desk import Desk
from tests.apis.test_dispatch import cases
from tests.tables import each_row


@pytest.fixture
def everything_in_steps(monkeypatch):
    """Every request counts as large, and every second element ends a turn."""
    monkeypatch.setattr(dispatch, "LARGE_BYTES", 0)
    for names in (decoding.NAMES, encoding.NAMES):
        monkeypatch.setitem(names, "ELEMENTS_A_TURN", 1)
    caches = (codec._decoder, codec._encoder)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def call_of(desk):
    return Call(desk.broker, None, None, 0, 0, 0, "desk", desk.now_ms)


def turns_of(result):
    """Return the result of the last step, and the number of turns, for steps that are not interrupted."""
    turns = 1
    while isinstance(result, Unfinished):
        assert result.first is None
        result, turns = go_on(result.steps), turns + 1
    return result, turns


def test_a_turn_ends_when_its_cost_is_spent_and_the_next_starts_at_zero():
    call = call_of(Desk())
    assert [call.spend(TURN_COST // 4) for _ in range(8)] == [False, False, False, True] * 2
    assert [call.is_turn_over(TURN_COST // 2) for _ in range(4)] == [False, True] * 2
    assert call.cost == 4 * TURN_COST


def test_a_request_that_costs_too_much_is_refused_in_the_response_of_its_api(monkeypatch):
    done = []

    def handle(call, request):
        yield from in_steps(call, range(10**9), done.append, cost=TURN_COST)
        raise AssertionError("it never ends")

    monkeypatch.setattr(describe_cluster, "handle", handle)
    desk = Desk()
    assert desk.ask(DescribeClusterRequest(), 0).error_code == ErrorCode.POLICY_VIOLATION
    assert len(done) == REQUEST_COST_MAX // TURN_COST + 1


def test_in_steps_makes_items_in_order_and_in_turns():
    desk = Desk()
    steps = in_steps(call_of(desk), range(10), str, cost=TURN_COST // 2)
    made = []

    def outer():
        made.extend((yield from steps))

    assert list(outer()) == [None] * 5
    assert made == list(map(str, range(10)))


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (MetadataRequest(topics=None), 9),
        (DescribeTopicPartitionsRequest(), 0),
        (DescribeLogDirsRequest(topics=None), 4),
        (ElectLeadersRequest(0, None, 1), 2),
        (ListConfigResourcesRequest(), 1),
    ],
)
def test_a_request_for_all_of_many_topics_does_nothing_in_its_first_turn(message, version):
    """The next requests of its queue do not wait for its work."""
    desk, spent = Desk(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Call, "spend", lambda call, cost: spent.append(cost))
        for number in range(EVERYTHING_AT_ONCE_MAX + 1):
            desk.create_topic(f"t-{number}")
            if number == EVERYTHING_AT_ONCE_MAX - 1:
                desk.decide(message, version)
                is_spent_by_few = bool(spent)
                spent.clear()
        result = desk.decide(message, version)
    assert isinstance(result, Unfinished)
    assert (result.first, spent) == (None, [])
    assert is_spent_by_few or isinstance(message, ElectLeadersRequest), "few are answered at once"


@each_row("message, version, errors", list(cases()))
def test_a_large_request_is_answered_as_a_small_one(message, version, errors, everything_in_steps):
    in_turns, at_once = Desk(), Desk()
    result = in_turns.decide(message, version)
    answers = [errors(in_turns.finish(message, version, result))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "LARGE_BYTES", 1 << 20)
        answers.append(errors(at_once.ask(message, version)))
    codes = [[each.error_code for each in answer] for answer in answers]
    assert codes[0] == codes[1]


def test_requests_are_decoded_in_turns_with_the_fixture_of_these_tests(everything_in_steps):
    _, turns = turns_of(Desk().decide(many_topics(4), 9))
    assert turns > 1


def test_a_large_request_that_does_not_decode_closes_the_connection(everything_in_steps):
    desk = Desk()
    header = encode_request_header(RequestHeader(ApiKey.METADATA, 9, 1, "desk"))
    result, _ = turns_of(desk.dispatcher.handle(Request(desk.connection, 1, header + b"\x0a\x02", 0)))
    assert isinstance(result, Close)
    assert "malformed" in result.reason
    assert len(desk.broker.large_requests) == 0


def test_a_failure_in_a_later_turn_is_answered_by_failed(monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL)

    def handle(call, request):
        yield None
        raise RuntimeError("asked for")

    monkeypatch.setattr(describe_cluster, "handle", handle)
    desk, message = Desk(), DescribeClusterRequest()
    requests = []
    monkeypatch.setattr(dispatch.Dispatcher, "handle", _keeping(requests, dispatch.Dispatcher.handle))
    unfinished = desk.decide(message, 0)
    with pytest.raises(RuntimeError) as caught:
        go_on(unfinished.steps)
    answer = desk.finish(message, 0, desk.dispatcher.failed(requests[0], caught.value))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def _keeping(requests, original):
    return lambda dispatcher, request: requests.append(request) or original(dispatcher, request)


def many_topics(count):
    return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t") for _ in range(count)])


def test_large_requests_in_memory_at_a_time_are_limited():
    """Decoded, each takes a hundred times its size; taking turns, all of them would be decoded at once."""
    desk, message = Desk(), many_topics((TURNS_WITHOUT_PLACE + 2) * ELEMENTS_A_TURN)
    begun, woken = [], []
    for _ in range(LARGE_REQUESTS_MAX + 2):
        result = desk.decide(message, 9)
        for _ in range(TURNS_WITHOUT_PLACE - 1):
            assert result.first is None
            result = go_on(result.steps)
        begun.append(result)
    waiting = [unfinished for unfinished in begun if type(unfinished.first) is Waiting]
    assert waiting == begun[LARGE_REQUESTS_MAX:]
    for number, unfinished in enumerate(waiting):
        unfinished.first.when_over(lambda number=number: woken.append(number))
    begun[0].steps.close()
    assert woken == [0]
    begun[1].steps.close()
    assert woken == [0, 1]
    for unfinished in begun:
        unfinished.steps.close()
    assert len(desk.broker.large_requests) == 0


def test_a_request_with_a_long_batch_needs_no_second_place():
    """Otherwise it could wait for a request that itself waits for long batches."""
    desk = Desk()
    call = call_of(desk)

    def steps():
        for _ in range(TURNS_WITHOUT_PLACE + 2):
            yield None

    assert desk.broker.large_requests.enter("another")
    assert desk.broker.long_batches.enter(call)
    assert [type(first) for first in paced(steps(), call)] == [type(None)] * (TURNS_WITHOUT_PLACE + 2)
    desk.broker.long_batches.leave(call)
    assert [type(first) for first in paced(steps(), call)][-3:] == [Waiting] * 3


def test_requests_with_few_elements_need_no_place_however_large_they_are():
    desk = Desk()
    message = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t" * 30_000)])
    for token in range(LARGE_REQUESTS_MAX):
        assert desk.broker.large_requests.enter(token)
    assert desk.ask(message, 9).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_client_is_charged_for_its_steps_only(monkeypatch):
    desk = Desk()
    assert alter(desk, [("client-id", "desk")], ("request_percentage", 1000.0)) == 0
    used = []
    quota = desk.broker.quotas.request
    record = quota.record
    monkeypatch.setattr(quota, "record", lambda *arguments: used.append(arguments[2]) or record(*arguments))
    desk.request_ns = 1

    def handle(call, request):
        for _ in range(3):
            desk.clock_ns()
            yield None
        return call.send(describe_cluster.error_response(request, call, ErrorCode.NONE))

    monkeypatch.setattr(describe_cluster, "handle", handle)
    desk.dispatcher._handlers.clear()
    result = desk.decide(DescribeClusterRequest(), 0)
    while isinstance(result, Unfinished):
        for _ in range(1000):
            desk.clock_ns()
        result = go_on(result.steps)
    assert isinstance(result, Send)
    (percent,) = used
    assert percent * 1e7 < 30
