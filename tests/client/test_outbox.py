"""The outbox: the order of records, whatever is sent again."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.client import outbox as outbox_module
from pipeline_broker.client.outbox import Outbox, size_of
from pipeline_broker.records.batch import NewRecord


def add(outbox, partition, record, number):
    outbox.add(partition, record, number, size_of(record))


def filled(count, size=10, *, is_idempotent=True, partition=0):
    outbox = Outbox(is_idempotent=is_idempotent)
    for number in range(count):
        add(outbox, partition, NewRecord(b"x" * size), number)
    return outbox


def test_a_partition_has_one_batch_on_its_way():
    outbox = filled(3)
    batch = outbox.take(0)
    add(outbox, 0, NewRecord(b"later"), 3)
    assert outbox.ready() == []
    outbox.delivered(batch)
    assert outbox.ready() == [0]
    assert outbox.take(0).numbers == [3]


def test_batches_have_a_largest_size_unless_one_record_has_more(monkeypatch):
    monkeypatch.setattr(outbox_module, "BATCH_BYTES_MAX", 100)
    outbox = filled(4, size=20)
    add(outbox, 0, NewRecord(b"x" * 500), 4)
    sizes = []
    while outbox.ready():
        batch = outbox.take(0)
        sizes.append(len(batch.records))
        outbox.delivered(batch)
    assert sizes == [2, 2, 1]
    assert (outbox.count, outbox.size_bytes) == (0, 0)


def test_sequence_numbers_count_up_and_stay_when_sent_again():
    outbox = filled(3)
    batch = outbox.take(0)
    add(outbox, 0, NewRecord(b"x"), 3)
    outbox.again(batch)
    assert outbox.take(0) is batch
    assert batch.sequence == 0
    outbox.delivered(batch)
    assert outbox.take(0).sequence == 3


def test_without_idempotence_there_are_no_sequence_numbers():
    assert filled(1, is_idempotent=False).take(0).sequence == -1


def test_one_record_cannot_be_halved():
    outbox = filled(1)
    assert not outbox.halved(outbox.take(0))


@given(st.lists(st.sampled_from(["delivered", "again", "halved", "add"]), max_size=40), st.integers(1, 20))
def test_records_arrive_in_their_order_with_their_sequence_numbers(events, count):
    outbox, added, arrived = filled(count), count, []
    for event in [*events, *["delivered"] * (2 * (count + len(events)))]:
        if event == "add":
            add(outbox, 0, NewRecord(b"x"), added)
            added += 1
            continue
        if not outbox.ready():
            break
        batch = outbox.take(0)
        if event == "again" or (event == "halved" and outbox.halved(batch)):
            if event == "again":
                outbox.again(batch)
            continue
        assert batch.sequence == len(arrived)
        arrived += batch.numbers
        outbox.delivered(batch)
    if not outbox.ready():
        assert arrived == list(range(added))
        assert (outbox.count, outbox.size_bytes) == (0, 0)
    assert arrived == list(range(len(arrived)))
