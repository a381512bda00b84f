"""A request leaves no cycles behind: they would stay in memory until all of it is searched, while everybody waits."""

import gc

import attrs
import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.registry import ApiKey, message_classes
from stages.request import Request
from tests.apis.desk import Desk
from tests.hostile.amplified import ALL_ALIKE, EACH_DIFFERENT, Builder, arrays_of
from tests.hostile.prepared import SMALL_WORLD
from tests.tables import each_row

ELEMENTS = 200
CYCLES_MAX = 40
"""Objects in cycles that a request may leave, of however many elements."""
REQUESTS = [(key, kind) for key in SERVED for kind in (EACH_DIFFERENT, ALL_ALIKE)]


@pytest.fixture(scope="module")
def _frozen():
    """What was there before a request is not walked again and again; what this module made is free at its end."""
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def desk(_frozen):
    desk = Desk("default.replication.factor=1")
    for number in range(ELEMENTS):
        desk.create_topic(f"topic-{number}")
    return desk


@pytest.fixture(scope="module")
def world(desk):
    topics = [f"topic-{number}" for number in range(ELEMENTS)]
    topic_ids = [desk.broker.topics.get(name).topic_id for name in topics]
    return attrs.evolve(SMALL_WORLD, topics=topics, topic_ids=topic_ids)


def answer(desk, frame):
    desk.asked += 1
    desk.do_steps(desk.dispatcher.handle(Request(desk.connection, desk.asked, frame, 0)))
    desk.connection.completed.clear()


@each_row("key, kind", REQUESTS, [f"{SERVED[key].name} {kind}" for key, kind in REQUESTS])
def test_a_request_with_many_elements_leaves_no_cycles(key, kind, desk, world):
    message, version = message_classes(ApiKey(key))[0], SERVED[key].versions[-1]
    gc.disable()
    gc.freeze()
    try:
        for path in arrays_of(message, message, version):
            builder = Builder(key, version, world, kind)
            builder.elements_max = ELEMENTS
            frame = builder.frame(path)
            answer(desk, frame)  # what is imported and compiled for it stays
            gc.collect()
            answer(desk, frame)
            assert gc.collect() < CYCLES_MAX, ".".join(path)
    finally:
        gc.enable()
