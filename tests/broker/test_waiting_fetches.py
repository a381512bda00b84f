"""Fetches that wait hold room for their requests, and only as long as they wait."""

import attrs

from pipeline_broker.broker.waiting_fetches import REQUEST_BYTES_MAX, Waiting, WaitingFetches
from pipeline_broker.state.parked_fetches import Readable
from stages.request import Send

HALF_BYTES = REQUEST_BYTES_MAX // 2


@attrs.define(eq=False)
class Connection:
    session: str


@attrs.define(eq=False)
class Asked:
    """A request of so many bytes."""

    size_bytes: int
    connection: Connection = attrs.field(factory=lambda: Connection("session"))

    def complete(self, result):
        """Nobody looks at the answer."""


def park(fetches, readable_bytes=0, size_bytes=HALF_BYTES):
    waiting = Waiting(Asked(size_bytes), lambda: Send(b""))
    return fetches.park(waiting, {"partition": Readable(readable_bytes, 100)}, 1, 1000)


def test_a_fetch_that_has_enough_and_does_not_wait_holds_no_room():
    fetches = WaitingFetches(lambda: None, lambda: None)
    assert [park(fetches, readable_bytes=1) for _ in range(3)] == [False] * 3
    assert [park(fetches) for _ in range(3)] == [True, True, False]


def test_whoever_is_answered_and_whose_connection_ends_makes_room_for_others():
    fetches = WaitingFetches(lambda: None, lambda: None)
    for end in (lambda: fetches.advance(1000), lambda: fetches.connection_closed("session")):
        assert [park(fetches) for _ in range(3)] == [True, True, False]
        end()
