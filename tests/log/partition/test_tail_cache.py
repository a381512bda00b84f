"""The cache of the newest batches of all partitions, and its limit."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.journal.offset_index import OffsetIndex
from pipeline_broker.log.partition.reading import GATHER_BELOW_BYTES
from pipeline_broker.log.partition.tail_cache import BATCH_OVERHEAD_BYTES, TailCache
from pipeline_broker.log.read_result import BATCHES_PER_READ


class Log:
    def __init__(self):
        self.index, self.tail = OffsetIndex(), {}

    def append(self, cache, parts):
        """Take a durable batch of one record in, as a log does."""
        size_bytes, offset = sum(map(len, parts)), len(self.index)
        self.index.append(offset, 0, size_bytes, 0)
        cache.add(JournalEntry(self, offset, offset, 0, parts, size_bytes))


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=20),
    st.integers(0, 5),
    st.sampled_from([-1, 0, 1]),
)
def test_the_newest_slots_that_fit_are_kept(plan, count, more):
    cache, logs, newest = TailCache(max(0, count * (BATCH_OVERHEAD_BYTES + 2) + more)), (Log(), Log()), []
    for which, size_bytes in plan:
        log = logs[which]
        log.append(cache, (bytes(size_bytes),))
        newest.append((log, len(log.index) - 1, BATCH_OVERHEAD_BYTES + size_bytes))
        while sum(size for _, _, size in newest) > cache.bytes_max:
            newest.pop(0)
        assert (len(cache), cache.size_bytes) == (len(newest), sum(size for _, _, size in newest))
        for each in logs:
            kept = [offset for owner, offset, _ in newest if owner is each]
            assert list(each.tail) == kept
            for first in range(len(each.index)):
                result = cache.read(each, first, len(each.index))
                assert (result is not None) == (first in kept)


def test_a_read_has_the_requested_batches_up_to_the_limit():
    cache, log = TailCache(1 << 30), Log()
    large = bytes(GATHER_BELOW_BYTES)
    for _ in range(3):
        log.append(cache, (large[:10], large[10:]))
    assert b"".join(cache.read(log, 1, 3).parts) == large * 2
    for _ in range(BATCHES_PER_READ):
        log.append(cache, (b"x",))
    assert b"".join(cache.read(log, 3, len(log.index)).parts) == b"x" * BATCHES_PER_READ
    assert b"".join(cache.read(log, 2, len(log.index)).parts) == large + b"x" * (BATCHES_PER_READ - 1)
