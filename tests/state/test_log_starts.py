"""Log start offsets, compared with a model whose journal lags, crashes and is compacted."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.log_starts import LogStart, LogStarts
from pipeline_broker.state.metadata_records import RecordType, record_key, record_type, record_value

TOPICS = [bytes([number]) * 16 for number in range(3)]
KEY = record_key(RecordType.LOG_START) + TOPICS[1] + bytes(3) + b"\7"
topics = st.sampled_from(TOPICS)
partitions = st.integers(0, 2)


class LogStartsMachine(RuleBasedStateMachine):
    """The journal orders the deletion of a topic, which happens once, with the other records."""

    @initialize()
    def start(self) -> None:
        self.starts = LogStarts()
        self.pending = []
        self.journal = []
        self.told = {}
        self.deleted = set()
        self.is_decided = set()

    @rule(topic=topics, partition=partitions, offset=st.integers(0, 9))
    def raise_start(self, topic, partition, offset) -> None:
        if topic in self.is_decided:
            return
        write = self.starts.raise_to(topic, partition, offset)
        if write is None:
            assert offset <= self.told.get((topic, partition), 0)
        else:
            self.pending.append(("raise", (topic, partition, offset), write))

    @rule(topic=topics)
    def delete_topic(self, topic) -> None:
        if topic not in self.is_decided:
            self.is_decided.add(topic)
            self.pending.append(("delete", topic, self.starts.forget(topic)))

    @precondition(lambda self: self.pending)
    @rule(count=st.integers(1, 5))
    def settle(self, count) -> None:
        settled, self.pending = self.pending[:count], self.pending[count:]
        for kind, subject, write in settled:
            if write is not None:
                self.journal += write.records
                start = self.starts.durable(write)
            if kind == "raise":
                topic, partition, offset = subject
                assert start == LogStart(topic, partition, self.starts.get(topic, partition))
                before = self.told.get((topic, partition), 0)
                assert start.offset >= max(offset, before)
                self.told[topic, partition] = start.offset
            else:
                self.deleted.add(subject)

    @rule(order=st.randoms(use_true_random=False))
    def restart(self, order) -> None:
        """Lose pending records; compacted and archived ones may come twice, or late."""
        self.pending.clear()
        self.is_decided = set(self.deleted)
        starts = LogStarts()
        left = {record.key: record for record in self.journal}
        ends = [record for record in left.values() if record.value is None]
        raises = [record for record in self.journal if record.value is not None and left[record.key].value is not None]
        order.shuffle(raises)
        for record in raises + ends:
            starts.replay(record.key, record.value)
        starts.replayed(set(TOPICS) - self.deleted)
        self.starts = starts

    @invariant()
    def starts_are_what_was_told(self) -> None:
        if not hasattr(self, "starts"):
            return
        for topic in TOPICS:
            for partition in range(3):
                expected = 0 if topic in self.deleted else self.told.get((topic, partition), 0)
                assert self.starts.get(topic, partition) == expected


TestLogStarts = LogStartsMachine.TestCase


def test_each_caller_waits_for_a_record_of_its_own() -> None:
    starts = LogStarts()
    first, second = (starts.raise_to(TOPICS[0], 1, offset) for offset in (5, 3))
    assert first is not None
    assert second is not None
    assert starts.durable(second) == LogStart(TOPICS[0], 1, 5)
    assert starts.durable(first) == LogStart(TOPICS[0], 1, 5)
    assert starts.raise_to(TOPICS[0], 1, 5) is None


def test_deleting_a_topic_without_log_starts_writes_no_record() -> None:
    starts = LogStarts()
    assert starts.forget(TOPICS[0]) is None
    write = starts.raise_to(TOPICS[0], 1, 5)
    assert write is not None
    forgotten = starts.forget(TOPICS[0])
    assert forgotten is not None, "pending offsets are forgotten too"
    starts.durable(write)
    assert starts.durable(forgotten) is None
    assert starts.forget(TOPICS[0]) is None


def test_an_interrupted_deletion_is_completed_after_the_replay() -> None:
    starts = LogStarts()
    starts.replay(KEY, b'\0\0{"offset": 3}')
    assert starts.get(TOPICS[1], 7) == 3
    starts.replayed({TOPICS[0]})
    assert starts.get(TOPICS[1], 7) == 0


def test_records_of_other_types_are_ignored() -> None:
    starts = LogStarts()
    starts.replay(b"\0\1topic", b"whatever")
    assert record_type(KEY) == RecordType.LOG_START
    assert starts.get(TOPICS[1], 7) == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY[:-1], b'\0\0{"offset": 3}'),
        (KEY + b"\0", None),
        (KEY, b'\0\1{"offset": 3}'),
        (KEY, b"\0\0[]"),
        (KEY, b"\0\0{}"),
        (KEY, b'\0\0{"offset": -1}'),
        (KEY, b'\0\0{"offset": "3"}'),
        (KEY, b'\0\0{"offset": true}'),
    ],
)
def test_corrupt_records_raise_the_documented_error(key, value) -> None:
    with pytest.raises(CorruptStateRecordError):
        LogStarts().replay(key, value)


def test_a_log_start_may_be_0_and_a_tombstone_removes_it() -> None:
    for offset in (0, 5):
        starts, (other,) = LogStarts(), LogStarts().raise_to(TOPICS[1], 7, 5).records
        starts.replay(other.key, record_value(json.dumps({"offset": offset})))
        assert starts.get(TOPICS[1], 7) == offset
        starts.durable(starts.forget(TOPICS[1]))
        assert starts.get(TOPICS[1], 7) == 0
        assert not starts._visible
        assert not starts._latest
