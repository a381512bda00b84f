"""Properties of any log, cut into any segments and cleaned in any rounds, against the plain table of its values."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.compaction.cleaner import CleaningRound, DirtyPart, LastRecord, RoundParameters
from pipeline_broker.log.compaction.offset_map import OffsetMap
from pipeline_broker.records.batch import read_header
from pipeline_broker.records.record import iterate_records
from tests.log.compaction.logs import (
    all_records,
    assert_sound,
    committed_records,
    final_values,
    logs,
    parsed,
)

RETENTION_MS = 100


@attrs.define
class Rounds:
    """A log that is cleaned again and again; a group of segments is one list of batches."""

    log: object
    first_dirty: int = 0
    now_ms: int = 1000

    def next_base(self, number):
        bases = self.log.bases
        return bases[number + 1] if number + 1 < len(bases) else self.log.end

    def map_keys(self, bound_number, keys_max):
        offset_map = OffsetMap(keys_max=keys_max)
        dirty = DirtyPart(offset_map, self.first_dirty, self.log.aborted)
        for number, segment in enumerate(self.log.segments[:bound_number]):
            if self.next_base(number) > self.first_dirty and not dirty.add_segment(
                parsed(segment), self.next_base(number)
            ):
                break
        return offset_map, dirty.end_offset

    def clean(self, bound_number, keys_max, group_size, live):
        """One round below the segment with this number."""
        bound = self.next_base(bound_number - 1)
        if self.first_dirty >= bound:
            return bound
        offset_map, end = self.map_keys(bound_number, keys_max)
        assert self.first_dirty < end <= bound, "every round makes progress"
        self.now_ms += 50
        parameters = RoundParameters(
            now_ms=self.now_ms,
            delete_retention_ms=RETENTION_MS,
            upper_bound_offset=bound,
            last_records={producer: LastRecord(0, offset) for producer, offset in live.items()},
        )
        rewritten = sum(base < end for base in self.log.bases)
        self._rewrite(offset_map, parameters, rewritten, group_size)
        self.first_dirty = end
        return bound

    def _rewrite(self, offset_map, parameters, rewritten, group_size):
        cleaning = CleaningRound(offset_map, parameters, self.log.aborted)
        segments, bases, aborted = [], [], []
        rewritten_end = self.next_base(rewritten - 1)
        for start in range(0, rewritten, group_size):
            group = [batch for it in self.log.segments[start : min(start + group_size, rewritten)] for batch in it]
            segments.append([bytes(batch) for _, batch in cleaning.clean(parsed(group))])
            bases.append(self.log.bases[start])
            aborted += cleaning.take_aborted()
        again = CleaningRound(offset_map, parameters, aborted)
        flat = [batch for segment in segments for batch in segment]
        second = [bytes(batch) for _, batch in again.clean(parsed(flat))]
        assert_only_spent_markers_differ(flat, second)
        later = [it for it in self.log.aborted if it.last_offset >= rewritten_end]
        self.log.aborted = aborted + later
        self.log.segments = segments + self.log.segments[rewritten:]
        self.log.bases = bases + self.log.bases[rewritten:]


def assert_only_spent_markers_differ(first, second):
    """Cleaning the same once more changes no data; markers whose data went may get their horizon."""

    def data(batches):
        return [batch for batch in batches if not read_header(batch).is_control]

    assert data(first) == data(second)
    assert [read_header(batch).base_offset for batch in first] == [read_header(batch).base_offset for batch in second]


steps = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 6), st.integers(1, 4), st.booleans()), min_size=1, max_size=4
)


def run(log, steps_, check=lambda before, after, bound: None):
    rounds = Rounds(attrs.evolve(log))
    for bound_number, keys_max, group_size, forget in steps_:
        before = attrs.evolve(rounds.log)
        live = {} if forget else log.last_data
        bound = rounds.clean(min(bound_number, len(rounds.log.segments)), keys_max, group_size, live)
        check(before, rounds, bound)
    return rounds


@given(logs(), steps)
def test_every_key_has_the_same_final_value_before_and_after(log, steps_):
    expected = final_values(committed_records(log.batches, log.aborted))

    def check(_, rounds, __):
        assert_sound(rounds.log.batches)
        assert final_values(committed_records(rounds.log.batches, rounds.log.aborted)) == expected

    run(log, steps_, check)


@given(logs(), steps)
def test_kept_records_are_unchanged_and_in_order(log, steps_):
    original = {record.offset: record for record in all_records(log.batches)}

    def check(_, rounds, __):
        for record in all_records(rounds.log.batches):
            assert record == original[record.offset]

    run(log, steps_, check)


@given(logs(), steps)
def test_nothing_at_or_above_the_bound_is_touched(log, steps_):
    def check(before, rounds, bound):
        def above(batches):
            return [batch for batch in batches if read_header(batch).base_offset >= bound]

        assert above(rounds.log.batches) == above(before.batches)

    run(log, steps_, check)


@given(logs(), steps)
def test_the_clean_part_holds_a_key_at_most_once_and_nothing_else(log, steps_):
    def check(_, rounds, __):
        clean = [it.key for it in all_records(rounds.log.batches) if it.offset < rounds.first_dirty]
        assert None not in clean
        assert len(set(clean)) == len(clean)

    run(log, steps_, check)


@given(logs(), steps)
def test_no_record_of_an_aborted_transaction_is_left_where_a_round_was(log, steps_):
    committed = {record.offset for record in committed_records(log.batches, log.aborted)}

    def check(_, rounds, __):
        clean = {it.offset for it in all_records(rounds.log.batches) if it.offset < rounds.first_dirty}
        assert clean <= committed

    run(log, steps_, check)


@given(logs(), steps)
def test_live_producers_keep_their_last_sequence_and_the_log_its_last_offset(log, steps_):
    last_sequences = {
        header.producer_id: header.last_sequence for header, _ in parsed(log.batches) if not header.is_control
    }

    furthest = 0

    def check(_, rounds, bound):
        nonlocal furthest
        furthest = max(furthest, bound)
        headers = [header for header, _ in parsed(rounds.log.batches)]
        kept = {it.last_offset: it for it in headers}
        for producer, offset in log.last_data.items():
            assert kept[offset].last_sequence == last_sequences[producer]
            assert kept[offset].producer_epoch == 0
        assert max(it.last_offset for it in headers if it.base_offset < furthest) == furthest - 1

    run(log, [(*step[:3], False) for step in steps_], check)


@given(logs(transactions=False), steps)
def test_a_tombstone_stays_for_the_retention_after_the_first_round_that_met_it(log, steps_):
    met = {}  # base offset of the batch -> when a round first left a tombstone in it
    tombstones = {record.offset: record.key for record in all_records(log.batches) if record.value is None}

    def check(before, rounds, _):
        left = {record.offset for record in all_records(rounds.log.batches)}
        newest = {record.key: record.offset for record in all_records(before.batches)}
        for header, batch in parsed(before.batches):
            for record in iterate_records(batch):
                gone = record.offset in tombstones and record.offset not in left
                if gone and record.key is not None and newest[record.key] == record.offset:
                    assert rounds.now_ms >= met[header.base_offset] + RETENTION_MS
        for header, _ in parsed(rounds.log.batches):
            if header.delete_horizon_ms is not None:
                met.setdefault(header.base_offset, header.delete_horizon_ms - RETENTION_MS)
                assert header.delete_horizon_ms == met[header.base_offset] + RETENTION_MS, "it is never set again"
                assert met[header.base_offset] <= rounds.now_ms

    run(log, steps_, check)
