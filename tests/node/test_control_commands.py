"""Commands for tests of clients: requests are found and awaited, and a reset deletes everything."""

from types import SimpleNamespace

import confluent_kafka as ck
import pytest
import trio
import trio.testing

from pipeline_broker import EmbeddedBroker
from pipeline_broker.node import control_commands
from pipeline_broker.node.control_commands import NAMES_SHOWN_MAX, REQUESTS_MAX, SHOWN_MAX, ControlCommands
from pipeline_broker.node.operator_commands import CommandFailedError
from pipeline_broker.telemetry.timelines_topic import TIMELINES_TOPIC
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.messages.transactions.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.apis.wire_client import WireClient
from tests.telemetry.test_recent_requests import request

WAIT_SECONDS = 20


def ended(message, version, client_id="me"):
    """Return a request that has ended, with its whole frame."""
    header = RequestHeader(type(message).SCHEMA.key, version, 1, client_id)
    made = request(api=header.api_key)
    made.version = version
    made.frame = b"".join([encode_request_header(header), *map(bytes, encode(message, version))])
    return made


def heartbeat(group="g", client_id="me"):
    return ended(HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), 4, client_id)


def metadata(*topics):
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return ended(MetadataRequest(wanted), 9)


class Observed:
    """Commands, and the timeline that they observe."""

    def __init__(self):
        self.on_search = lambda: None
        broker = SimpleNamespace(topic_name=self._topic_name, fetch_sessions=SimpleNamespace(keys_of=lambda _: ()))
        self.commands = ControlCommands(None, broker, self.observe).commands()

    def _topic_name(self, topic_id):
        del topic_id
        self.on_search()

    def observe(self, timeline):
        self.timeline = timeline

    def end(self, *requests):
        for each in requests:
            self.timeline.request_ended(each)


def run(scenario):
    """Return the result of `scenario(observed)` in virtual time."""

    async def main():
        with trio.fail_after(WAIT_SECONDS * 100):
            return await scenario(Observed())

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def requests(*past, **arguments):
    """Return the answer about past requests."""

    async def scenario(observed):
        observed.end(*past)
        return await observed.commands["requests"](**arguments)

    return run(scenario)


def refusal(**arguments):
    with pytest.raises(CommandFailedError) as raised:
        requests(**arguments)
    (line,) = str(raised.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"api": "Heartbeat"}, 3),
        ({"api": "heartbeat"}, 3),
        ({"api": "GroupCoordinator"}, 3),
        ({"api": "Metadata"}, 2),
        ({"api": "Produce"}, 0),
        ({"api": "Heartbeat", "client_id": "me"}, 2),
        ({"api": "Heartbeat", "group": "g"}, 2),
        ({"api": "Heartbeat", "group": "g", "client_id": "you"}, 1),
        ({"api": "Heartbeat", "topic": "t"}, 0),
        ({"api": "Metadata", "topic": "t"}, 1),
        ({"api": "Metadata", "topic": "t", "partition": -1}, 1),
        ({"api": "Metadata", "topic": "t", "partition": 0}, 0),
        ({"api": "Metadata", "partition": -1}, 2),
    ],
)
def test_requests_are_found_by_the_conditions_of_fault_rules(arguments, count):
    past = [heartbeat(), heartbeat("h"), heartbeat(client_id="you"), metadata("t", "u"), metadata("u")]
    assert requests(*past, **arguments)["count"] == count


def test_a_request_is_shown_with_its_names():
    assert requests(metadata("t"), heartbeat(), api="Metadata")["requests"] == [
        {
            "api": "Metadata",
            "version": 9,
            "client_id": "me",
            "connection": 3,
            "outcome": "answered",
            "errors": (),
            "groups": (),
            "partitions": (("t", -1),),
        }
    ]


def test_the_newest_requests_are_shown_and_all_are_counted():
    past = [heartbeat(client_id=str(number)) for number in range(SHOWN_MAX + 5)]
    answer = requests(*past, api="Heartbeat")
    assert answer["count"] == SHOWN_MAX + 5
    assert [each["client_id"] for each in answer["requests"]] == [str(number) for number in range(5, SHOWN_MAX + 5)]


def test_a_request_of_many_topics_is_shown_with_some():
    (shown,) = requests(metadata(*map(str, range(NAMES_SHOWN_MAX + 1))), api="Metadata")["requests"]
    assert len(shown["partitions"]) == NAMES_SHOWN_MAX


def test_a_wait_ends_with_the_last_request_that_it_needs():
    async def scenario(observed):
        observed.end(heartbeat(), heartbeat("h"))
        found = []

        async def wait():
            found.append(await observed.commands["requests"](api="Heartbeat", group="g", count=3, timeout="60s"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            for _ in range(2):
                await trio.sleep(10)
                assert found == []
                observed.end(heartbeat("h"), heartbeat())
        assert trio.current_time() == pytest.approx(20, abs=1e-3)
        return found

    (answer,) = run(scenario)
    assert answer["count"] == 3


@pytest.mark.parametrize(("timeout", "waited"), [("1500ms", 1.5), (250, 0.25), ("1m", 60), (None, 10)])
def test_a_wait_for_more_requests_ends_at_its_timeout_and_says_what_there_was(timeout, waited):
    async def scenario(observed):
        observed.end(heartbeat(), heartbeat("h"))
        given = {} if timeout is None else {"timeout": timeout}
        with pytest.raises(CommandFailedError) as raised:
            await observed.commands["requests"](api="Heartbeat", group="g", count=2, **given)
        return str(raised.value), trio.current_time()

    assert run(scenario) == (f"1 of 2 requests in {waited:g} s: Heartbeat group=g", pytest.approx(waited, abs=1e-3))


def test_a_request_that_ends_during_a_search_is_not_missed():
    async def scenario(observed):
        wanted = MetadataRequest([MetadataRequest.MetadataRequestTopic(topic_id=b"i" * 16, name=None)])
        # Called by the search, which reads the names in the first request.
        observed.on_search = lambda: observed.end(metadata("t"))
        observed.end(ended(wanted, 12))
        answer = await observed.commands["requests"](api="Metadata", topic="t", count=1)
        return answer["count"], trio.current_time()

    assert run(scenario) == (1, pytest.approx(0, abs=1e-3))


def test_without_time_to_wait_past_requests_count():
    assert requests(heartbeat(), api="Heartbeat", count=1, timeout=0)["count"] == 1
    assert refusal(api="Heartbeat", count=1, timeout=0) == "0 of 1 requests in 0 s: Heartbeat"


def test_a_wait_sees_more_requests_than_are_remembered(monkeypatch):
    monkeypatch.setattr(control_commands, "REQUESTS_MAX", 4)

    async def scenario(observed):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: observed.commands["requests"](api="Heartbeat", count=4, timeout="60s"))
            for _ in range(3):
                await trio.sleep(1)
                observed.end(heartbeat(), metadata("t"), metadata("t"))
            assert (await observed.commands["requests"](api="Heartbeat"))["count"] == 1
            observed.end(heartbeat())
        return trio.current_time()

    assert run(scenario) == pytest.approx(3, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"api": "Produse"}, "unknown API 'Produse'; did you mean Produce?"),
        ({"api": None}, "API needs a text, not None"),
        ({"api": ["Produce"]}, "API needs a text, not ['Produce']"),
        ({"api": "Produce", "topic": 1}, "topic needs a text, not 1"),
        ({"api": "Produce", "partition": "x"}, "partition needs a whole number, not 'x'"),
        ({"api": "Produce", "group": {}}, "group needs a text, not {}"),
        (
            {"api": "Metadata", "group": "g"},
            "requests of Metadata name no group, so group would never match; remove group",
        ),
        ({"api": "Produce", "client_id": 7}, "client_id needs a text, not 7"),
        ({"api": "Produce", "count": -1}, f"count must be from 0 to {REQUESTS_MAX}, not -1"),
        ({"api": "Produce", "count": 4097}, f"count must be from 0 to {REQUESTS_MAX}, not 4097"),
        ({"api": "Produce", "count": 1.5}, "count needs a whole number, not 1.5"),
        ({"api": "Produce", "timeout": "61s"}, "timeout must be from 0 to 60 s, not 61 s"),
        ({"api": "Produce", "timeout": -1}, "timeout must be from 0 to 60 s, not -0.001 s"),
        ({"api": "Produce", "timeout": float("nan")}, "timeout needs a time such as 200ms or 1s, not nan"),
        ({"api": "Produce", "timeout": "soon"}, "timeout needs a time such as 200ms or 1s, not 'soon'"),
        ({"api": "Produce", "timeout": 10**400}, f"timeout needs a time such as 200ms or 1s, not {10**400}"),
    ],
)
def test_invalid_arguments_are_refused_with_one_line(arguments, line):
    assert refusal(**arguments) == line


# The reset


class Controlled:
    """An embedded broker with commands on its event loop."""

    def __init__(self, broker):
        self.broker = broker
        self._token = broker.on_loop(lambda _: trio.lowlevel.current_trio_token())
        made = broker.on_loop(lambda it: ControlCommands(it.server, it.broker, it.server.observe))
        self._commands = made.commands()

    def ask(self, name, **arguments):
        async def work():
            with trio.fail_after(WAIT_SECONDS):
                return await self._commands[name](**arguments)

        return trio.from_thread.run(work, trio_token=self._token)


@pytest.fixture
def embedded():
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def controlled(embedded):
    return Controlled(embedded)


def wire_client(broker):
    host, port = next(iter(broker.addresses.values()))
    return WireClient(host, port)


def transactions(client):
    return [
        each.transactional_id
        for each in client.ask(ListTransactionsRequest(), ListTransactionsResponse, 1).transaction_states
    ]


def test_a_reset_of_an_empty_broker_changes_nothing(controlled):
    assert controlled.ask("reset") == {"rules": 0, "topics": 0}


def test_a_reset_deletes_topics_groups_transactions_rules_and_observations(controlled, embedded):
    embedded.produce("t", "x")
    embedded.faults.when("Heartbeat").delay("1ms")
    servers = {"bootstrap.servers": embedded.bootstrap_servers}
    consumer = ck.Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
    producer = ck.Producer({**servers, "transactional.id": "x"})
    try:
        consumer.subscribe(["t"])
        assert consumer.poll(WAIT_SECONDS).value() == b"x"
        consumer.commit(asynchronous=False)
        producer.init_transactions(WAIT_SECONDS)
        producer.begin_transaction()
        producer.produce("t", "in a transaction")
        assert producer.flush(WAIT_SECONDS) == 0
        assert controlled.ask("requests", api="OffsetCommit", count=1)["count"] == 1
        with wire_client(embedded) as client:
            assert transactions(client) == ["x"]
    finally:
        consumer.close()
        del producer
    with wire_client(embedded) as client:
        answer = controlled.ask("reset")
        assert answer["rules"] == 1
        assert answer["topics"] >= 3, "t and the topics of the coordinators"
        assert embedded.topics() == {}
        assert embedded.groups() == []
        assert embedded.offsets("g") == {}
        assert embedded.faults.rules == []
        assert transactions(client) == []
        assert controlled.ask("requests", api="OffsetCommit")["count"] == 0
        assert embedded.on_loop(lambda it: list(it.broker.transactions.all())) == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_broker_serves_the_same_names_after_a_reset(controlled, embedded, protocol):
    for value in ("before", "after"):
        embedded.create_topic("t", partitions=2)
        embedded.produce("t", value, key="k", partition=1)
        assert [record.value for record in embedded.records("t")] == [value.encode()]
        servers = {"bootstrap.servers": embedded.bootstrap_servers, "group.protocol": protocol}
        consumer = ck.Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        assert consumer.poll(WAIT_SECONDS).value() == value.encode()
        consumer.commit(asynchronous=False)
        consumer.close()
        assert controlled.ask("reset")["topics"] == 2


def test_connections_and_members_of_groups_survive_a_reset(controlled, embedded):
    embedded.produce("t", "before")
    servers = {"bootstrap.servers": embedded.bootstrap_servers, "heartbeat.interval.ms": 100}
    consumer = ck.Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    assert consumer.poll(WAIT_SECONDS).value() == b"before"
    with wire_client(embedded) as client:
        controlled.ask("reset")
        embedded.produce("t", "after")
        values = []
        for _ in range(200):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                values.append(message.value())
                break
        assert values == [b"after"]
        assert client.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse, 3).error_code == 0
    consumer.close()


def test_a_reset_first_releases_the_commits_that_a_rule_holds(controlled, embedded):
    embedded.create_topic("t")
    embedded.faults.disk_when("sync").pause()
    embedded.faults.disk_when("write").pause()
    assert controlled.ask("reset") == {"rules": 2, "topics": 1}


def test_a_reset_is_refused_where_topics_cannot_be_deleted():
    with EmbeddedBroker(settings={"delete.topic.enable": False}) as broker:
        broker.create_topic("t")
        with pytest.raises(CommandFailedError, match=r"^the topic 't' cannot be deleted: TOPIC_DELETION_DISABLED$"):
            Controlled(broker).ask("reset")


def test_topics_of_services_of_the_broker_stay(controlled, embedded):
    embedded.create_topic("_schemas", configs={"cleanup.policy": "compact"})
    embedded.create_topic(TIMELINES_TOPIC)
    embedded.create_topic("t")
    assert controlled.ask("reset")["topics"] == 1
    assert set(embedded.on_loop(lambda it: it.broker.topics.names())) == {"_schemas", TIMELINES_TOPIC}
