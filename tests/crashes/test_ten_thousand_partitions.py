"""Ten thousand partitions: a start takes bounded time and memory."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.conftest import READY_SECONDS_MAX
from tests.crashes.kept import KeptPartition
from tests.crashes.kept_client import read_held, write
from tests.crashes.scene import Scene
from tests.crashes.soak_samples import take_sample
from tests.crashes.wire_client import WireClient

pytestmark = [pytest.mark.faults]
PARTITIONS = 10_000
WRITTEN = range(0, PARTITIONS, 997)
RESIDENT_BYTES_MAX = 200 << 20
CREATE_SECONDS_MAX = 60.0


def test_a_start_with_ten_thousand_partitions_is_quick_and_small(tmp_path):
    """The ready line must come in READY_SECONDS_MAX. Case 35."""
    assert READY_SECONDS_MAX <= 30
    with Scene(1, tmp_path) as scene:
        scene.start()
        kept = [KeptPartition("many", index) for index in WRITTEN]
        with WireClient(scene.broker.address, seconds_max=CREATE_SECONDS_MAX) as client:
            topic = CreateTopicsRequest.CreatableTopic("many", PARTITIONS, 1)
            (result,) = client.ask(CreateTopicsRequest([topic], timeout_ms=int(CREATE_SECONDS_MAX * 1000))).topics
            assert result.error_code == ErrorCode.NONE
            topic_ids = {"many": result.topic_id}
            for one in kept:
                write(client, topic_ids, one, None, b"value", 1)
        scene.broker.kill()
        scene.start()
        sample = take_sample(scene.broker.process_id, scene.broker.data, at_seconds=0.0)
        assert sample.resident_bytes < RESIDENT_BYTES_MAX
        with WireClient(scene.broker.address) as client:
            for one in kept:
                assert one.violations(read_held(client, topic_ids["many"], one)) == []
        assert scene.broker.stop() == 0
