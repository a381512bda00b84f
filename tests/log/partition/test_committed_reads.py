"""The end of read_committed reads, however batches are split into parts."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.partition.committed_reads import AbortedView, cut_at, end_of
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.read_result import ColdRead, ReadResult
from pipeline_broker.records.batch import HEADER_SIZE, read_header
from tests.archiving import archive_all
from tests.log.archive.segments import make_batch
from tests.log.archive.test_archiver import append
from tests.node.upkeep_bench import Bench

COUNTS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["joined", "alone", "split"])), max_size=6)
"""Of each batch its records, and how it lies: behind the one before, in a part of its own, or in two."""


def laid_out(counts):
    """The batches, and the parts that they are in."""
    batches, parts, offset = [], [], 0
    for count, how in counts:
        batch = make_batch(offset, (1,) * count)
        batches.append(batch)
        offset += count
        if how == "joined" and parts:
            parts[-1] += batch
        elif how == "split":
            parts += [batch[:HEADER_SIZE], batch[HEADER_SIZE:]]
        else:
            parts.append(batch)
    return batches, parts


@given(COUNTS, st.booleans())
def test_a_read_ends_with_the_last_batch_that_begins_below_the_offset(counts, is_cold):
    batches, parts = laid_out(counts)
    ends = [read_header(batch).last_offset + 1 for batch in batches]
    assert end_of(parts) == (ends[-1] if ends else 0)
    for end_offset in range((ends[-1] if ends else 0) + 2):
        expected = b"".join(batch for batch in batches if read_header(batch).base_offset < end_offset)
        if is_cold:
            cut = cut_at(ReadResult(cold=ColdRead(lambda: list(parts), 77)), end_offset)
            assert (cut.parts, cut.cold.size_bytes) == ([], 77)
            assert b"".join(cut.cold()) == expected
        else:
            cut = cut_at(ReadResult(list(parts)), end_offset)
            assert cut.cold is None
            assert b"".join(cut.parts) == expected


def test_aborted_transactions_concern_readers_of_offsets_between_theirs():
    """From the first batch to the marker, both included."""
    recent = [AbortedTransaction(7, 2, 5), AbortedTransaction(8, 4, 9)]
    view = AbortedView(None, recent)
    for offset, end_offset, expected in (
        (0, 2, []),
        (0, 3, [7]),
        (0, 4, [7]),
        (0, 5, [7, 8]),
        (5, 6, [7, 8]),
        (6, 9, [8]),
        (9, 10, [8]),
        (10, 20, []),
    ):
        assert [it.producer_id for it in view.find(offset, end_offset)] == expected


def test_archived_aborted_transactions_are_returned_before_those_in_the_journal():
    """In the order of their markers, wherever these lie."""
    bench = Bench()
    for producer_id in (8, 7):
        archive_all(bench.journal, bench.logs)
        append(bench, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        marker = bench.log.append_marker(producer_id, 0, committed=False, coordinator_epoch=0, now_ms=0).entry
        bench.journal.sync(bench.journal.write([marker]))
        bench.logs.on_durable([marker])
    found = bench.log.aborted_transactions(0, bench.log.high_watermark)
    assert isinstance(found, ColdRead), "some are archived"
    assert [it.last_offset for it in found()] == [1, 3]
