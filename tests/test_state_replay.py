"""Whatever stands in an internal topic, the broker starts, serves, and knows of everything else what it knew."""

import logging
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.replay_desk import seen, with_state
from tests.state_records import TOPICS, any_records
from tests.strange_state import ask_about_everything, let_time_pass

FOUL = st.lists(
    st.sampled_from(TOPICS).flatmap(lambda topic: st.tuples(st.just(topic), any_records(topic))), min_size=1, max_size=6
)
DAY_MS = 86_400_000
EXAMPLES = int(os.environ.get("REPLAY_EXAMPLES", "100"))
"""`REPLAY_EXAMPLES=5000` makes a long run."""


@pytest.fixture(scope="module")
def sound():
    desk = with_state()
    logging.getLogger("pipeline_broker").setLevel(logging.CRITICAL)
    yield desk
    logging.getLogger("pipeline_broker").setLevel(logging.NOTSET)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(foul=FOUL, clean=st.booleans(), archived=st.booleans())
def test_everything_else_is_as_it_was(sound, foul, clean, archived):
    desk = sound.copy()
    expected = seen(desk)
    for topic, record in foul:
        desk.append(topic, desk.partition(topic), [record])
    if archived:
        desk.archive_all()
    started = desk.restart(clean=clean)
    assert seen(started) == expected
    assert started.broker.set_aside.count <= len(foul)
    ask_about_everything(started)
    let_time_pass(started, DAY_MS)
    ask_about_everything(started)
    let_time_pass(started, 60 * DAY_MS)
    again = started.restart(clean=clean)
    assert again.broker.set_aside.records == started.broker.set_aside.records, "what it writes itself can be read"
