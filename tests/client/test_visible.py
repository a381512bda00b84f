"""The visible records of a fetched partition."""

import pytest

from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.visible import visible_batches
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.control_batch import EndMarker, marker_batch


def batch(offset, *values, producer=-1, compression=0):
    records = [NewRecord(value, timestamp=5) for value in values]
    sequence = -1 if producer < 0 else 0
    return build_batch(
        records,
        offset,
        compression,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=producer >= 0,
    )


def marker(offset, producer, *, is_commit):
    return marker_batch(producer, 0, EndMarker(is_commit, 1), 5, base_offset=offset)


def values(data, offset=0, stop=None, aborted=()):
    found = list(visible_batches(data, offset, stop, aborted))
    return [record.value for it in found for record in it.records], found[-1].next_offset if found else None


def test_the_first_batch_may_begin_earlier_and_the_last_end_later():
    data = batch(0, b"a", b"b", b"c") + batch(3, b"d", b"e", compression=4)
    assert values(data, 1, 4) == ([b"b", b"c", b"d"], 5)


def test_a_truncated_batch_is_left_for_the_next_fetch():
    data = batch(0, b"a") + batch(1, b"b")
    assert values(data[:-1]) == ([b"a"], 1)


def test_markers_and_aborted_transactions_are_hidden():
    data = (
        batch(0, b"lost", producer=1)
        + batch(1, b"kept", producer=2)
        + marker(2, 1, is_commit=False)
        + batch(3, b"again", producer=1)
        + marker(4, 2, is_commit=True)
        + marker(5, 1, is_commit=True)
    )
    assert values(data, aborted=[(1, 0)]) == ([b"kept", b"again"], 6)
    assert values(data, aborted=None) == ([b"lost", b"kept", b"again"], 6)


def test_a_producer_may_abort_twice():
    data = (
        batch(0, b"x", producer=1)
        + marker(1, 1, is_commit=False)
        + batch(2, b"kept", producer=1)
        + marker(3, 1, is_commit=True)
        + batch(4, b"y", producer=1)
        + marker(5, 1, is_commit=False)
    )
    assert values(data, aborted=[(1, 4), (1, 0)]) == ([b"kept"], 6)


def test_damage_is_an_error():
    data = bytearray(batch(0, b"value"))
    data[-1] ^= 1
    with pytest.raises(ClientError, match="the batch at offset 0 is damaged"):
        values(bytes(data))


def test_an_old_format_is_an_error_in_one_line():
    data = bytearray(batch(0, b"value"))
    data[16] = 1
    with pytest.raises(ClientError, match=r"cannot be read: .*magic 1"):
        values(bytes(data))
