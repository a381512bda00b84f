"""The rules of transactions in a log, one by one, as in ProducerAppendInfo of Apache Kafka."""

import pytest

from pipeline_broker.log.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from pipeline_broker.log.producers.aborted_transactions import OpenTransactions
from pipeline_broker.log.producers.producer_snapshot import StoredProducer, decode_producers, encode_producers
from pipeline_broker.log.producers.producer_state import OpenTransaction, ProducedBatch, ProducerStates
from pipeline_broker.log.read_result import ColdRead
from pipeline_broker.records.batch import APPEND_TIME_BIT, NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.check import Rules
from pipeline_broker.records.compression import Compression
from pipeline_broker.records.control_batch import EndMarker, read_marker
from pipeline_broker.records.errors import TransactionalRecords
from pipeline_broker.records.recompression import Target
from pipeline_broker.records.record import iterate_records
from tests import transactional_batches
from tests.log.partition.test_partition_log import NOW, Setting

PRODUCER, OTHER = 0, 8


def batch_of(count=1, *, producer=PRODUCER, epoch=0, sequence=0, transactional=True, value=b"v"):
    return build_batch(
        [NewRecord(value, timestamp=NOW)] * count,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


class Log(Setting):
    """A log in which every append is durable at once, unless the test asks it to wait."""

    def write(self, *args, wait=False, starts_at_zero=False, **options):
        appended = transactional_batches.produce(
            self.log, batch_of(*args, **options), NOW, starts_at_zero=starts_at_zero
        )
        if not wait:
            self.commit(appended)
        return appended

    def end(self, *, producer=PRODUCER, epoch=0, committed=True, coordinator=0, version=0, wait=False):
        appended = self.log.append_marker(
            producer, epoch, committed=committed, coordinator_epoch=coordinator, now_ms=NOW, version=version
        )
        if not wait:
            self.commit(appended)
        return appended

    @property
    def stable(self):
        return self.log.last_stable_offset

    def open(self, producer=PRODUCER):
        return self.log.producers.open_transaction(producer)


@pytest.fixture
def log():
    return Log()


def test_the_first_batch_opens_a_transaction_at_its_first_offset(log):
    assert log.open() is None
    log.write(3)
    log.write(2, sequence=3)
    assert log.open() == OpenTransaction(0, 0)
    assert (log.stable, log.log.high_watermark) == (0, 5)


def test_a_marker_ends_it(log):
    log.write(3)
    log.end()
    assert log.open() is None
    assert log.stable == log.log.high_watermark == 4


def test_the_oldest_open_transaction_counts(log):
    log.write()
    log.write(producer=OTHER)
    log.end()
    assert log.stable == 1
    log.end(producer=OTHER)
    assert log.stable == 4


def test_a_marker_that_is_not_durable_ends_nothing_for_readers(log):
    """Case 8."""
    log.write()
    marker = log.end(wait=True)
    assert (log.open(), log.stable) == (None, 0)
    log.commit(marker)
    assert log.stable == 2


def test_a_later_transaction_does_not_hide_that_an_earlier_one_is_not_durable(log):
    log.write()
    pending = [log.end(wait=True), log.write(sequence=1, wait=True)]
    assert log.stable == 0
    log.commit(pending[0])
    assert log.stable == 2 == log.log.high_watermark
    log.commit(pending[1])
    assert log.stable == 2


def test_the_last_stable_offset_is_at_most_the_high_watermark(log):
    log.write(transactional=False)
    log.write(producer=OTHER, wait=True)
    assert log.stable == 1


def test_a_batch_outside_of_a_transaction_that_is_open_is_refused(log):
    log.write()
    with pytest.raises(InvalidTxnState) as info:
        log.write(sequence=1, transactional=False)
    assert info.value.error_name == "INVALID_TXN_STATE"
    assert log.log.log_end_offset == 1
    log.write(sequence=1)
    log.end()
    log.write(sequence=2, transactional=False)


def test_the_short_way_of_produce_refuses_it_too(log):
    log.write()
    with pytest.raises(InvalidTxnState):
        log.log.produce(batch_of(sequence=1, transactional=False), NOW)


def test_others_are_not_concerned(log):
    log.write()
    log.write(producer=OTHER, transactional=False)
    log.write(producer=-1, epoch=-1, sequence=-1, transactional=False)


def test_the_sequence_is_checked_before_the_transaction(log):
    log.write()
    with pytest.raises(OutOfOrderSequence):
        log.write(sequence=5, transactional=False)


def test_a_duplicate_within_a_transaction_is_one(log):
    first = log.write()
    again = log.write()
    assert (again.duplicate, again.base_offset) == (True, first.base_offset)


def test_a_transactional_batch_without_verification_is_refused(log):
    with pytest.raises(TransactionalRecords):
        log.log.produce(batch_of(), NOW)
    assert log.open() is None


def test_a_transactional_batch_without_a_producer_belongs_to_no_transaction(log):
    """Apache Kafka accepts it. No marker could ever end its transaction."""
    log.write(producer=-1, epoch=-1, sequence=-1)
    assert (len(log.log.producers), log.log.producers.open, log.stable) == (0, {}, 1)
    opened = OpenTransactions()
    batch = batch_of(producer=-1, epoch=-1, sequence=-1)
    assert opened.add(read_header(batch), batch) is None
    assert opened.first_offsets == (), "the archive sees it so too"


@pytest.mark.parametrize("starts_at_zero", [True, False])
def test_a_producer_of_transactions_version_2_starts_at_zero_where_nothing_is_known_of_it(log, starts_at_zero):
    if starts_at_zero:
        with pytest.raises(OutOfOrderSequence):
            log.write(sequence=5, starts_at_zero=True)
        log.write(sequence=0, starts_at_zero=True)
    else:
        log.write(sequence=5, starts_at_zero=False)


def test_a_fenced_epoch_is_reported_before_the_sequence(log):
    log.end(epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        log.write(epoch=2, sequence=5, starts_at_zero=True)


def test_a_marker_sets_the_epoch_and_the_next_batch_starts_at_zero(log):
    log.write(epoch=0)
    log.end(epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        log.write(epoch=0, sequence=1)
    with pytest.raises(OutOfOrderSequence):
        log.write(epoch=1, sequence=1)
    log.write(epoch=1, sequence=0)


def test_a_marker_of_the_same_epoch_leaves_the_sequence(log):
    log.write(2)
    log.end()
    log.write(sequence=2)


@pytest.mark.parametrize("version", [0, 1])
def test_before_version_2_a_marker_has_the_epoch_of_the_data_or_a_higher_one(log, version):
    log.write(epoch=1)
    with pytest.raises(InvalidProducerEpoch) as info:
        log.end(epoch=0, version=version)
    assert info.value.error_name == "INVALID_PRODUCER_EPOCH"
    log.end(epoch=1, version=version)
    log.write(epoch=1, sequence=1)
    log.end(epoch=5, version=version)


def test_from_version_2_on_a_marker_has_a_higher_epoch_than_the_data(log):
    log.write(epoch=1)
    for epoch in (0, 1):
        with pytest.raises(InvalidProducerEpoch):
            log.end(epoch=epoch, version=2)
    log.end(epoch=2, version=2)


def test_with_version_2_a_marker_may_be_repeated_while_nothing_is_open(log):
    log.write()
    log.end(epoch=1, version=2)
    assert log.end(epoch=1, version=2).entry is not None, "it is appended once more, as in Apache Kafka"
    log.write(epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        log.end(epoch=1, version=2)


def test_the_epoch_of_the_coordinator_may_not_fall(log):
    log.write()
    log.end(coordinator=3)
    log.write(sequence=1)
    with pytest.raises(TransactionCoordinatorFenced) as info:
        log.end(coordinator=2)
    assert info.value.error_name == "TRANSACTION_COORDINATOR_FENCED"
    assert log.open() is not None
    log.end(coordinator=3)


def test_a_late_epoch_is_reported_before_a_late_coordinator(log):
    log.end(epoch=2, coordinator=3)
    with pytest.raises(InvalidProducerEpoch):
        log.end(epoch=1, coordinator=2)


def test_a_marker_without_a_transaction_is_appended_and_fences(log):
    log.end(epoch=4)
    assert log.log.high_watermark == log.stable == 1
    with pytest.raises(InvalidProducerEpoch):
        log.write(epoch=3)
    assert log.log.aborted_transactions(0, 1) == []


def test_an_abort_without_data_is_not_an_aborted_transaction(log):
    log.end(committed=False)
    assert log.log.aborted_transactions(0, 1) == []


def test_readers_of_any_part_of_an_aborted_transaction_get_it(log):
    log.write(2)
    log.write(producer=OTHER)
    log.end(committed=False)
    log.end(producer=OTHER)
    (found,) = log.log.aborted_transactions(0, 5)
    assert (found.producer_id, found.first_offset, found.last_offset, found.last_stable_offset) == (PRODUCER, 0, 3, 2)
    assert log.log.aborted_transactions(3, 4) == [found]
    assert log.log.aborted_transactions(4, 5) == []


def test_the_marker_is_kafkas(log):
    log.end(epoch=3, committed=False, coordinator=258)
    ((header, batch),) = iterate_batches(b"".join(log.log.read(0, 100, at_least_one=True).parts))
    (record,) = iterate_records(batch, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PRODUCER, 3, -1)
    assert (header.is_control, header.is_transactional, header.compression) == (True, True, 0)
    assert (record.key, record.value, record.timestamp) == (b"\0\0\0\0", b"\0\0\0\0\1\2", NOW)
    assert read_marker(header, batch) == EndMarker(is_commit=False, coordinator_epoch=258)


def test_a_topic_that_stamps_its_records_stamps_markers():
    log = Log(rules=Rules(append_time=True))
    assert log.end().log_append_time_ms == NOW
    ((header, batch),) = iterate_batches(b"".join(log.log.read(0, 100, at_least_one=True).parts))
    assert header.attributes & APPEND_TIME_BIT
    assert read_marker(header, batch) == EndMarker(is_commit=True, coordinator_epoch=0)


def test_a_topic_that_compresses_its_records_does_not_compress_markers():
    log = Log(rules=Rules(compression=Target(Compression.GZIP)))
    log.write(value=bytes(1000))
    log.end()
    headers = [header for header, _ in iterate_batches(b"".join(log.log.read(0, 1 << 20, at_least_one=True).parts))]
    assert [(it.compression, it.is_transactional) for it in headers] == [(Compression.GZIP, True), (0, True)]


def test_batches_of_a_coordinator_have_no_sequence(log):
    """Offsets that are committed in a transaction."""
    batch = batch_of(sequence=-1, epoch=2)
    for _ in range(2):
        log.commit(log.log.append(read_header(batch), batch, NOW))
    assert log.open() == OpenTransaction(0, 2)
    late = batch_of(sequence=-1, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        log.log.append(read_header(late), late, NOW)
    log.end(epoch=2)
    assert log.stable == 3


def test_deleted_records_do_not_end_a_transaction(log):
    """Its marker may still arrive. Readers start after the deleted records."""
    log.write(2)
    log.write(2, sequence=2)
    log.log.raise_log_start(3)
    assert (log.open(), log.stable) == (OpenTransaction(0, 0), 3)
    assert log.log.read(3, 100, at_least_one=True, committed=True).parts == []
    log.end()
    assert log.stable == 5


def test_a_producer_with_an_open_transaction_is_not_forgotten(log):
    log.write()
    log.write(producer=OTHER)
    log.end(producer=OTHER)
    assert log.log.producers.expire(NOW + 1000, expiration_ms=10) == 1
    assert log.open() is not None
    log.end()
    assert log.log.producers.expire(NOW + 1000, expiration_ms=10) == 1


def test_a_read_committed_reader_ends_at_the_first_open_transaction(log):
    log.write(transactional=False, producer=OTHER)
    log.write()
    log.write(transactional=False, producer=OTHER, sequence=1)
    offsets = [
        record.offset
        for header, batch in iterate_batches(
            b"".join(log.log.read(0, 1 << 20, at_least_one=True, committed=True).parts)
        )
        for record in iterate_records(batch, header)
    ]
    assert offsets == [0]
    assert log.log.bytes_available(0, committed=True) == len(batch_of())
    assert log.log.bytes_available(1, committed=True) == 0


def test_it_is_all_there_after_a_start(log):
    log.write(2)
    log.end(epoch=1, committed=False, coordinator=5, version=2)
    log.write(epoch=1)
    before = set(log.log.producers.described())
    again = log.restart()
    assert set(again.log.producers.described()) == before
    assert again.log.producers.open_transaction(PRODUCER) == OpenTransaction(3, 1)
    assert again.log.last_stable_offset == 3
    found = again.log.aborted_transactions(0, 3)
    assert not isinstance(found, ColdRead)
    assert [(it.producer_id, it.first_offset, it.last_offset) for it in found] == [(PRODUCER, 0, 2)]


BATCHES = (ProducedBatch(4, 6, 10, 12, 99),)
OLD = encode_producers([StoredProducer(5, 1, 7, 1000, BATCHES), StoredProducer(6, 0, 0, 2000)])
WITH_MARKERS = [
    StoredProducer(5, 1, 7, 1000, BATCHES, 3, 13, 100),
    StoredProducer(6, 0, 0, 2000),
]


def test_a_snapshot_without_markers_is_as_the_first_release_wrote_it():
    """A directory that never saw a transaction can be opened by that release again."""
    assert OLD.hex() == (
        "0500000000000000" "0100" "07000000" "e803000000000000" "01"
        "04000000" "06000000" "0a00000000000000" "0c00000000000000" "6300000000000000"
        "0600000000000000" "0000" "00000000" "d007000000000000" "00"
    )  # fmt: skip
    states = ProducerStates.restored(OLD)
    assert states.snapshot() == OLD


def test_a_snapshot_with_markers_restores_them():
    backwards = WITH_MARKERS[::-1]
    assert list(decode_producers(encode_producers(backwards))) == backwards, "whichever of them had one"
    data = encode_producers(WITH_MARKERS)
    assert list(decode_producers(data)) == WITH_MARKERS
    states = ProducerStates.restored(data, [(6, 40), (5, 20)])
    assert states.snapshot() == data
    assert list(states.open.items()) == [(5, 20), (6, 40)], "the oldest first"
    with pytest.raises(TransactionCoordinatorFenced):
        states.check_marker(5, 2, 2, 0)
