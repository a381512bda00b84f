"""The limits of a broker process that follow from its configuration."""

import pytest

from pipeline_broker.config.settings import parse_settings
from pipeline_broker.node.options import memory_of_each

QUEUED, LARGEST = "queued.max.request.bytes", "socket.request.max.bytes"


@pytest.mark.parametrize("brokers", [1, 3, 64])
def test_the_brokers_of_a_machine_together_use_the_memory_of_one(brokers):
    config, _ = parse_settings((("socket.request.max.bytes", "1000"),))
    whole = memory_of_each(config, 1)
    assert whole[QUEUED] == 100 << 20
    for name, size_bytes in memory_of_each(config, brokers).items():
        assert size_bytes == whole[name] // brokers, name


@pytest.mark.parametrize(("queued", "each"), [("-1", 50 << 20), (str(90 << 20), 45 << 20), (str(60 << 20), 40 << 20)])
def test_each_broker_of_a_machine_has_room_for_the_largest_request(queued, each):
    config, _ = parse_settings(((QUEUED, queued), (LARGEST, str(40 << 20))))
    assert memory_of_each(config, 2)[QUEUED] == each
