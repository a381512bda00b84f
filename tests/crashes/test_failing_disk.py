"""A disk that fails, slows down, hangs or writes in the wrong place: nothing acknowledged is lost or told early.

The disk is the forgetful file system, so that a power cut can follow: what a start has shown must outlive it, whatever
the failure had left in the page cache.
"""

import re
import time

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from tests.crashes.broker_under_test import StartFailed, assert_failed_stop
from tests.crashes.lengths import AT_LENGTH, drawn
from tests.crashes.member import joined_group
from tests.crashes.producers import produce_request
from tests.crashes.scene import PARTITIONS, Scene
from tests.crashes.wire_client import WireClient, describe_topics, fetch_request
from tests.waiting import wait_readable

pytestmark = [pytest.mark.faults]
MODES = pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
SEGMENTS = "*.segment"
OPERATIONS_BEFORE_FAILURE = 40
SABOTAGES_MAX = 5
LOAD_SECONDS = 0.4
SYNC_SECONDS = 5.0 if AT_LENGTH else 2.5
ANSWER_SECONDS_MAX = 1.0  # of what needs no disk, on a machine with other work
HEARTBEAT_SECONDS = 0.1
HANG_SECONDS = 0.5
DISK_BYTES = 2 << 20
SECTOR_BYTES = 512
READS_MISDIRECTED = (0, 1, 3, 6)  # the nth of a start
MISDIRECTED_BY_BYTES = 1 << 20
GROUP = "group"
REFUSAL = "is damaged: entries \\d+ to \\d+ were durable and cannot be read; nothing was changed"


@pytest.fixture
def disk(mount_forgetful, tmp_path):
    with mount_forgetful(tmp_path / "disk") as mount:
        yield mount


@pytest.fixture
def scene(disk, tmp_path):
    """Gives a scene on the disk; `prepared` starts its broker and makes its topics."""
    scenes = []

    def make(*, prepared=True, **options):
        scenes.append(made := Scene(len(scenes), tmp_path / "broker", data=disk.path / "data", **options))
        if prepared:
            made.start()
            made.prepare()
        return made

    yield make
    for made in scenes:
        disk.ask("clear_faults")
        made.close()


def load_for_a_while(scene):
    load = scene.load()
    time.sleep(LOAD_SECONDS)
    load.stop()


def assert_all_is_there_and_stays(scene, disk):
    """A start has everything; a power cut after it takes nothing that was seen; then it serves and stops."""
    disk.ask("clear_faults")
    scene.start()
    shown = scene.verify()
    disk.cut(0, "nothing")
    scene.broker.kill()
    disk.power_on()
    scene.start()
    assert scene.verify().records == shown.records
    scene.resolve()
    scene.verify()
    assert scene.broker.stop() == 0


@MODES
@pytest.mark.parametrize("times", [1, None], ids=["once", "always"])
def test_after_a_failed_sync_nothing_is_acknowledged_and_what_was_stays(scene, disk, mode, times):
    """Cases 16 and 17."""
    made = scene(mode=mode)
    disk.add_fault("sync", SEGMENTS, error="EIO", skip_count=OPERATIONS_BEFORE_FAILURE, hit_count_max=times)
    made.load().join()
    assert_failed_stop(made.broker, "Input/output error")
    assert made.history.acknowledged_count > 0
    assert_all_is_there_and_stays(made, disk)


def test_a_start_that_takes_what_it_reads_for_durable_is_noticed(scene, disk):
    """Not each time: the page cache may have written by itself what the failed sync did not."""
    made = scene(variant="trusts-the-page-cache")
    for _ in range(SABOTAGES_MAX):
        disk.add_fault("sync", SEGMENTS, error="EIO", skip_count=OPERATIONS_BEFORE_FAILURE, hit_count_max=1)
        made.load().join()
        assert_failed_stop(made.broker, "Input/output error")
        try:
            assert_all_is_there_and_stays(made, disk)
        except AssertionError as noticed:
            if not re.search(r"it is not there|assert \{|cannot be read", str(noticed)):
                raise
            return
        made.start()
    pytest.fail("nobody noticed")


@pytest.mark.parametrize(
    ("operation", "pattern"),
    [("sync directory", "/data/journal"), ("rename", "*/spare"), ("create", SEGMENTS), ("write", SEGMENTS)],
)
def test_a_journal_that_cannot_go_on_in_a_new_file_ends_the_broker(scene, disk, operation, pattern):
    made = scene(variant="rolling")
    if operation == "create":  # without a spare the next segment is created when it is needed
        disk.add_fault("create", "*/preparing", error="EIO")
    disk.add_fault(operation, pattern, error="EIO", skip_count=3)
    made.load().join()
    assert_failed_stop(made.broker, "Input/output error")
    assert_all_is_there_and_stays(made, disk)


def test_a_start_whose_syncs_fail_is_refused(scene, disk):
    """Case 17."""
    made = scene(prepared=False)
    disk.add_fault("sync", SEGMENTS, error="EIO")
    made.broker.launch("pipelined", "always")
    assert made.broker.wait() == 2
    assert len(made.broker.stderr.splitlines()) == 1, made.broker.stderr


@MODES
def test_a_disk_that_becomes_read_only_ends_the_broker_and_refuses_its_start(scene, disk, mode):
    """Case 24."""
    made = scene(mode=mode)
    for operation in ("write", "truncate", "create", "rename", "unlink", "make directory"):
        skipped = OPERATIONS_BEFORE_FAILURE if operation == "write" else 0
        disk.add_fault(operation, error="EROFS", skip_count=skipped)
    made.load().join()
    assert_failed_stop(made.broker, "Read-only file system")
    made.broker.launch(mode, "always")
    assert made.broker.wait() == 2
    (line,) = made.broker.stderr.splitlines()
    assert "Read-only file system" in line
    assert_all_is_there_and_stays(made, disk)


def limited(limit):
    """A prefix that runs a program under a limit of the shell."""
    return ("sh", "-c", f'{limit} && exec "$@"', "sh")


@MODES
def test_a_file_that_may_not_grow_ends_the_broker(scene, disk, mode):
    """Case 22."""
    made = scene(mode=mode, prepared=False, prefix=limited(f"ulimit -f {DISK_BYTES // 512}"))
    made.start()
    made.prepare()
    made.load().join()
    assert_failed_stop(made.broker, "File too large")
    made.broker.prefix = ()
    assert_all_is_there_and_stays(made, disk)


def test_a_read_that_fails_is_an_error_of_its_partition_and_passes(scene, disk):
    """Case 19."""
    made = scene(variant="hoarding")
    load_for_a_while(made)
    assert made.broker.stop() == 0
    made.start()  # nothing is in memory now
    disk.add_fault("read", SEGMENTS, error="EIO", hit_count_max=1)
    with WireClient(made.broker.address) as client:
        topic_ids = {name: topic.topic_id for name, topic in describe_topics(client).items()}
        codes = []
        for name, index in (PARTITIONS[0], *PARTITIONS):
            answer = client.ask(fetch_request(topic_ids[name], index, 0))
            codes.append(answer.responses[0].partitions[0].error_code)
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] + [ErrorCode.NONE] * len(PARTITIONS)
    made.verify()


@MODES
def test_during_a_slow_sync_nothing_is_acknowledged_and_heartbeats_are_answered(scene, disk, mode):
    """Case 26."""
    made = scene(mode=mode, settings=("group.initial.rebalance.delay.ms=0",))
    with WireClient(made.broker.address) as producer, WireClient(made.broker.address) as consumer:
        generation, member_id = joined_group(consumer, GROUP)
        topic_ids = {name: topic.topic_id for name, topic in describe_topics(consumer).items()}
        disk.add_fault("sync", SEGMENTS, delay_seconds=SYNC_SECONDS)
        began = time.monotonic()
        producer.send(produce_request(topic_ids, {PARTITIONS[0]: build_batch([NewRecord(b"slow", timestamp=1)])}))
        heartbeats = 0
        while not wait_readable(producer, HEARTBEAT_SECONDS):
            asked = time.monotonic()
            assert consumer.ask(HeartbeatRequest(GROUP, generation, member_id)).error_code == ErrorCode.NONE
            assert time.monotonic() - asked < ANSWER_SECONDS_MAX
            heartbeats += 1
        assert time.monotonic() - began >= SYNC_SECONDS
        assert heartbeats > SYNC_SECONDS / ANSWER_SECONDS_MAX
        assert producer.receive().responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert disk.ask("at_risk", pattern=SEGMENTS)[0] == 0


@MODES
def test_a_disk_that_hangs_acknowledges_nothing_and_loses_nothing_when_the_process_is_killed(scene, disk, mode):
    """Case 27."""
    made = scene(mode=mode)
    load = made.load()
    time.sleep(LOAD_SECONDS)
    disk.ask("hang")
    time.sleep(HANG_SECONDS)  # what was synced before may still be on its way
    acknowledged = made.history.acknowledged_count
    time.sleep(HANG_SECONDS)
    assert made.history.acknowledged_count == acknowledged > 0
    disk.cut(mode)
    made.broker.kill()
    load.join()
    disk.power_on()
    made.forgive_storage_errors()
    assert_all_is_there_and_stays(made, disk)


def contents_of(directory):
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*.segment")}


@pytest.mark.parametrize("distance", drawn(-MISDIRECTED_BY_BYTES, 8 << 10, -(8 << 10), MISDIRECTED_BY_BYTES, count=2))
def test_a_misdirected_write_refuses_the_start_and_nothing_is_changed(scene, disk, distance):
    """Unless the archive had copied the records from the page cache, where they were right. Case 31."""
    made = scene(variant="unarchived")
    load_for_a_while(made)
    disk.add_fault("write", SEGMENTS, shift_bytes=distance, hit_count_max=1)
    load_for_a_while(made)
    assert disk.ask("hits") == [1]
    made.verify()
    assert made.broker.stop() == 0
    disk.cut_and_power_on(0)
    before = contents_of(disk.path)
    with pytest.raises(StartFailed) as refused:
        made.start()
    assert re.search(REFUSAL, str(refused.value)) or "header" in str(refused.value)
    assert contents_of(disk.path) == before


def test_a_read_of_another_place_during_the_start_refuses_it_or_does_no_harm(scene, disk):
    """Case 31."""
    made = scene(variant="hoarding")
    load_for_a_while(made)
    assert made.broker.stop() == 0
    refused = 0
    for number in READS_MISDIRECTED:
        disk.add_fault("read", SEGMENTS, shift_bytes=SECTOR_BYTES, skip_count=number, hit_count_max=1)
        try:
            made.start()
        except StartFailed:
            refused += 1
            disk.ask("clear_faults")
            made.start()
        disk.ask("clear_faults")
        made.verify()
        made.broker.kill()
    assert refused > 0
