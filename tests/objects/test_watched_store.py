"""Requests to a store are reported with their outcomes, counted like a provider bills them, and delayed if wanted."""

import pytest

from pipeline_broker.objects.delayed_store import DelayedStore
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.store import Changed, Exists, Missing, Unavailable
from pipeline_broker.objects.store_around import Operation
from pipeline_broker.objects.store_figures import BOUNDS_SECONDS, StoreFigures
from pipeline_broker.objects.watched_store import EndedRequest, Outcome, WatchedStore
from tests.objects.faulty_store import FaultyStore

MIB = 1 << 20


def ended(
    operation=Operation.CREATE, name="x", sent=0, received=0, began=0, took_ms=1, outcome=Outcome.DONE, reason=""
):
    end = began + round(took_ms * 1e6)
    return EndedRequest(operation, name, sent, received, began, end, outcome, reason)


def test_each_request_is_reported_once_with_its_bytes_and_outcome():
    told = []
    store = WatchedStore(MemoryStore(), told.append)
    tag = store.create("a/b", [b"one", b"two"])
    store.read("a/b", 1, 3)
    store.read_end("a/b", 2)
    store.list("a/")
    store.upload("c", [b"12345"])
    with pytest.raises(Exists):
        store.create("a/b", [b"again"])
    with pytest.raises(Missing):
        store.read("none", 0, 1)
    store.replace("a/b", [b"new"], tag)
    with pytest.raises(Changed):
        store.replace("a/b", [b"new"], tag)
    store.delete(["a/b", "c"])
    with pytest.raises(ValueError, match="prefix"):
        store.list("a")
    assert [(*each[:4], each.outcome) for each in told] == [
        ("create", "a/b", 6, 0, "done"),
        ("read", "a/b", 0, 3, "done"),
        ("read_end", "a/b", 0, 2, "done"),
        ("list", "a/", 0, 0, "done"),
        ("upload", "c", 5, 0, "done"),
        ("create", "a/b", 5, 0, "exists"),
        ("read", "none", 0, 0, "missing"),
        ("replace", "a/b", 3, 0, "done"),
        ("replace", "a/b", 3, 0, "changed"),
        ("delete", "a/b", 0, 0, "done"),
        ("list", "a", 0, 0, "failed"),
    ]
    assert all(each.began_ns <= each.ended_ns for each in told)


def test_a_delay_is_waited_before_each_request_whatever_it_is():
    waits = []
    store = DelayedStore(MemoryStore(), 0.05, waits.append)
    store.create("a", [b""])
    store.read("a", 0, 1)
    store.delete(["a"])
    assert waits == [0.05] * 3


@pytest.mark.parametrize(
    ("size", "requests"), [(0, 1), (8 * MIB, 1), (8 * MIB + 1, 4), (16 * MIB, 4), (16 * MIB + 1, 5)]
)
def test_an_upload_in_parts_is_billed_for_each_and_for_its_begin_and_end(size, requests):
    assert ended(Operation.UPLOAD, sent=size).requests == requests
    assert ended(Operation.CREATE, sent=size).requests == 1


def test_figures_add_up():
    figures = StoreFigures(lambda: 0)
    for took_ms in (0.5, 1, 49, 50, 51, 40_000):
        figures.add(ended(sent=10, took_ms=took_ms))
    figures.add(ended(Operation.READ, received=7))
    figures.add(ended(Operation.UPLOAD, sent=9 * MIB))
    figures.add(ended(Operation.LIST))
    totals = figures.totals()
    kinds = ("put", "get", "list", "delete")
    assert [totals.of_kind(kind) for kind in kinds] == [6 + 4, 1, 1, 0]
    assert (totals.sent_bytes, totals.received_bytes) == (60 + 9 * MIB, 7)
    puts = totals.times["put"]
    counts = dict(zip((*BOUNDS_SECONDS, None), puts.counts, strict=True))
    assert (counts[0.001], counts[0.05], counts[0.1], counts[None]) == (3, 2, 1, 1), "0.5, 1 and the upload's 1 ms"
    assert puts.total_seconds == pytest.approx(40.1525)


def test_a_repeated_request_without_an_answer_is_a_retry():
    figures = StoreFigures(lambda: 0)
    for outcome in (Outcome.UNSURE, Outcome.EXISTS, Outcome.UNAVAILABLE, Outcome.DONE, Outcome.DONE):
        figures.add(ended(outcome=outcome))
    for _ in range(3):
        figures.add(ended(Operation.READ, "y", outcome=Outcome.MISSING))
    figures.add(ended(Operation.READ, "z", outcome=Outcome.UNAVAILABLE))
    figures.add(ended(Operation.READ_END, "z"))
    assert figures.totals().retries == 2, "a missing object was read again"


def test_an_outage_lasts_from_the_first_request_without_an_answer_to_the_next_with_one():
    now = 20_000_000_000
    figures = StoreFigures(lambda: now)
    second = 1_000_000_000
    figures.add(ended(began=1 * second, took_ms=0))
    for at in (2, 3, 4):
        figures.add(ended(began=at * second, took_ms=0, outcome=Outcome.UNAVAILABLE, reason="503"))
    assert (figures.totals().is_out, figures.totals().outage_seconds) == (True, 18.0)
    figures.add(ended(Operation.READ, began=5 * second, took_ms=0, outcome=Outcome.MISSING))
    assert (figures.totals().is_out, figures.totals().outage_seconds, figures.totals().reason) == (False, 3.0, "503")
    figures.add(ended(began=19 * second, took_ms=0, outcome=Outcome.UNSURE, reason="lost"))
    assert (figures.totals().is_out, figures.totals().outage_seconds, figures.totals().reason) == (True, 4.0, "lost")


def test_a_settled_store_around_a_watched_one_shows_its_retries():
    fates = iter(["lost after", "done", "done"])
    figures = StoreFigures()
    faulty = FaultyStore(MemoryStore(), lambda choices: next(fates) if len(choices) > 1 else choices[0])
    store = SettledStore(WatchedStore(faulty, figures.add), lambda _, error: None)
    store.create("a", [b"x" * 64])
    totals = figures.totals()
    assert totals.requests == {
        (Operation.CREATE, Outcome.UNSURE): 1,
        (Operation.READ, Outcome.DONE): 1,
    }
    assert totals.with_outcome(Outcome.UNSURE) == 1


def test_errors_of_the_store_are_passed_on():
    class Broken(MemoryStore):
        def read(self, name, start, size_bytes):
            raise Unavailable("no answer")

    with pytest.raises(Unavailable, match="no answer"):
        WatchedStore(DelayedStore(Broken(), 0), lambda _: None).read("a", 0, 1)
