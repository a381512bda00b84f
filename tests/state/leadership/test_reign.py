"""Entries of a journal count for the epoch of the OPEN record before them."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.leadership.records import OpenRecord
from pipeline_broker.state.leadership.reign import entries_that_count
from tests.drawn import drawn, measured

ENTRIES = st.lists(st.integers(0, 99) | st.builds(OpenRecord, st.integers(0, 2)) | st.none(), max_size=30)


@measured(counted=0.2)
@given(ENTRIES)
def test_each_entry_counts_for_one_epoch_or_for_none(entries):
    counted = {epoch: list(entries_that_count(entries, epoch)) for epoch in range(3)}
    drawn("counted", any(counted.values()))
    before, expected = None, {epoch: [] for epoch in range(3)}
    for entry in entries:
        if entry is None or isinstance(entry, OpenRecord):
            before = entry
        elif before is not None:
            expected[before.epoch].append(entry)
    assert counted == expected


def test_entries_of_two_processes_in_one_epoch_count():
    entries = ["lost", OpenRecord(1), "a", None, "closed", OpenRecord(2), "b", OpenRecord(1), "c"]
    assert list(entries_that_count(entries, 1)) == ["a", "c"]
