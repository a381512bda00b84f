"""With any content in its internal topics the broker starts, serves, and keeps all other state."""

import logging
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline_broker.state.internal_topics import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from tests.broker.replay_desk import ReplayDesk, seen, with_state
from tests.state_records import TOPICS, any_records, strange_records
from tests.strange_state import ask_about_everything, let_time_pass


def records_of(records):
    """A strategy for lists of records with their topics."""
    return st.lists(
        st.sampled_from(TOPICS).flatmap(lambda topic: st.tuples(st.just(topic), records(topic))), min_size=1, max_size=6
    )


DAY_MS = 86_400_000
EXAMPLES = int(os.environ.get("REPLAY_EXAMPLES", "20"))
"""`REPLAY_EXAMPLES=5000` makes a long run."""


@pytest.fixture(scope="module")
def sound():
    desk = with_state()
    logging.getLogger("pipeline_broker").setLevel(logging.CRITICAL)
    yield desk
    logging.getLogger("pipeline_broker").setLevel(logging.NOTSET)


def check(sound, records, *, clean, maintenance=None):
    """Append records to the topics of a stopped broker, start it, and compare its other state."""
    desk = sound.copy()
    expected = seen(desk)
    for topic, record in records:
        desk.append(topic, desk.partition(topic), [record])
    if maintenance is not None:
        maintenance(desk)
    started = desk.restart(clean=clean)
    assert seen(started) == expected
    assert started.broker.set_aside.count <= len(records)
    ask_about_everything(started)
    let_time_pass(started, DAY_MS)
    ask_about_everything(started)
    let_time_pass(started, 60 * DAY_MS, turn_ms=DAY_MS // 4)  # a day of all periodic work
    again = started.restart(clean=clean)
    assert again.broker.set_aside.records == started.broker.set_aside.records, "the broker can read its own records"


PROPERTY = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@PROPERTY
@given(
    records=records_of(any_records),
    clean=st.booleans(),
    maintenance=st.sampled_from([None, ReplayDesk.archive_all, ReplayDesk.compact_all]),
)
def test_arbitrary_records_do_not_affect_other_state(sound, records, clean, maintenance):
    check(sound, records, clean=clean, maintenance=maintenance)


STRANGE = st.sampled_from([OFFSETS_TOPIC, OFFSETS_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC])


@PROPERTY
@given(
    records=st.lists(
        STRANGE.flatmap(lambda topic: st.tuples(st.just(topic), strange_records(topic))), min_size=1, max_size=20
    ),
    clean=st.booleans(),
)
def test_valid_but_contradictory_records_do_not_affect_other_state(sound, records, clean):
    check(sound, records, clean=clean)
