"""A broker with its journal in a store: any machine can continue with it, one process at a time."""

import json
import shutil
import signal
import time

import confluent_kafka as ck
import pytest
from click.testing import CliRunner

from pipeline_broker.cli import main
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.objects.fenced_log import place_of
from pipeline_broker.objects.opening import open_store
from pipeline_broker.objects.slot import FENCE_SIZE
from pipeline_broker.objects.store import list_all
from tests.node.test_archive_in_store import (
    RECORDS,
    WAIT_SECONDS,
    archive_all,
    consumed,
    create,
    failed_start,
    moto,
    place,
    produce,
)

__all__ = ["moto", "place"]

ALL = [(number, number) for number in range(RECORDS)]


def on_objects(url, *more):
    return ("--store", url, "--wal", "objects", *more)


def names_in(url, prefix):
    return [each.name for each in list_all(open_store(url, SystemFileSystem()), prefix)]


def commits_in(url):
    """Return the names of the journal's objects without fences."""
    found = list_all(open_store(url, SystemFileSystem()), "wal/1/")
    return [each.name for each in found if place_of("wal/1", each.name) is not None and each.size_bytes > FENCE_SIZE]


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_records_of_a_killed_broker_are_readable_on_an_empty_machine(broker_process, place, tmp_path, mode):
    broker = broker_process(mode=mode, arguments=on_objects(place))
    create(broker, "t")
    produce(broker, "t")
    broker.kill()
    shutil.rmtree(broker.data)
    broker = broker_process(mode=mode, data=tmp_path / "other machine", arguments=on_objects(place))
    assert consumed(broker, "t") == (0, RECORDS, ALL)
    produce(broker, "t", first=RECORDS)
    broker.stop()
    shutil.rmtree(broker.data)
    broker = broker_process(mode=mode, data=tmp_path / "third", arguments=on_objects(place))
    assert consumed(broker, "t") == (0, 2 * RECORDS, [(number, number) for number in range(2 * RECORDS)])


def test_archived_records_leave_the_journal_and_are_readable_on_an_empty_machine(broker_process, tmp_path):
    url = f"file://{tmp_path}/store"
    broker = broker_process(arguments=on_objects(url))
    create(broker, "t")
    create(broker, "compacted", cleanup_policy="compact")
    produce(broker, "t")
    before = commits_in(url)
    archive_all(broker.data)
    assert len(before) > 2
    assert set(before).isdisjoint(commits_in(url))
    assert names_in(url, "bulk/1/")
    produce(broker, "t", first=RECORDS)
    broker.kill()
    shutil.rmtree(broker.data)
    broker = broker_process(arguments=on_objects(url))
    assert consumed(broker, "t") == (0, 2 * RECORDS, [(number, number) for number in range(2 * RECORDS)])


def test_a_second_process_takes_over_and_the_first_exits_even_without_writes(broker_process, tmp_path):
    url = f"file://{tmp_path}/store"
    first = broker_process(arguments=on_objects(url))
    create(first, "t")
    produce(first, "t")
    second = broker_process(data=tmp_path / "second", arguments=on_objects(url))
    assert first.process.wait(WAIT_SECONDS) == 3
    assert "took over as generation 2" in first.stderr
    assert consumed(second, "t") == (0, RECORDS, ALL)


def test_a_stopped_process_acknowledges_nothing_when_it_resumes(broker_process, tmp_path):
    url = f"file://{tmp_path}/store"
    zombie = broker_process(arguments=on_objects(url))
    create(zombie, "t")
    produce(zombie, "t")
    acknowledged = []
    producer = ck.Producer({"bootstrap.servers": zombie.bootstrap, "linger.ms": 0, "message.timeout.ms": 15_000})
    zombie.process.send_signal(signal.SIGSTOP)
    try:
        for number in range(10):
            producer.produce(
                "t", b"late %d" % number, on_delivery=lambda error, message: error or acknowledged.append(message)
            )
        producer.poll(0)
        second = broker_process(data=tmp_path / "second", arguments=on_objects(url))
        time.sleep(0.2)
    finally:
        zombie.process.send_signal(signal.SIGCONT)
    assert zombie.process.wait(WAIT_SECONDS) == 3
    producer.purge()
    producer.flush(WAIT_SECONDS)
    assert acknowledged == []
    assert consumed(second, "t") == (0, RECORDS, ALL)


def test_a_directory_and_its_journal_stay_together(broker_process, tmp_path):
    url = f"file://{tmp_path}/store"
    broker = broker_process(arguments=on_objects(url))
    broker.stop()
    on_disk = ("--store", url, "--wal", "disk")
    for data, arguments, reason in (
        (broker.data, on_disk, "Start with --wal objects"),
        (tmp_path / "new", on_disk, "Start with --wal objects"),
        (broker.data, (), url),
    ):
        code, said, _ = failed_start(data, *arguments)
        assert (code, said.count("\n")) == (2, 1)
        assert reason in said
    local = broker_process(data=tmp_path / "local")
    local.stop()
    code, said, _ = failed_start(local.data, *on_objects(f"file://{tmp_path}/other"))
    assert (code, said.count("\n")) == (2, 1)
    assert "Choose a new directory for --store" in said


def test_a_journal_in_objects_needs_a_store(tmp_path):
    code, said, _ = failed_start(tmp_path / "data", "--wal", "objects")
    assert (code, said.count("\n")) == (2, 1)
    assert "need each other" in said


def test_a_journal_on_disk_is_not_replaced_by_one_in_the_store(broker_process, tmp_path):
    url = f"file://{tmp_path}/store"
    broker = broker_process(arguments=("--store", url, "--wal", "disk"))
    create(broker, "t", cleanup_policy="compact")
    produce(broker, "t")
    archive_all(broker.data)
    broker.stop()
    for data in (broker.data, tmp_path / "new"):
        code, said, _ = failed_start(data, *on_objects(url))
        assert (code, said.count("\n")) == (2, 1)
        assert "--wal disk" in said
    broker = broker_process(data=broker.data, arguments=("--store", url, "--wal", "disk"))
    assert consumed(broker, "t")[1] == RECORDS


def test_a_store_is_inspected_while_its_broker_runs(broker_process, place):
    broker = broker_process(arguments=on_objects(place))
    create(broker, "t")
    produce(broker, "t")
    for where in (["--data", str(broker.data)], ["--store", place]):
        result = CliRunner().invoke(main, ["inspect", *where, "--topic", "t", "--json"])
        assert result.exit_code == 0, result.output
        totals = json.loads(result.output.splitlines()[-1])
        assert totals["archived_records"] + totals["records"] >= RECORDS
