"""A broker with its archive in an object store: contents, refused startups, and takeover."""

import shutil
import signal
import subprocess
import sys
import time

import confluent_kafka as ck
import confluent_kafka.admin as cka
import pytest
from click.testing import CliRunner

from pipeline_broker.cli import main
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.local.archive_place import PLACE_NAME
from pipeline_broker.objects.opening import open_store
from pipeline_broker.objects.store import list_all
from tests.conftest import ROOT
from tests.forks import run_command
from tests.objects import s3_servers

RECORDS = 60
WAIT_SECONDS = 60
ASKED_FOR = {
    "min_compaction_lag_ms": "0",
    "delete_retention_ms": "1000",
}  # of a topic that is compacted without a broker


@pytest.fixture(scope="module")
def moto():
    with s3_servers.open_moto() as address, pytest.MonkeyPatch.context() as patch:
        for name, value in s3_servers.environment(address).items():
            patch.setenv(name, value)
        open_store("s3://bucket/first", SystemFileSystem()).list("")  # the threads of obstore are started once
        yield address


@pytest.fixture(params=["directory", "bucket"])
def place(request, tmp_path, moto):
    """The URL of a store."""
    if request.param == "directory":
        return f"file://{tmp_path}/store"
    return f"s3://{s3_servers.BUCKET}/{tmp_path.name.replace('[', '').replace(']', '')}"


def in_store(url, *more):
    return ("--store", url, "--wal", "disk", *more)


def create(broker, name, **config):
    admin = cka.AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([cka.NewTopic(name, 1, 1, config=config)])[name].result(WAIT_SECONDS)


def produce(broker, topic, first=0, timestamp=0):
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "batch.num.messages": 1})
    for number in range(first, first + RECORDS):
        producer.produce(topic, f"{number}".ljust(30_000, "."), f"key {number % 3}", timestamp=timestamp)
    assert producer.flush(WAIT_SECONDS) == 0


def consumed(broker, topic):
    """Return the offsets and numbers that a consumer reads, and the start and end of the log."""
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.partition.eof": True})
    low, high = consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), timeout=WAIT_SECONDS)
    consumer.assign([ck.TopicPartition(topic, 0, low)])
    found = []
    while (message := consumer.poll(WAIT_SECONDS)) is not None and message.error() is None:
        found.append((message.offset(), int(message.value().rstrip(b".").decode())))
    consumer.close()
    return low, high, found


def archive_all(data):
    result = CliRunner().invoke(main, ["compact", "--data", str(data)])
    assert result.exit_code == 0, result.output


def names_in(url):
    return [each.name for each in list_all(open_store(url, SystemFileSystem()), "")]


def test_archived_segments_are_in_the_store_and_read_from_there(broker_process, place):
    broker = broker_process(arguments=in_store(place))
    create(broker, "kept")
    create(broker, "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0.0", segment_bytes="1048576")
    produce(broker, "kept")
    produce(broker, "compacted")
    archive_all(broker.data)
    names = names_in(place)
    assert [name for name in names if name.startswith("bulk/1/")]
    assert not (broker.data / "archive").exists()

    produce(broker, "kept", first=RECORDS)
    broker.kill()
    broker = broker_process(data=broker.data, arguments=in_store(place))
    assert consumed(broker, "kept") == (0, 2 * RECORDS, [(number, number) for number in range(2 * RECORDS)])
    low, high, found = consumed(broker, "compacted")
    assert (low, high) == (0, RECORDS)
    assert len(found) < RECORDS
    assert [number for _, number in found][-3:] == [RECORDS - 3, RECORDS - 2, RECORDS - 1]
    archive_all(broker.data)
    broker.stop()
    broker = broker_process(data=broker.data, arguments=in_store(place))
    assert consumed(broker, "kept") == (0, 2 * RECORDS, [(number, number) for number in range(2 * RECORDS)])


def test_expired_segments_are_deleted_from_the_store(broker_process, tmp_path):
    url = f"file://{tmp_path}/store"
    broker = broker_process(arguments=in_store(url), settings=["log.segment.delete.delay.ms=0"])
    create(broker, "old", retention_ms="1000", file_delete_delay_ms="0")
    create(broker, "compacted", cleanup_policy="compact")
    produce(broker, "old", timestamp=1_600_000_000_000)
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("compacted", "x", "k")  # else nothing is to be compacted where metadata is archived already
    assert producer.flush(WAIT_SECONDS) == 0
    archive_all(broker.data)
    size = sum(path.stat().st_size for path in (tmp_path / "store/bulk").rglob("*") if path.is_file())
    assert size > RECORDS * 30_000
    result = CliRunner().invoke(main, ["retain", "--data", str(broker.data)])
    assert (result.exit_code, result.output) == (0, "deleted\n")
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(path.stat().st_size for path in (tmp_path / "store/bulk").rglob("*") if path.is_file()) > size // 10:
        assert time.monotonic() < deadline, "the objects are still there"
        time.sleep(0.05)
    assert consumed(broker, "old") == (RECORDS, RECORDS, [])


def test_a_stopped_brokers_archive_is_compacted_where_it_is(broker_process, tmp_path):
    url = f"file://{tmp_path}/store"
    broker = broker_process(arguments=in_store(url), settings=["node.id=7"])
    create(broker, "t", cleanup_policy="compact", segment_bytes="1048576", **ASKED_FOR)
    produce(broker, "t")
    broker.stop()
    result = CliRunner().invoke(main, ["compact", "--data", str(broker.data), "--topic", "t"])
    assert (result.exit_code, result.output) == (0, "compacted\n")
    assert [name for name in names_in(url) if name.startswith("bulk/7/")]
    broker = broker_process(data=broker.data, arguments=in_store(url), settings=["node.id=7"])
    assert len(consumed(broker, "t")[2]) < RECORDS


def failed_start(data, *arguments):
    began = time.monotonic()
    ended = run_command("serve", "--port", "0", "--data", str(data), *arguments)
    return ended.returncode, ended.stderr, time.monotonic() - began


def test_an_unresponsive_store_fails_the_startup_in_time(tmp_path, monkeypatch):
    for name, value in s3_servers.environment("http://127.0.0.1:1").items():
        monkeypatch.setenv(name, value)
    code, said, seconds = failed_start(tmp_path / "data", *in_store("s3://bucket/prefix"))
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("Error: the store s3://bucket/prefix cannot be used: ")
    assert seconds < 10


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--store", "file:///tmp/x"), "need each other"),
        (("--wal", "disk"), "need each other"),
        (in_store("http://host/x"), "s3://BUCKET/PREFIX"),
        (in_store("memory://name"), "has no name"),
        (in_store("file:///dev/null/x"), "/dev/null"),
    ],
)
def test_an_invalid_store_fails_the_startup(tmp_path, arguments, reason):
    code, said, _ = failed_start(tmp_path / "data", *arguments)
    assert code == 2
    assert reason in said
    assert said.count("\n") == 1


def test_a_startup_with_another_archive_than_before_fails(broker_process, tmp_path):
    url, other = f"file://{tmp_path}/store", f"file://{tmp_path}/other"
    broker = broker_process(arguments=in_store(url))
    broker.stop()
    assert (broker.data / PLACE_NAME).read_text() == f"{url}\n1\n"
    for arguments, reason in (
        ((), url),
        (in_store(other), url),
        (in_store(url, "--set", "node.id=2"), "node.id=1"),
    ):
        code, said, _ = failed_start(broker.data, *arguments)
        assert (code, said.count("\n")) == (2, 1)
        assert reason in said
    local = broker_process(data=tmp_path / "local")
    local.stop()
    code, said, _ = failed_start(tmp_path / "local", *in_store(other))
    assert code == 2
    assert "contains an archive of its own" in said
    (broker.data / PLACE_NAME).write_text("nonsense")
    code, said, _ = failed_start(broker.data, *in_store(url))
    assert (code, said.count("\n")) == (2, 1)


def test_a_broker_that_was_taken_over_exits_when_it_archives(broker_process, tmp_path):
    """By mistake, two brokers share a node id and a store. The second takes over the archive."""
    url = f"file://{tmp_path}/store"
    first = broker_process(arguments=in_store(url))
    create(first, "t", cleanup_policy="compact")
    produce(first, "t")
    second = broker_process(data=tmp_path / "second", arguments=in_store(url))
    CliRunner().invoke(main, ["compact", "--data", str(first.data)])
    assert first.process.wait(WAIT_SECONDS) == 3
    assert "took over" in first.stderr
    second.stop()


def test_a_broker_without_its_store_shuts_down_and_continues_once_the_store_is_back(broker_process, tmp_path):
    url = f"file://{tmp_path}/store"
    broker = broker_process(arguments=in_store(url))
    create(broker, "t", cleanup_policy="compact")
    produce(broker, "t")
    deadline = time.monotonic() + WAIT_SECONDS
    while len(list((broker.data / "journal").glob("*.segment"))) > 1:  # an early segment is on its way to the store
        assert time.monotonic() < deadline
        time.sleep(0.05)
    shutil.move(tmp_path / "store", tmp_path / "away")
    (tmp_path / "store").write_bytes(b"")  # a file instead of a directory fails all requests
    command = [sys.executable, "-m", "pipeline_broker", "compact", "--data", str(broker.data)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as asking:
        try:
            deadline = time.monotonic() + WAIT_SECONDS
            while "archiving is suspended" not in broker.stderr:
                assert time.monotonic() < deadline, broker.stderr
                time.sleep(0.05)
            assert consumed(broker, "t")[1] == RECORDS
            broker.process.send_signal(signal.SIGTERM)
            assert broker.process.wait(WAIT_SECONDS) == 0, broker.stderr
            asking.wait(WAIT_SECONDS)
        finally:
            asking.kill()
    (tmp_path / "store").unlink()
    shutil.move(tmp_path / "away", tmp_path / "store")
    broker = broker_process(data=broker.data, arguments=in_store(url))
    assert consumed(broker, "t")[1] == RECORDS


@pytest.mark.parametrize("wal", ["disk", "objects"])
def test_a_store_in_memory_exists_as_long_as_its_process(broker_process, tmp_path, wal):
    """Records that the journal on disk has moved to such an archive are reported as lost."""
    arguments = ("--store", "memory://", "--wal", wal)
    broker = broker_process(arguments=arguments)
    create(broker, "t", cleanup_policy="compact")
    produce(broker, "t")
    archive_all(broker.data)
    assert consumed(broker, "t")[1] == RECORDS
    broker.stop()
    if wal == "disk":
        code, said, _ = failed_start(broker.data, *arguments)
        assert (code, said.count("\n")) == (2, 1)
        assert "was lost when its process ended" in said
    else:
        broker = broker_process(data=broker.data, arguments=arguments)
        create(broker, "t")
        assert consumed(broker, "t")[1] == 0
