"""The bytes of parked fetches are limited, and freed once the fetches are answered."""

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
    size_bytes: int
    connection: Connection = attrs.field(factory=lambda: Connection("session"))

    def complete(self, result): ...


@attrs.define(eq=False)
class Entry:
    log: str
    size_bytes: int


def park(fetches, readable_bytes=0, size_bytes=HALF_BYTES, deadline_ms=1000, partition="partition"):
    waiting = Waiting(Asked(size_bytes), lambda: Send(b""))
    return fetches.park(waiting, {partition: Readable(readable_bytes, 100)}, 1, deadline_ms)


def test_a_fetch_that_does_not_wait_holds_no_bytes():
    fetches = WaitingFetches(lambda: None, lambda: None)
    assert [park(fetches, readable_bytes=1) for _ in range(3)] == [False] * 3
    assert [park(fetches) for _ in range(3)] == [True, True, False]


def test_answered_fetches_and_closed_connections_free_their_bytes():
    fetches = WaitingFetches(lambda: None, lambda: None)
    for end in (lambda: fetches.advance(1000), lambda: fetches.connection_closed("session")):
        assert [park(fetches) for _ in range(3)] == [True, True, False]
        end()


def test_an_earlier_deadline_wakes_the_timer():
    """Otherwise the fetch would wait until the previous deadline."""
    woken = []
    fetches = WaitingFetches(lambda: woken.append(fetches.next_deadline_ms()), lambda: None)
    for deadline_ms in (1000, 2000, 500, 500):
        park(fetches, size_bytes=1, deadline_ms=deadline_ms)
    assert woken == [1000, 500]


def test_each_of_several_entries_answers_its_waiting_fetches():
    fetches = WaitingFetches(lambda: None, lambda: None)
    for partition in ("first", "last"):
        park(fetches, size_bytes=1, partition=partition)
    fetches.notify([Entry("first", 10), Entry("other", 10), Entry("last", 10)])
    assert len(fetches) == 0
