"""A broker publishes the timelines of its requests, and counts those that do not fit in the ring.

Longer than most files: the publisher is tested alone on virtual time, and in broker processes.
"""

import functools
import json
import logging

import pytest
import trio
import trio.testing
from click.testing import CliRunner

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.ports import Ports
from pipeline_broker.cli import main
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.node.admin_socket import ask
from pipeline_broker.node.data_directory import open_broker
from pipeline_broker.node.timelines import END_SECONDS_MAX, PUBLISH_SECONDS, Timelines
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.telemetry.timelines_topic import RETENTION_BYTES, TIMELINES_TOPIC, timelines_configs
from pipeline_broker.wire.messages.data.fetch import FetchRequest, FetchResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from stages.mode import PIPELINED
from stages.request import Request, Send
from stages.timeline import NO_STAMP
from tests.apis.wire_client import WireClient
from tests.files.memory_file_system import MemoryFileSystem
from tests.virtual_time import run_on_virtual_time

PRODUCE, FETCH = 0, 1
BATCH = build_batch([NewRecord(b"value", b"key", 1_700_000_000_000)])
NOW_MS = 1_700_000_000_000
ROWS_MAX = 20
QUEUES = 3


# A broker of its own process


def produce(client, topic):
    data = ProduceRequest.PartitionProduceData(0, BATCH)
    request = ProduceRequest(None, -1, 1000, [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])])
    (found,) = client.ask(request, ProduceResponse, 9).responses
    return found.partition_responses[0].error_code


def ask_for(client, topic):
    """Request the metadata of a topic, which creates it."""
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    (found,) = client.ask(request, MetadataResponse, 9).topics
    return found


def fetch(client, topic=TIMELINES_TOPIC):
    """Return the values of the records that one Fetch returns."""
    every = [
        FetchRequest.FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 24)
        for number in range(partitions_of(client, topic))
    ]
    wanted = FetchRequest.FetchTopic(topic=topic, partitions=every)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 24, topics=[wanted])
    (found,) = client.ask(request, FetchResponse, 11).responses
    return [value for partition in found.partitions for value in values_of(partition.records or b"")]


@functools.cache
def partitions_of(client, topic):
    """Return the partitions, requested only once since each request has a timeline."""
    return len(ask_for(client, topic).partitions)


def values_of(data):
    return [bytes(record.value) for header, batch in iterate_batches(data) for record in iterate_records(batch, header)]


def fetch_records(client):
    """Return the records in the order of sessions and rows."""
    records = [json.loads(value) for value in fetch(client)]
    return sorted(records, key=lambda record: record["received_ns"][0])


def requests_of(records, api):
    """Return the correlation ids of an API's requests, in the order of the records."""
    pairs = [pair for record in records for pair in zip(record["api"], record["correlation_id"], strict=True)]
    return [correlation_id for found, correlation_id in pairs if found == api]


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_every_request_between_on_and_off_is_published_once(broker_process, mode):
    broker = broker_process(mode=mode)
    with WireClient(broker.host, broker.port) as client:
        ask_for(client, "orders")
        produce(client, "orders")
        assert ask(broker.data, "timelines status") == {
            "on": False,
            "topic": TIMELINES_TOPIC,
            "session": None,
            "rows": 0,
            "records": 0,
            "waiting": 0,
            "lost": 0,
        }
        session = ask(broker.data, "timelines on")["session"]
        first = client.sent
        assert [produce(client, "orders") for _ in range(20)] == [0] * 20
        told = ask(broker.data, "timelines off")
        assert produce(client, "orders") == 0
        records = fetch_records(client)

    assert requests_of(records, PRODUCE) == list(range(first, first + 20))
    assert (told["on"], told["rows"], told["lost"], told["waiting"]) == (False, 20, 0, 0)
    assert {(record["session"], record["mode"], record["lost"]) for record in records} == {(session, mode, 0)}
    for record in records:
        assert all(commit > 0 for commit in record["commit"])
        stamps = [record[f"{name}_after_ns"] for name in ("enqueued", "dequeued", "handled", "durable", "sent")]
        assert all(list(row) == sorted(row) and row[0] >= 0 for row in zip(*stamps, strict=True))


def test_reads_of_the_topic_are_not_published(broker_process):
    """Otherwise each Fetch of timelines would add a timeline for the next Fetch."""
    broker = broker_process(settings=["pipeline.timelines=true"])
    with WireClient(broker.host, broker.port) as client:
        ask_for(client, "orders")
        produce(client, "orders")
        ask(broker.data, "timelines off")
        assert requests_of(fetch_records(client), PRODUCE) != []
        ask(broker.data, "timelines on")
        for _ in range(5):
            assert fetch(client)
        assert fetch(client, "orders") == [b"value"]
        ask(broker.data, "timelines off")
        records = fetch_records(client)
    sessions = {record["session"]: None for record in records}
    fetches = [requests_of([record for record in records if record["session"] == one], FETCH) for one in sessions]
    assert [len(found) for found in fetches] == [0, 1]


@pytest.mark.parametrize(("mode", "queues"), [("classic", 1), ("pipelined", 5)])
def test_clients_may_read_but_not_write_the_topic_and_auto_creation_bounds_it(broker_process, mode, queues):
    settings = ["num.partitions=7", *(["pipeline.queues=5"] if queues > 1 else [])]
    broker = broker_process(mode=mode, settings=settings)
    with WireClient(broker.host, broker.port) as client:
        ask_for(client, TIMELINES_TOPIC)  # as in Kafka the topic is created, and exists from the next request
        found = ask_for(client, TIMELINES_TOPIC)
        assert (found.error_code, len(found.partitions), found.is_internal) == (0, queues, False)
        assert produce(client, TIMELINES_TOPIC) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert fetch(client) == []


def test_a_shutdown_publishes_waiting_rows_and_they_survive_a_restart(broker_process):
    broker = broker_process(settings=["pipeline.timelines=true"])
    with WireClient(broker.host, broker.port) as client:
        ask_for(client, "orders")
        first = client.sent
        assert [produce(client, "orders") for _ in range(3)] == [0] * 3
    broker.stop()
    assert broker.stderr == ""
    again = broker_process()
    with WireClient(again.host, again.port) as client:
        assert requests_of(fetch_records(client), PRODUCE) == list(range(first, first + 3))


def test_the_command_prints_the_status(broker_process):
    broker = broker_process()

    def told(*arguments):
        result = CliRunner().invoke(main, ["timelines", *arguments, "--data", str(broker.data)])
        assert result.exit_code == 0
        return result.output.rstrip("\n")

    assert told("status") == "off"
    assert told("on").startswith("on: session ")
    assert json.loads(told("status", "--json"))["on"] is True
    assert told("on") == told("status")  # already on: the same session
    assert told("off").endswith("0 waiting, 0 lost")
    broker.stop()
    result = CliRunner().invoke(main, ["timelines", "on", "--data", str(broker.data)])
    assert result.output == f"Error: no broker runs on {broker.data}: name its directory with --data\n"


# The publisher alone, with a server with controlled commits


class Server:
    """A server that commits at once, or holds entries until `release`."""

    mode = PIPELINED

    def __init__(self, journal, broker):
        self.journal = journal
        self.broker = broker
        self.is_holding = False
        self.held = []
        self.refusals = 0  # commits that fail before others succeed

    def submit(self, submission):
        if self.refusals:
            self.refusals -= 1
            submission.on_ended(submission, OSError(28, "no space"))
            return
        self.held.append(submission)
        if not self.is_holding:
            self.release()

    def release(self):
        self.is_holding = False
        while self.held:
            submission = self.held.pop(0)
            self.journal.sync(self.journal.write(submission.entries))
            self.broker.entries_durable(submission.entries)
            if submission.on_durable is not None:
                submission.on_durable()
            submission.on_ended(submission, None)


class Origin:
    index = 0


class Scene:
    def __init__(self, tmp_path):
        files = MemoryFileSystem()
        self.journal, self.broker = open_broker(
            tmp_path, BrokerConfig(), flush="os", files=files, segment_bytes=1 << 22, ports=Ports(request_queues=QUEUES)
        )
        self.server = Server(self.journal, self.broker)
        self.observing = []
        self.timelines = Timelines(self.broker, self.server, self.observing.append, lambda: NOW_MS, ROWS_MAX)

    def end_requests(self, count):
        for sequence in range(count):
            request = Request(Origin(), sequence, b"", 1)
            request.result, request.api, request.queue = Send(b""), PRODUCE, 0
            request.enqueued_ns = request.dequeued_ns = request.handled_ns = 2
            request.decided_ns = request.completed_ns = 2
            request.submitted_ns = request.durable_ns = NO_STAMP
            request.released_ns = request.send_started_ns = request.sent_ns = 3
            self.observing[-1].request_ended(request)

    @property
    def status(self):
        found = self.timelines.status()
        return {name: found[name] for name in ("rows", "waiting", "lost")}

    @property
    def sequences(self):
        records = [record for partition in self.partitions for record in partition]
        records.sort(key=lambda record: (-record["clock_offset_ns"], record["first_row"]))  # the wall clock stands
        return [(record["session"], record["first_row"], record["sequence"]) for record in records]

    @property
    def partitions(self):
        found = [log.read(0, 1 << 24, at_least_one=True) for log in self.broker.logs.partitions(TIMELINES_TOPIC)]
        data = [b"".join(map(bytes, each.cold() if each.cold else each.parts)) for each in found]
        return [[json.loads(value) for value in values_of(each)] for each in data]


@pytest.fixture
def in_scene(tmp_path):
    """Run a scene with its publisher on virtual time."""

    def run(story):
        scene = Scene(tmp_path)

        async def main():
            async with trio.open_nursery() as nursery:
                await nursery.start(scene.timelines.run)
                with trio.fail_after(1000):
                    await story(scene)
                nursery.cancel_scope.cancel()

        run_on_virtual_time(main)
        return scene

    return run


def test_switched_off_it_has_no_observer_and_no_topic(in_scene):
    async def story(scene):
        await trio.sleep(10 * PUBLISH_SECONDS)

    scene = in_scene(story)
    assert scene.observing == []
    assert scene.broker.topics.get(TIMELINES_TOPIC) is None


def test_the_topic_is_created_with_its_bounds_for_the_first_rows(in_scene):
    async def story(scene):
        scene.timelines.switch_on()
        await trio.sleep(2 * PUBLISH_SECONDS)
        assert scene.broker.topics.get(TIMELINES_TOPIC) is None
        scene.end_requests(3)
        await trio.sleep(2 * PUBLISH_SECONDS)
        assert scene.status == {"rows": 3, "waiting": 0, "lost": 0}

    topic = in_scene(story).broker.topics.get(TIMELINES_TOPIC)
    assert (topic.partitions, topic.configs) == (QUEUES, timelines_configs(QUEUES))
    assert int(topic.configs["retention.bytes"]) == RETENTION_BYTES // QUEUES


def test_the_partitions_take_turns_and_together_have_every_row_once(in_scene):
    async def story(scene):
        scene.timelines.switch_on()
        for _ in range(2 * QUEUES):
            scene.end_requests(2)
            await trio.sleep(2 * PUBLISH_SECONDS)
        assert [len(partition) for partition in scene.partitions] == [2] * QUEUES
        assert [first for _, first, _ in scene.sequences] == [2 * place for place in range(2 * QUEUES)]

    in_scene(story)


def test_a_deleted_topic_is_created_again_and_nothing_is_lost(in_scene):
    async def story(scene):
        scene.timelines.switch_on()
        scene.end_requests(1)
        await scene.timelines.switch_off()
        write = scene.broker.topics.delete(TIMELINES_TOPIC)
        entry = scene.broker.append_metadata(write, NOW_MS)
        scene.journal.sync(scene.journal.write([entry]))
        scene.broker.topic_durable(write)
        scene.timelines.switch_on()
        scene.end_requests(2)
        await scene.timelines.switch_off()
        assert [sequence for *_, sequence in scene.sequences] == [[0, 1]]

    in_scene(story)


def test_while_the_disk_is_slow_a_bounded_number_of_rows_waits_and_losses_are_logged(in_scene, caplog):
    async def story(scene):
        scene.timelines.switch_on()
        scene.end_requests(1)
        await trio.sleep(2 * PUBLISH_SECONDS)
        scene.server.is_holding = True
        scene.end_requests(10)
        await trio.sleep(2 * PUBLISH_SECONDS)
        assert len(scene.server.held) == 1
        scene.end_requests(ROWS_MAX + 5)
        await trio.sleep(20 * PUBLISH_SECONDS)
        assert scene.status == {"rows": 1, "waiting": ROWS_MAX, "lost": 5}
        assert len(scene.server.held) == 1  # one publication at a time
        scene.server.release()
        await scene.timelines.switch_off()
        assert scene.status == {"rows": 11 + ROWS_MAX, "waiting": 0, "lost": 5}

    with caplog.at_level(logging.WARNING):
        scene = in_scene(story)
    assert [record.getMessage() for record in caplog.records] == ["5 request timelines were lost: the ring was full"]
    assert [first_row for _, first_row, _ in scene.sequences][:3] == [0, 1, 11]


def test_while_the_disk_is_full_nothing_is_appended(in_scene):
    async def story(scene):
        scene.timelines.switch_on()
        scene.end_requests(2)
        scene.journal.room.obstacle = OSError(28, "no space")
        await trio.sleep(4 * PUBLISH_SECONDS)
        assert scene.status == {"rows": 0, "waiting": 2, "lost": 0}
        scene.journal.room.obstacle = None
        await scene.timelines.switch_off()
        assert scene.status == {"rows": 2, "waiting": 0, "lost": 0}

    in_scene(story)


def test_each_session_numbers_its_rows_and_starts_after_the_previous_one(in_scene):
    async def story(scene):
        commands = scene.timelines.commands()
        await commands["timelines on"]()
        scene.end_requests(1)
        await trio.sleep(2 * PUBLISH_SECONDS)
        scene.server.is_holding = True
        scene.end_requests(2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commands["timelines off"])
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(PUBLISH_SECONDS)
            nursery.start_soon(commands["timelines on"])
            await trio.sleep(PUBLISH_SECONDS)
            assert scene.timelines.status()["on"] is False
            scene.server.release()
        assert scene.timelines.status()["on"] is True
        scene.end_requests(1)
        await commands["timelines off"]()

    first, second, third = in_scene(story).sequences
    assert first[0] == second[0] != third[0]
    assert [first[1:], second[1:], third[1:]] == [(0, [0]), (1, [0, 1]), (0, [0])]


def test_rows_that_a_shutdown_does_not_publish_are_logged(in_scene, caplog):
    async def story(scene):
        scene.timelines.switch_on()
        scene.end_requests(4)

    with caplog.at_level(logging.WARNING):
        in_scene(story)
    assert "4 request timelines were not published: the broker ended" in caplog.text


@pytest.mark.parametrize("is_off", [False, True])
def test_rows_of_a_failed_commit_are_published_again(in_scene, is_off):
    """Also the rows that wait when it is switched off, however many attempts that takes."""

    async def story(scene):
        scene.timelines.switch_on()
        scene.end_requests(1)
        await trio.sleep(2 * PUBLISH_SECONDS)
        assert scene.status == {"rows": 1, "waiting": 0, "lost": 0}
        scene.server.refusals = 3
        scene.end_requests(2)
        if not is_off:
            await trio.sleep(10 * PUBLISH_SECONDS)
            assert scene.status == {"rows": 3, "waiting": 0, "lost": 0}
        await scene.timelines.switch_off()
        assert scene.status == {"rows": 3, "waiting": 0, "lost": 0}
        assert scene.server.refusals == 0

    in_scene(story)


async def hold_publication(scene, count):
    """Publish `count` timelines in a commit that does not end."""
    scene.timelines.switch_on()
    scene.server.is_holding = True
    scene.end_requests(count)
    await trio.sleep(2 * PUBLISH_SECONDS)


def test_a_shutdown_waits_at_most_a_second_for_a_publication(in_scene):
    async def story(scene):
        await hold_publication(scene, 2)
        began = trio.current_time()
        await scene.timelines.end()
        assert trio.current_time() - began == pytest.approx(END_SECONDS_MAX)

    in_scene(story)


def test_switching_off_stops_observing_before_all_rows_are_published(in_scene):
    """Requests in between would prolong the session."""

    async def story(scene):
        await hold_publication(scene, 2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.timelines.switch_off)
            await trio.testing.wait_all_tasks_blocked()
            assert scene.server.held
            assert scene.observing[-1] is None
            scene.server.release()

    in_scene(story)


def test_losses_are_logged_once_until_an_interval_without_losses(in_scene, caplog):
    async def story(scene):
        scene.timelines.switch_on()
        scene.journal.room.obstacle = OSError(28, "no space")
        scene.end_requests(ROWS_MAX)
        for _ in range(2):
            for _ in range(6):
                scene.end_requests(1)
                await trio.sleep(PUBLISH_SECONDS / 2)
            await trio.sleep(3 * PUBLISH_SECONDS)
        scene.journal.room.obstacle = None
        await scene.timelines.switch_off()

    with caplog.at_level(logging.WARNING):
        in_scene(story)
    assert [record.getMessage().split(" ", 1)[1] for record in caplog.records] == [
        "request timelines were lost: the ring was full"
    ] * 2


def test_a_creation_of_the_topic_in_progress_is_awaited(in_scene):
    async def story(scene):
        write = scene.broker.topics.create(scene.broker.new_topic(TIMELINES_TOPIC))
        entry = scene.broker.append_metadata(write, NOW_MS)
        topic_id = scene.broker.topics.latest(TIMELINES_TOPIC).topic_id
        scene.timelines.switch_on()
        scene.end_requests(2)
        await trio.sleep(4 * PUBLISH_SECONDS)
        assert scene.timelines.status()["rows"] == 0
        scene.journal.sync(scene.journal.write([entry]))
        scene.broker.topic_durable(write)
        await trio.sleep(2 * PUBLISH_SECONDS)
        assert scene.status == {"rows": 2, "waiting": 0, "lost": 0}
        assert scene.broker.topics.get(TIMELINES_TOPIC).topic_id == topic_id

    in_scene(story)


def test_logged_rows_include_those_of_the_publication_in_progress(in_scene, caplog):
    async def story(scene):
        await hold_publication(scene, 3)
        assert scene.server.held
        scene.end_requests(2)

    with caplog.at_level(logging.WARNING):
        in_scene(story)
    assert "5 request timelines were not published: the broker ended" in caplog.text
