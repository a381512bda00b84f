"""Generated requests are as large as their API takes, and legal."""

import attrs

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.codec import stepwise_decoder
from pipeline_broker.wire.header import read_request_header
from pipeline_broker.wire.primitives import ELEMENTS_MAX, LARGE_BYTES
from pipeline_broker.wire.registry import ApiKey, message_classes
from tests.hostile.amplified import ALL_ALIKE, COUNTED_BESIDE, SPARE_BYTES, cases_of
from tests.hostile.handmade import HANDMADE
from tests.hostile.prepared import LARGE, SMALL_WORLD
from tests.tables import each_row


@each_row("key", SERVED, [served.name for served in SERVED.values()], parts=3)
def test_each_array_is_as_long_as_its_api_takes(key):
    served = SERVED[key]
    for case in cases_of(key, {served.versions[0], served.versions[-1]}):
        if not case.what.endswith(ALL_ALIKE):
            continue
        (frame,) = case.payloads(SMALL_WORLD)
        if len(frame) > LARGE_BYTES:
            allowed = served.elements_max - (ELEMENTS_MAX - elements_left(key, case.version, frame))
            assert 0 <= allowed <= 2 * COUNTED_BESIDE, case.name
        else:
            assert len(frame) > LARGE_BYTES - 2 * SPARE_BYTES, case.name


MANY = attrs.evolve(
    SMALL_WORLD,
    topics=[f"topic-{number}" for number in range(LARGE.topics)],
    topic_ids=[number.to_bytes(16) for number in range(1, LARGE.topics + 1)],
    groups=[f"group-{number}" for number in range(LARGE.groups)],
)


@each_row("case", HANDMADE, [case.name for case in HANDMADE])
def test_what_is_made_by_hand_is_legal_also_where_there_is_much(case):
    """Else it would be refused before anything is measured."""
    for frame in {bytes(frame) for frame in case.payloads(MANY)}:
        if len(frame) > LARGE_BYTES:
            taken = ELEMENTS_MAX - elements_left(case.key, case.version, frame)
            assert taken <= SERVED[case.key].elements_max


def elements_left(key, version, frame):
    """How many elements the decoder would still take."""
    _, position = read_request_header(frame)
    steps = stepwise_decoder(message_classes(ApiKey(key))[0], version)(frame, position)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            _, after, left = end.value
            assert after == len(frame)
            return left
