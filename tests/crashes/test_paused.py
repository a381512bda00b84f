"""A broker that stands still for longer than a session lasts, and goes on: as after a night of a notebook.

SIGSTOP stops all of it, SIGCONT sets it going; its clocks have gone on meanwhile.
"""

import signal
import time

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from tests.crashes.lengths import AT_LENGTH, drawn
from tests.crashes.member import commit_as_member, joined_group
from tests.crashes.producers import answers_of, new_producer_id, produce_request
from tests.crashes.scene import PARTITIONS, Scene
from tests.crashes.wire_client import WireClient

pytestmark = [pytest.mark.faults]
MODES = pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
GROUP = "group"
SESSION_MS = 1_000
PAUSE_SECONDS = 60.0 if AT_LENGTH else 1.5
PATIENCE_SECONDS = 8.0
"""Clients that wait for an answer give up after some more."""
TURNS_MAX = 500
TURN_SECONDS = 0.02
LOAD_SECONDS = 0.3
SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100")


def pause(broker, seconds=PAUSE_SECONDS):
    broker.process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    broker.process.send_signal(signal.SIGCONT)


@MODES
def test_what_was_under_way_goes_on_after_a_pause(tmp_path, mode):
    """Case 41."""
    with Scene(1, tmp_path, mode=mode) as scene:
        scene.start()
        scene.prepare()
        load = scene.load()
        time.sleep(LOAD_SECONDS)
        pause(scene.broker, min(PAUSE_SECONDS, PATIENCE_SECONDS))
        acknowledged = scene.history.acknowledged_count
        time.sleep(LOAD_SECONDS)
        load.stop()
        assert scene.history.acknowledged_count > acknowledged > 0
        scene.verify()
        assert scene.broker.stop() == 0
        assert scene.broker.stderr == ""


def heartbeat(client, member):
    return client.ask(HeartbeatRequest(GROUP, *member)).error_code


@MODES
def test_a_session_that_ended_in_a_pause_ends_once_and_its_member_stays_out(tmp_path, mode):
    """Case 41."""
    with Scene(2, tmp_path, mode=mode, settings=SETTINGS) as scene:
        scene.start()
        scene.prepare()
        topic_id = scene.clients[0].topic_ids[PARTITIONS[0][0]]
        with WireClient(scene.broker.address) as client:
            first = joined_group(client, GROUP, SESSION_MS)
            assert heartbeat(client, first) == ErrorCode.NONE
            pause(scene.broker)
            for _ in range(TURNS_MAX):
                if heartbeat(client, first) == ErrorCode.UNKNOWN_MEMBER_ID:
                    break
                time.sleep(TURN_SECONDS)  # a heartbeat that came first may count; then its silence does
                time.sleep(SESSION_MS / 1000 * 1.5)
            else:
                pytest.fail("the session did not end")
            second = joined_group(client, GROUP)
            assert second[0] == first[0] + 2  # once for the end of the first, once for the second
            assert heartbeat(client, first) == ErrorCode.UNKNOWN_MEMBER_ID
            assert commit_as_member(client, GROUP, *first, topic_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID
            assert heartbeat(client, second) == ErrorCode.NONE
            assert commit_as_member(client, GROUP, *second, topic_id, 2) == ErrorCode.NONE


@MODES
def test_a_fenced_producer_stays_fenced_after_a_pause(tmp_path, mode):
    """Case 41."""
    with Scene(3, tmp_path, mode=mode) as scene:
        scene.start()
        scene.prepare()
        topic_ids = scene.clients[0].topic_ids
        with WireClient(scene.broker.address) as client:
            producer_id = new_producer_id(client, scene.history)

            def produce(epoch, sequence):
                record = NewRecord(b"%d %d" % (epoch, sequence), timestamp=1)
                batch = build_batch([record], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
                answer = client.ask(produce_request(topic_ids, {PARTITIONS[0]: batch}))
                return answers_of(answer, topic_ids)[PARTITIONS[0]].error_code

            assert produce(0, 0) == ErrorCode.NONE
            assert produce(1, 0) == ErrorCode.NONE
            assert produce(0, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
            pause(scene.broker)
            assert produce(0, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert produce(1, 1) == ErrorCode.NONE
            scene.broker.kill()
        scene.start()
        with WireClient(scene.broker.address) as client:
            assert produce(0, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
