"""The outbox: the order of records, whatever is sent again."""

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


def sent_one_by_one(count, **options):
    """An outbox and as many batches of one record on their way as it lets go."""
    outbox, batches = filled(0, **options), []
    for number in range(count):
        add(outbox, 0, NewRecord(b"x"), number)
        batches += [outbox.take(partition, LEADER) for partition in outbox.ready()]
    return outbox, batches


def test_a_partition_has_as_many_batches_on_its_way_as_brokers_recognize():
    outbox, batches = sent_one_by_one(8, in_flight_max=50)
    assert [batch.numbers for batch in batches] == [[0], [1], [2], [3], [4]]
    outbox.complete(batches[0])
    assert outbox.take(0, LEADER).numbers == [5, 6, 7]


def test_without_sequence_numbers_or_with_one_in_flight_a_partition_has_one_batch_on_its_way():
    for options in ({"is_idempotent": False, "in_flight_max": 5}, {"in_flight_max": 1}):
        assert len(sent_one_by_one(3, **options)[1]) == 1


def test_after_an_error_batches_go_again_one_at_a_time_with_the_oldest_first():
    outbox, batches = sent_one_by_one(4, in_flight_max=5)
    outbox.requeue(batches[2])
    assert outbox.ready() == []  # older ones have no answer
    outbox.complete(batches[0])
    outbox.requeue(batches[1])
    assert outbox.take(0, LEADER) is batches[1]
    assert outbox.ready() == []
    outbox.complete(batches[1])
    assert outbox.take(0, LEADER) is batches[2]


def test_a_batch_waits_while_an_earlier_one_is_on_its_way_to_another_broker():
    outbox, (batch,) = sent_one_by_one(1, in_flight_max=5)
    add(outbox, 0, NewRecord(b"x"), 1)
    assert (outbox.is_ready(0, LEADER), outbox.is_ready(0, LEADER + 1)) == (True, False)
    outbox.requeue(batch)
    assert outbox.is_ready(0, LEADER + 1)


def test_a_batch_is_behind_if_an_older_one_had_no_answer_when_it_was_sent():
    outbox, batches = sent_one_by_one(2, in_flight_max=5)
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


def test_batches_have_a_largest_size_unless_one_record_has_more(monkeypatch):
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


def test_sequence_numbers_count_up_and_stay_when_sent_again():
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


def test_one_record_cannot_be_halved():
    outbox = filled(1)
    assert not outbox.split(outbox.take(0, LEADER))


EVENTS = ["add", "take", "answer", "answer", "refuse", "lose", "halve"]


@given(st.integers(1, 5), st.lists(st.sampled_from(EVENTS), max_size=60), st.randoms())
def test_records_arrive_once_in_their_order_with_their_sequence_numbers(in_flight_max, events, random):
    """The broker takes batches in the order sent; it refuses some, and every later one is out of order then."""
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
