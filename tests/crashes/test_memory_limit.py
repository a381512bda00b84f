"""A broker that gets no more memory answers or ends, and has what it acknowledged when it is started again.

(One way out is not the broker's: where not even a thread finds memory to begin, Python waits for it for ever.)
The limit is one of the address space (`prlimit --as`), set to what the idle broker uses, so that a huge record finds
no room; and for a start, step by step, from far too little on.
"""

import contextlib
import errno
import os
import random
import resource
from pathlib import Path

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from tests.crashes.broker_under_test import END_SECONDS_MAX, StartFailed
from tests.crashes.lengths import drawn
from tests.crashes.producers import answers_of, produce_request
from tests.crashes.scene import PARTITIONS, Scene
from tests.crashes.wire_client import WireClient, fetch_request

pytestmark = [pytest.mark.faults]
PARTITION = PARTITIONS[0]
MODES = pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
VALUE_BYTES = 1_000_000
VALUES = 4
HUGE_BYTES = 16_000_000
"""Of one record: no allocator keeps so much back."""
OUT_OF_MEMORY = ("MemoryError", "can't start new thread", os.strerror(errno.ENOMEM))
"""What is said of it: by Python, of the stack of a thread, and by the system, say to the archiver."""
THREAD_LOST = "Exception ignored in thread started by"
SETTINGS = (f"message.max.bytes={2 * HUGE_BYTES}",)
SHARES = drawn(0.2, 0.12, 0.16, 0.24, 0.28, count=2)
"""Of what a start takes: with so little it is Python that does not start, or the recovery."""


def address_space_bytes(process_id):
    pages = Path(f"/proc/{process_id}/statm").read_text(encoding="ascii").split()[0]
    return int(pages) * resource.getpagesize()


def limit(process_id, size_bytes):
    resource.prlimit(process_id, resource.RLIMIT_AS, (size_bytes, resource.RLIM_INFINITY))


def produce(client, scene, stream, size_bytes):
    """One record; whether it was acknowledged."""
    number, value = stream.draw(random.Random(len(stream.values)).randbytes(size_bytes))
    topic_ids = scene.clients[0].topic_ids
    request = produce_request(topic_ids, {PARTITION: build_batch([NewRecord(value, timestamp=1)])})
    answer = answers_of(client.ask(request), topic_ids)[PARTITION]
    if answer.error_code == ErrorCode.NONE:
        stream.acknowledged[number] = answer.base_offset
    return answer.error_code == ErrorCode.NONE


def fill(scene):
    """Some records, and at last a huge one, all acknowledged; then a start that has nothing in memory yet."""
    scene.start()
    scene.prepare()
    stream = scene.history.stream("large", PARTITION)
    with WireClient(scene.broker.address) as client:
        for size_bytes in (*[VALUE_BYTES] * VALUES, HUGE_BYTES):
            assert produce(client, scene, stream, size_bytes)
    scene.broker.kill()
    scene.start()
    return stream


def starve(scene, work):
    """Do work with a broker that gets nothing more; then it is well again, or has ended."""
    process_id = scene.broker.process_id
    limit(process_id, address_space_bytes(process_id))
    with contextlib.suppress(OSError), WireClient(scene.broker.address, seconds_max=5) as client:
        work(client)  # it may close the connection, or end
    try:
        limit(process_id, resource.RLIM_INFINITY)
        scene.verify()
    except (ConnectionError, ProcessLookupError):
        scene.broker.process.wait(END_SECONDS_MAX)
    except TimeoutError:  # Python waits for ever for a thread that had no memory to begin
        assert THREAD_LOST in scene.broker.stderr
    assert any(sign in scene.broker.stderr for sign in OUT_OF_MEMORY), scene.broker.stderr
    scene.broker.kill()
    scene.start()
    scene.verify()
    assert scene.broker.stop() == 0


@MODES
def test_produce_without_memory_loses_nothing_that_was_acknowledged(tmp_path, mode):
    """Case 36."""
    with Scene(1, tmp_path, mode=mode, settings=SETTINGS) as scene:
        stream = fill(scene)
        starve(scene, lambda client: produce(client, scene, stream, HUGE_BYTES))


@MODES
def test_fetch_without_memory_harms_nothing(tmp_path, mode):
    """Case 36."""
    with Scene(2, tmp_path, mode=mode, settings=SETTINGS) as scene:
        fill(scene)
        topic_id = scene.clients[0].topic_ids[PARTITION[0]]
        starve(scene, lambda client: client.ask(fetch_request(topic_id, PARTITION[1], VALUES)))


def test_a_start_without_memory_fails_and_harms_nothing(tmp_path):
    """Case 36."""
    with Scene(3, tmp_path, settings=SETTINGS) as scene:
        fill(scene)
        used_bytes = address_space_bytes(scene.broker.process_id)
        scene.broker.kill()
        failed = 0
        for share in SHARES:
            scene.broker.prefix = ("prlimit", f"--as={int(share * used_bytes)}")
            try:
                scene.start()
            except StartFailed:
                failed += 1
            scene.broker.kill()
        scene.broker.prefix = ()
        assert failed > 0
        scene.start()
        scene.verify()
        assert scene.broker.stop() == 0
