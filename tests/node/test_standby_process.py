"""A standby process continues with the journal of a killed, stopped or ended broker; only one of several does."""

import select
import shutil
import signal
import time

import confluent_kafka as ck
import pytest

from pipeline_broker.objects.lease import lease_name
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from tests.bad_input.raw_client import RawClient, fetch_request, frame_of, produce_answers, produce_request
from tests.conftest import READY_LINE, BrokerProcess, read_line
from tests.forks import start_python
from tests.node.test_archive_in_store import (
    RECORDS,
    WAIT_SECONDS,
    consumed,
    create,
    failed_start,
    moto,
    place,
    produce,
)
from tests.node.test_wal_in_store import ALL, names_in, on_objects

__all__ = ["moto", "place"]

SESSION_SECONDS = 2
SETTING = ("--set", f"broker.session.timeout.ms={SESSION_SECONDS * 1000}")
PRODUCE_VERSION = 9
SILENT_OWNER, ORDERLY_END = "the owner has not renewed its lease for", "the owner has given up its journal"
"""Log lines with the reason of a takeover; tests/node/test_standby.py tests the delay, in virtual time."""


def numbered_produce(sequence):
    record = NewRecord(b"numbered", timestamp=time.time_ns() // 1_000_000)
    return produce_request(
        (0, build_batch([record], producer_id=0, producer_epoch=0, base_sequence=sequence)), topic="t"
    )


class Standby:
    """A process started with --standby that has printed its line."""

    def __init__(self, directory, url, port, arguments=()):
        self.directory = directory
        directory.mkdir()
        command = ["serve", "--port", str(port), "--data", str(directory / "data"), "--standby", *arguments]
        with (directory / "stderr").open("wb") as stderr:
            self.process = start_python([*command, *on_objects(url), *SETTING], stderr)
        assert read_line(self.process, WAIT_SECONDS) == "standing by", self.stderr

    @property
    def stderr(self):
        return (self.directory / "stderr").read_text(encoding="utf-8")

    def broker(self, seconds_max=WAIT_SECONDS):
        """The broker that it becomes; None if it did not in time."""
        ready = READY_LINE.fullmatch(line := read_line(self.process, seconds_max))
        if ready is None:
            return None
        data = self.directory / "data"
        return BrokerProcess(
            self.process, ready["host"], int(ready["port"]), ready["mode"], data, line, self.directory / "stderr"
        )


@pytest.fixture
def standby(tmp_path):
    """Start standbys. Those still running at the end must exit with 0 on SIGTERM."""
    started = []

    def start(url, port=0, arguments=()):
        started.append(Standby(tmp_path / f"standby-{len(started)}", url, port, arguments))
        return started[-1]

    yield start
    for each in started:
        each.process.send_signal(signal.SIGTERM)
    for each in started:
        each.process.wait(WAIT_SECONDS)
        each.process.stdout.close()
    assert [each.process.returncode for each in started] == [0] * len(started)


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/store"


@pytest.fixture
def owner(broker_process, url):
    """A broker with a topic and records."""
    broker = broker_process(arguments=on_objects(url, *SETTING))
    create(broker, "t")
    produce(broker, "t")
    return broker


def test_a_standby_takes_over_from_a_killed_owner_without_losing_acknowledged_records(owner, standby, url):
    waiting = standby(url)
    acknowledged = []
    producer = ck.Producer({"bootstrap.servers": owner.bootstrap, "linger.ms": 0, "enable.idempotence": True})
    number = RECORDS
    while len(acknowledged) <= RECORDS:
        producer.produce("t", str(number), on_delivery=lambda error, message: error or acknowledged.append(message))
        producer.poll(0.001)
        number += 1
    owner.kill()  # with records under way
    shutil.rmtree(owner.data)
    successor = waiting.broker()
    assert SILENT_OWNER in waiting.stderr
    producer.poll(0)
    producer.purge()
    producer.flush(WAIT_SECONDS)
    low, high, found = consumed(successor, "t")
    assert (low, found) == (0, [(offset, offset) for offset in range(high)])
    there = dict(found)
    assert len(acknowledged) > RECORDS
    for message in acknowledged:
        assert there[message.offset()] == int(message.value())
    produce(successor, "t", first=high)
    assert consumed(successor, "t") == (0, high + RECORDS, [(offset, offset) for offset in range(high + RECORDS)])


def test_a_standby_takes_over_at_once_after_an_orderly_shutdown(broker_process, standby, place):
    owner = broker_process(arguments=on_objects(place, *SETTING))
    create(owner, "t")
    produce(owner, "t")
    waiting = standby(place)
    owner.stop()
    successor = waiting.broker()
    assert ORDERLY_END in waiting.stderr
    assert consumed(successor, "t") == (0, RECORDS, ALL)


def test_an_owner_that_was_stopped_during_the_takeover_exits_when_it_resumes(owner, standby, url):
    waiting = standby(url)
    owner.process.send_signal(signal.SIGSTOP)
    try:
        successor = waiting.broker()
        assert SILENT_OWNER in waiting.stderr
        produce(successor, "t", first=RECORDS)
    finally:
        owner.process.send_signal(signal.SIGCONT)
    assert owner.process.wait(WAIT_SECONDS) == 3
    assert "took over as generation 2" in owner.stderr
    assert owner.stderr.count("\n") == 1
    assert consumed(successor, "t") == (0, 2 * RECORDS, [(number, number) for number in range(2 * RECORDS)])


def test_an_owner_that_was_stopped_during_the_takeover_sends_no_outdated_answer(owner, standby, url):
    """Its log ends earlier than the successor's: a consumer with a later offset would have to reset it."""
    waiting = standby(url)
    request = fetch_request("t", 0, offset=2 * RECORDS)
    with (
        RawClient(owner.port) as beyond,
        RawClient(owner.port) as metadata,
        RawClient(owner.port) as writing,
    ):
        metadata.ask(MetadataRequest(topics=[]), 12)
        assert produce_answers(writing.ask(numbered_produce(0), PRODUCE_VERSION)) == [(0, 0)]
        owner.process.send_signal(signal.SIGSTOP)
        try:
            successor = waiting.broker()
            produce(successor, "t", first=RECORDS)
            with RawClient(successor.port) as client:
                assert produce_answers(client.ask(numbered_produce(1), PRODUCE_VERSION)) == [(0, 0)]
            asked = (beyond, request, 12), (metadata, MetadataRequest(topics=[]), 12)
            for client, message, version in (*asked, (writing, numbered_produce(2), PRODUCE_VERSION)):
                client.send_frame(frame_of(message, version))  # handled first when the process resumes
        finally:
            owner.process.send_signal(signal.SIGCONT)
        assert beyond.is_closed()
        assert metadata.is_closed()
        assert writing.is_closed()  # to the owner a number is missing
    assert owner.process.wait(WAIT_SECONDS) == 3


def test_one_of_several_standbys_takes_over_and_the_others_stand_by_again(owner, standby, url):
    """On one machine all may use the owner's port. A standby that finds it in use waits again, too."""
    waiting = [standby(url, owner.port) for _ in range(2)]
    owner.kill()
    poll = select.poll()
    for each in waiting:
        poll.register(each.process.stdout, select.POLLIN)
    ((said, _),) = poll.poll(WAIT_SECONDS * 1000)
    (winner,) = [each for each in waiting if each.process.stdout.fileno() == said]
    (other,) = set(waiting) - {winner}
    successor = winner.broker()
    assert other.broker(1.5 * SESSION_SECONDS) is None
    assert other.process.poll() is None
    assert consumed(successor, "t") == (0, RECORDS, ALL)
    successor.stop()
    assert consumed(other.broker(), "t") == (0, RECORDS, ALL)


def test_a_standby_leaves_an_idle_owner_alone(owner, standby, url):
    waiting = standby(url)
    assert waiting.broker(2 * SESSION_SECONDS) is None
    assert owner.process.poll() is None
    assert names_in(url, "wal/1/").count(lease_name("wal/1")) == 1
    produce(owner, "t", first=RECORDS)


def test_a_signal_ends_a_standby_without_changes(owner, standby, url, tmp_path):
    waiting = standby(url)
    before = names_in(url, "")
    waiting.process.send_signal(signal.SIGTERM)
    assert waiting.process.wait(2) == 0
    assert waiting.stderr == ""
    assert names_in(url, "") == before
    assert not waiting.broker(0)


@pytest.mark.parametrize("arguments", [(), ("--store", "file:///tmp/store", "--wal", "disk")])
def test_a_standby_for_a_journal_on_disk_is_refused(tmp_path, arguments):
    code, said, _ = failed_start(tmp_path / "data", "--standby", *arguments)
    assert (code, said.count("\n")) == (2, 1)
    assert "--wal objects" in said


def test_a_standby_without_its_store_is_refused(tmp_path, monkeypatch):
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    code, said, seconds = failed_start(tmp_path / "data", *on_objects("s3://bucket/p", "--standby"))
    assert (code, said.count("\n")) == (2, 1)
    assert seconds < 10
