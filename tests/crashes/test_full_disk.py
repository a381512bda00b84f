"""A disk without space, or a process without descriptors: writes are refused with an error after which clients try
again, reads are served, and when there is room everything goes on where it stopped. Nothing is lost or there twice.

The disk is a small file system of the kernel's own, or the forgetful one where the power is to go as well.
"""

import contextlib
import os
import random
import resource
import subprocess
import time
from pathlib import Path

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.journal.clean_shutdown import MARK_NAME
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.crashes.clerk import Reader, create_by_asking
from tests.crashes.lengths import drawn
from tests.crashes.producers import ConfluentProducer, PlainProducer, produce_request
from tests.crashes.scene import PARTITIONS, Load, Scene
from tests.crashes.wire_client import WireClient, describe_topics
from tests.forks import run_command
from tests.required import absent
from tests.waiting import wait_readable

pytestmark = [pytest.mark.faults]
MODES = pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
DISK_BYTES = 3 << 20
SPACE_BYTES = 300 << 20
WAIT_SECONDS = 30.0
ANSWER_SECONDS = 1.0
POLL_SECONDS = 0.05
WRITES_BEFORE = 60
FILLING = bytes(100_000)
REFUSED = "the broker refuses writes"
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def small_disk(tmp_path):
    """A directory on a file system of its own, smaller than what a broker would like to prepare."""
    if os.geteuid() != 0:
        absent("only root may mount a file system")
    path = tmp_path / "disk"
    path.mkdir()
    options = f"size={DISK_BYTES}"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True, check=False)
    if mounted.returncode:
        absent(f"this machine does not mount a tmpfs: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def make_space(disk):
    subprocess.run(["mount", "-o", f"remount,size={SPACE_BYTES}", disk], check=True)


@contextlib.contextmanager
def without_descriptors(process_id):
    """Let a process open nothing more while the body runs."""
    before = resource.prlimit(process_id, resource.RLIMIT_NOFILE)
    descriptors = len(list(Path(f"/proc/{process_id}/fd").iterdir()))
    resource.prlimit(process_id, resource.RLIMIT_NOFILE, (descriptors, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process_id, resource.RLIMIT_NOFILE, before)


def code_of_a_write(address):
    """What a client is told that connects now and asks for something that must be written.

    None for nothing: it may be the first for which there is no room, and wait for that.
    """
    with contextlib.suppress(TimeoutError), WireClient(address, ANSWER_SECONDS) as client:
        return client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)).error_code
    return None


def wait_for_code(address, code):
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := code_of_a_write(address)) != code:
        assert time.monotonic() < deadline, f"a write is answered with {found}"
        time.sleep(POLL_SECONDS)


class UntilRefused(PlainProducer):
    """One request at a time, and none once one was refused: it sends nothing again, so there would be a hole."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.window = 1

    def take(self, response, sent):
        super().take(response, sent)
        codes = {data.error_code for topic in response.responses for data in topic.partition_responses}
        assert codes == {0}, f"got error {max(codes)}"


def prepare(scene):
    """As Scene.prepare, with clients that know of refusals."""
    scene.prepare()
    for place, client in enumerate(scene.clients):
        if isinstance(client, PlainProducer):
            scene.clients[place] = UntilRefused(scene.history, scene.random, client.topic_ids, PARTITIONS)
    scene.clients = [client for client in scene.clients if isinstance(client, (UntilRefused, Reader))]


@contextlib.contextmanager
def producing(scene):
    """Clients at work, one of them librdkafka's, which is to have everything delivered in the end."""
    confluent = ConfluentProducer(scene.history, random.Random(7), "{}:{}".format(*scene.broker.address), PARTITIONS)
    confluent.active.set()
    load = Load(scene.broker.address, scene.history, scene.clients)
    try:
        yield load
    finally:
        confluent.active.clear()
        confluent.finish()


def are_all_acknowledged(streams):
    """Return whether each producer has connected, and has an acknowledgement of each of its streams."""
    is_acknowledged = {stream.name: bool(stream.acknowledged) for stream in tuple(streams) if stream.values}
    kinds = {name.partition("-")[0] for name in is_acknowledged}
    return kinds == {UntilRefused.kind, ConfluentProducer.kind} and all(is_acknowledged.values())


def assert_served_without_writes(scene):
    """Reads and what is only looked up."""
    with WireClient(scene.broker.address, WAIT_SECONDS) as client:
        assert {topic.error_code for topic in describe_topics(client).values()} == {0}
    scene.forgive_storage_errors()
    scene.verify()


@MODES
@pytest.mark.parametrize("flush", drawn("always", "os"))
def test_a_full_disk_stops_the_writes_and_with_space_they_go_on_without_a_gap(tmp_path, small_disk, mode, flush):
    """Cases 20 and 21."""
    with Scene(2, tmp_path, mode=mode, flush=flush, data=small_disk / "data") as scene:
        scene.start()
        prepare(scene)
        with producing(scene) as load:
            wait_for_code(scene.broker.address, STORAGE_ERROR)
            acknowledged = scene.history.acknowledged_count
            assert acknowledged > 0
            make_space(small_disk)
            wait_for_code(scene.broker.address, 0)
            load.stop()
        scene.forgive_storage_errors()
        scene.verify()
        assert scene.history.acknowledged_count > acknowledged
        stderr = scene.broker.stderr
        refusal = "the journal cannot be written, and the broker refuses writes: [Errno 28] No space left on device"
        assert stderr.count(refusal) == 1
        assert stderr.count("the journal accepts writes again") == 1
        scene.broker.kill()
        scene.start()
        scene.verify()
        assert scene.broker.stop() == 0


def test_while_the_disk_is_full_reads_are_served_and_the_broker_can_be_stopped_and_started(tmp_path, small_disk):
    with Scene(3, tmp_path, data=small_disk / "data") as scene:
        scene.start()
        prepare(scene)
        load = scene.load()
        wait_for_code(scene.broker.address, STORAGE_ERROR)
        assert_served_without_writes(scene)
        scene.broker.process.terminate()
        load.join()
        assert scene.broker.wait() == 1, "commits were waiting, and nobody was told that they had succeeded"
        assert "No space left on device; no later write was acknowledged" in scene.broker.stderr
        make_space(small_disk)
        scene.start()
        scene.forgive_storage_errors()
        scene.verify()
        assert scene.broker.stop() == 0


def fill(disk):
    """Takes what is left."""
    with (disk / "filling").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(FILLING)


def fill_journal(client, topic_ids):
    """Produces until a request waits: cutting off a torn end may have made room for some."""
    while True:
        client.send(produce_request(topic_ids, {("filler", 0): build_batch([NewRecord(FILLING)])}))
        if not wait_readable(client, ANSWER_SECONDS):
            return
        client.receive()


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_start_on_a_full_disk_serves_reads_and_with_space_writes_go_on(tmp_path, small_disk, is_killed):
    data = small_disk / "data"
    with Scene(6, tmp_path, data=data) as scene:
        scene.start()
        prepare(scene)
        with WireClient(scene.broker.address, WAIT_SECONDS) as client:
            topic_ids = {"filler": create_by_asking(client, scene.history, "filler")}
        load = scene.load()
        while scene.history.acknowledged_count < WRITES_BEFORE:
            time.sleep(POLL_SECONDS)
        if is_killed:
            wait_for_code(scene.broker.address, STORAGE_ERROR)
            scene.broker.kill()
            load.join()
        else:
            load.stop()
            assert scene.broker.stop() == 0
            assert (data / MARK_NAME).exists()
        fill(small_disk)
        acknowledged = scene.history.acknowledged_count

        scene.start()
        assert_served_without_writes(scene)
        with WireClient(scene.broker.address, WAIT_SECONDS) as client:
            fill_journal(client, topic_ids)
            wait_for_code(scene.broker.address, STORAGE_ERROR)
            assert_served_without_writes(scene)
            make_space(small_disk)
            wait_for_code(scene.broker.address, 0)
        scene.verify()
        assert scene.history.acknowledged_count == acknowledged
        assert scene.broker.stop() == 0
        scene.start()
        scene.verify()
        assert scene.broker.stop() == 0


def test_a_start_that_must_write_to_a_full_disk_says_so_in_one_line(small_disk):
    data = small_disk / "data"
    fill(small_disk)
    ended = run_command("serve", "--port", "0", "--data", data, seconds_max=WAIT_SECONDS)
    line = f"Error: the disk of the data directory {data} is full, and startup must write to it. Free some space\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", line)


@MODES
@pytest.mark.parametrize("is_quota", drawn(False, True))
def test_a_full_disk_or_quota_and_then_a_power_cut_lose_nothing(mount_forgetful, tmp_path, mode, is_quota):
    """Cases 20, 21 and 22."""
    with mount_forgetful(tmp_path / "disk") as disk, Scene(4, tmp_path, mode=mode, data=disk.path / "data") as scene:
        scene.start()
        prepare(scene)
        if is_quota:
            disk.add_fault("write", error="EDQUOT", skip_count=WRITES_BEFORE)
        else:
            disk.ask("set_capacity", size_bytes=DISK_BYTES)
        load = scene.load()
        wait_for_code(scene.broker.address, STORAGE_ERROR)
        disk.cut(1)
        scene.broker.kill()
        load.join()
        disk.power_on()
        disk.ask("clear_faults")
        disk.ask("set_capacity", size_bytes=None)
        scene.start()
        scene.forgive_storage_errors()
        scene.verify()
        scene.resolve()
        scene.verify()
        assert scene.broker.stop() == 0


@MODES
def test_when_descriptors_run_out_writes_wait_or_are_refused_and_go_on_when_there_are_some(tmp_path, mode):
    """They run out for the journal's next segment: the limit falls to what the broker has open. Case 23."""
    with Scene(5, tmp_path, mode=mode, variant="rolling") as scene:
        scene.start()
        prepare(scene)
        filler = WireClient(scene.broker.address, WAIT_SECONDS)
        topic_ids = {"filler": create_by_asking(filler, scene.history, "filler")}
        filling = produce_request(topic_ids, {("filler", 0): build_batch([NewRecord(FILLING)])})
        filler.ask(filling)  # the broker has imported what this version needs
        with producing(scene) as load:
            while not are_all_acknowledged(scene.history.streams):
                time.sleep(POLL_SECONDS)
            with filler, without_descriptors(scene.broker.process_id):
                while REFUSED not in scene.broker.stderr:  # a segment or two fill up
                    filler.send(filling)
                    if not wait_readable(filler, ANSWER_SECONDS):
                        break
                    filler.receive()
            wait_for_code(scene.broker.address, 0)
            load.stop()
        assert f"{REFUSED}: [Errno 24] Too many open files" in scene.broker.stderr
        scene.forgive_storage_errors()
        scene.verify()
        assert scene.broker.stop() == 0
        scene.start()
        scene.verify()
