"""The order of records in the outbox, also after retries."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.client import outbox as outbox_module
from pipeline_broker.client.outbox import Outbox
from pipeline_broker.records.batch import NewRecord

LEADER = 1


def add(outbox, partition, record, number):
    outbox.extend(partition, [record], [number])


def filled(count, size=10, *, is_idempotent=True, in_flight_max=1, partition=0):
    outbox = Outbox(is_idempotent=is_idempotent, in_flight_max=in_flight_max)
    for number in range(count):
        add(outbox, partition, NewRecord(b"x" * size), number)
    return outbox


def outbox_with_batches_in_flight(count, **options):
    """Return an outbox and the batches in flight after adding records one by one."""
    outbox, batches = filled(0, **options), []
    for number in range(count):
        add(outbox, 0, NewRecord(b"x"), number)
        batches += [outbox.take(partition, LEADER) for partition in outbox.ready()]
    return outbox, batches


def test_a_partition_has_as_many_batches_in_flight_as_brokers_recognize():
    outbox, batches = outbox_with_batches_in_flight(8, in_flight_max=50)
    assert [batch.numbers for batch in batches] == [[0], [1], [2], [3], [4]]
    outbox.complete(batches[0])
    assert outbox.take(0, LEADER).numbers == [5, 6, 7]


def test_without_sequence_numbers_or_with_a_limit_of_one_a_partition_has_one_batch_in_flight():
    for options in ({"is_idempotent": False, "in_flight_max": 5}, {"in_flight_max": 1}):
        assert len(outbox_with_batches_in_flight(3, **options)[1]) == 1


def test_after_an_error_batches_are_retried_one_at_a_time_with_the_oldest_first():
    outbox, batches = outbox_with_batches_in_flight(4, in_flight_max=5)
    outbox.requeue(batches[2])
    assert outbox.ready() == []  # older ones have no answer
    outbox.complete(batches[0])
    outbox.requeue(batches[1])
    assert outbox.take(0, LEADER) is batches[1]
    assert outbox.ready() == []
    outbox.complete(batches[1])
    assert outbox.take(0, LEADER) is batches[2]


def test_a_batch_waits_while_an_earlier_one_is_in_flight_to_another_broker():
    outbox, (batch,) = outbox_with_batches_in_flight(1, in_flight_max=5)
    add(outbox, 0, NewRecord(b"x"), 1)
    assert (outbox.is_ready(0, LEADER), outbox.is_ready(0, LEADER + 1)) == (True, False)
    outbox.requeue(batch)
    assert outbox.is_ready(0, LEADER + 1)


def test_a_batch_knows_whether_an_older_one_was_unacknowledged_when_it_was_sent():
    outbox, batches = outbox_with_batches_in_flight(2, in_flight_max=5)
    assert [batch.has_older_in_flight for batch in batches] == [False, True]
    outbox.complete(batches[0])
    assert batches[1].has_older_in_flight
    outbox.requeue(batches[1])
    assert not outbox.take(0, LEADER).has_older_in_flight


def test_a_later_batch_waits_for_both_halves_of_an_earlier_one():
    outbox = filled(2, in_flight_max=5)
    large = outbox.take(0, LEADER)
    add(outbox, 0, NewRecord(b"x"), 2)
    later = outbox.take(0, LEADER)
    assert outbox.split(large)
    outbox.requeue(later)
    arrived = []
    while outbox.ready():
        batch = outbox.take(0, LEADER)
        assert not batch.has_older_in_flight
        arrived.append((batch.sequence, batch.numbers))
        outbox.complete(batch)
    assert arrived == [(0, [0]), (1, [1]), (2, [2])]


def test_batches_have_a_maximum_size_unless_one_record_is_larger(monkeypatch):
    monkeypatch.setattr(outbox_module, "BATCH_BYTES_MAX", 100)
    outbox = filled(4, size=20)
    add(outbox, 0, NewRecord(b"x" * 500), 4)
    sizes = []
    while outbox.ready():
        batch = outbox.take(0, LEADER)
        sizes.append(batch.body.count)
        outbox.complete(batch)
    assert sizes == [2, 2, 1]
    assert (outbox.count, outbox.size_bytes) == (0, 0)


def test_sequence_numbers_count_up_and_stay_the_same_in_a_retry():
    outbox = filled(3)
    batch = outbox.take(0, LEADER)
    add(outbox, 0, NewRecord(b"x"), 3)
    outbox.requeue(batch)
    assert outbox.take(0, LEADER) is batch
    assert batch.sequence == 0
    outbox.complete(batch)
    assert outbox.take(0, LEADER).sequence == 3


def test_without_idempotence_there_are_no_sequence_numbers():
    assert filled(1, is_idempotent=False).take(0, LEADER).sequence == -1


def test_one_record_cannot_be_split():
    outbox = filled(1)
    assert not outbox.split(outbox.take(0, LEADER))


EVENTS = ["add", "take", "answer", "answer", "refuse", "lose", "halve"]


@given(st.integers(1, 5), st.lists(st.sampled_from(EVENTS), max_size=60), st.randoms())
def test_records_arrive_once_in_their_order_with_their_sequence_numbers(in_flight_max, events, random):
    """The broker receives batches in the order sent. It rejects some, and then later ones as out of order."""
    outbox, added, arrived, in_flight = filled(0, in_flight_max=in_flight_max), 0, [], []
    for event in [*events, *["take", "answer"] * (4 * len(events))]:
        if event == "add":
            for _ in range(random.randint(1, 3)):
                add(outbox, 0, NewRecord(b"x"), added)
                added += 1
        elif event == "take" and outbox.ready():
            in_flight.append(outbox.take(0, LEADER))
            assert len(in_flight) <= in_flight_max
        elif event == "lose":  # the connection with all answers; some batches were stored
            stored = random.randint(0, len(in_flight))
            for place, batch in enumerate(in_flight):
                if place < stored and batch.sequence == len(arrived):
                    arrived += batch.numbers
                outbox.requeue(batch)
            in_flight.clear()
        elif in_flight and event in {"answer", "refuse", "halve"}:
            batch = in_flight.pop(0)
            if batch.sequence > len(arrived):
                assert batch.has_older_in_flight
                outbox.requeue(batch)
            elif event == "refuse" and batch.sequence == len(arrived):
                outbox.requeue(batch)
            elif event != "halve" or batch.sequence < len(arrived) or not outbox.split(batch):
                arrived += batch.numbers if batch.sequence == len(arrived) else []
                outbox.complete(batch)
    assert arrived == list(range(added))
    assert (outbox.count, outbox.size_bytes, outbox.ready()) == (0, 0, [])
