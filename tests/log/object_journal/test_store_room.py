"""Waiting for a store that does not answer; after a while new writes are refused."""

import pytest

from pipeline_broker.files.errors import is_passing
from pipeline_broker.log.object_journal.store_room import REFUSE_FROM_SECONDS, StoreRoom
from pipeline_broker.objects.store import Unavailable

ERROR = Unavailable("503")


def paused(seconds):
    room = StoreRoom()
    room.stop()
    with pytest.raises(Unavailable) as raised:
        room.pause(seconds, ERROR)
    assert raised.value is ERROR
    return room


def test_writes_are_refused_after_a_long_wait_until_one_succeeds():
    assert paused(REFUSE_FROM_SECONDS - 0.01).obstacle is None
    room = paused(REFUSE_FROM_SECONDS)
    assert str(room.obstacle) == "the object store does not answer: 503"
    assert is_passing(room.obstacle)
    room.open()
    assert room.obstacle is None


def test_a_wait_lasts_until_the_broker_ends():
    room = StoreRoom()
    room.pause(0.001, ERROR)
    assert room.obstacle is None


def test_each_change_is_logged_once_and_the_last_obstacle_is_kept(caplog):
    room, first, second = StoreRoom(), OSError("first"), OSError("second")
    room.open()
    for obstacle in (first, second):
        room.close(obstacle)
        assert room.obstacle is obstacle
    room.open()
    room.open()
    assert [record.getMessage() for record in caplog.records] == [
        "the journal cannot be written, and the broker refuses writes: first",
        "the journal accepts writes again",
    ]
