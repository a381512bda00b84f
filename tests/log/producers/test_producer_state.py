"""The rules of idempotent producers, against a model that keeps all batches and follows the text of the rules."""

import tracemalloc
from contextlib import nullcontext

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pipeline_broker.log.errors import InvalidProducerEpoch, OutOfOrderSequence
from pipeline_broker.log.producers import producer_state
from pipeline_broker.log.producers.producer_state import GAPS_REMEMBERED, ProducedBatch, ProducerStates
from pipeline_broker.records.control_batch import EndMarker

WRAP = 1 << 31
PRODUCER_BYTES_MAX = 500


class Model:
    """Per producer the whole history of appended batches, and of refused ones while nothing was appended."""

    def __init__(self):
        self.appended = {}
        self.refused = {}

    def decide(self, producer, epoch, first, count):
        last = (first + count - 1) % WRAP
        history = self.appended.get(producer, [])
        if not history:
            for refused_epoch, refused_first in self.refused.get(producer, []):
                if refused_epoch == epoch:
                    return "append" if first in (0, refused_first) else "out of order"
            return "append"
        current = history[-1][0]
        recent = [batch for batch in history if batch[0] == current][-5:]
        for batch_epoch, batch_first, batch_last, offset in recent:
            if (batch_epoch, batch_first, batch_last) == (epoch, first, last):
                return ("duplicate", offset)
        if epoch < current:
            return "fenced"
        if epoch > current:
            return "append" if first == 0 else "out of order"
        return "append" if first == (history[-1][2] + 1) % WRAP else "out of order"

    def append(self, producer, epoch, first, count, offset):
        self.appended.setdefault(producer, []).append((epoch, first, (first + count - 1) % WRAP, offset))


def decide(states, producer, epoch, first, last):
    try:
        batch = states.check(producer, epoch, first, last)
    except InvalidProducerEpoch:
        return "fenced"
    except OutOfOrderSequence:
        return "out of order"
    return "append" if batch is None else ("duplicate", batch.base_offset)


@st.composite
def steps(draw):
    """Draw mostly valid batches of a producer with up to six requests in flight, also near the wrap, plus noise."""
    return (
        draw(st.sampled_from(["send", "send", "send", "refuse", "repeat"])),
        draw(st.integers(1, 2)),
        draw(st.integers(0, 2)),
        draw(st.integers(-3, 1)),
        draw(st.integers(1, 3)),
    )


def check_agreement(states, start, plan):
    """Every decision of `states` over the plan is the model's."""
    model = Model()
    following = {1: start, 2: start}
    sent = []
    for offset, (kind, producer, epoch, slip, count) in enumerate(plan):
        if kind == "repeat" and sent:
            producer, epoch, first, count = sent[max(0, len(sent) - 1 - abs(slip) * 2)]
        else:
            first = 0 if slip == -3 else (following[producer] + slip) % WRAP
        last = (first + count - 1) % WRAP
        if kind == "refuse":
            states.refused(producer, epoch, first)
            if producer not in model.appended:
                gaps = model.refused.setdefault(producer, [])
                # only the newest epoch's first refusal is remembered
                if not gaps or gaps[0][0] != epoch:
                    model.refused[producer] = [(epoch, first)]
            continue
        expected = model.decide(producer, epoch, first, count)
        assert expected == decide(states, producer, epoch, first, last)
        sent.append((producer, epoch, first, count))
        if expected == "append":
            model.append(producer, epoch, first, count, offset)
            states.record(producer, epoch, ProducedBatch(first, last, offset, offset, 0), now_ms=0)
            following[producer] = (last + 1) % WRAP


PLANS = {"start": st.sampled_from([0, 1, WRAP - 4]), "plan": st.lists(steps(), max_size=40)}


@given(**PLANS)
def test_7_every_decision_is_the_model_s(start, plan):
    check_agreement(ProducerStates(), start, plan)


class Forgetful(ProducerStates):
    """Does not remember that the first batch of a producer was refused."""

    def refused(self, producer_id, epoch, first_sequence):
        pass


class Trusting(ProducerStates):
    """Accepts batches that leave a gap."""

    def check(self, *batch):
        try:
            return super().check(*batch)
        except OutOfOrderSequence:
            return None


@pytest.mark.parametrize("sabotage", [Forgetful, Trusting])
def test_7_fails_on_gaps_that_are_forgotten_or_accepted(sabotage):
    @settings(max_examples=5000, derandomize=True, database=None, report_multiple_bugs=False, phases=[Phase.generate])
    @given(**PLANS)
    def example(start, plan):
        check_agreement(sabotage(), start, plan)

    with pytest.raises(AssertionError):
        example()


def recorded(batches, epoch=0):
    states = ProducerStates()
    for first, last, offset in batches:
        assert states.check(7, epoch, first, last) is None
        states.record(7, epoch, ProducedBatch(first, last, offset, offset, 0), now_ms=1000)
    return states


def test_only_the_last_five_batches_are_duplicates():
    states = recorded([(n, n, n) for n in range(7)])

    assert [decide(states, 7, 0, n, n) for n in range(8)] == [
        *["out of order"] * 2,
        *[("duplicate", n) for n in range(2, 7)],
        "append",
    ]


def test_a_duplicate_needs_both_ends_of_the_range():
    states = recorded([(0, 4, 0)])

    assert decide(states, 7, 0, 0, 3) == "out of order"
    assert decide(states, 7, 0, 0, 4) == ("duplicate", 0)


def test_a_new_epoch_forgets_the_batches_before():
    states = recorded([(0, 0, 0)])
    states.record(7, 1, ProducedBatch(0, 0, 1, 1, 0), now_ms=1000)

    assert decide(states, 7, 0, 0, 0) == "fenced"
    assert decide(states, 7, 1, 0, 0) == ("duplicate", 1)


def test_sequences_wrap_to_zero():
    states = recorded([(WRAP - 2, 1, 0)])

    assert decide(states, 7, 0, 2, 2) == "append"
    assert decide(states, 7, 0, WRAP - 2, 1) == ("duplicate", 0)


def test_no_batch_overtakes_a_refused_first_batch():
    states = ProducerStates()
    states.refused(7, 0, 10)

    assert decide(states, 7, 0, 11, 11) == "out of order"
    assert decide(states, 7, 0, 10, 10) == "append"
    assert decide(states, 7, 0, 0, 0) == "append", "it starts again"
    assert decide(states, 7, 0, 1, 1) == "out of order"
    assert decide(states, 8, 0, 11, 11) == "append"


def test_no_batch_overtakes_a_refused_batch_of_a_new_epoch():
    states = ProducerStates()
    states.refused(7, 0, 10)
    states.refused(7, 1, 3)
    states.refused(7, 1, 5)

    assert decide(states, 7, 1, 4, 4) == "out of order"
    assert decide(states, 7, 1, 5, 5) == "out of order", "the first refused one counts"
    assert decide(states, 7, 1, 3, 3) == "append"


def test_an_expired_producer_may_restart_despite_an_earlier_refused_batch():
    states = ProducerStates()
    states.refused(7, 0, 10)
    states.record(7, 0, ProducedBatch(0, 9, 0, 9, 0), 0)
    states.expire(1000, expiration_ms=100)

    assert decide(states, 7, 0, 11, 11) == "append"


def ended(states, offset, *, epoch=0, is_commit=True, now_ms=1000):
    states.record_marker(7, epoch, EndMarker(is_commit=is_commit, coordinator_epoch=3), offset, 10 * offset, now_ms)


def test_a_producer_is_described_by_its_last_batch_and_by_a_marker_that_is_later():
    states = ProducerStates()
    ended(states, 5, epoch=2)
    assert list(states.described()) == [(7, 2, -1, 50, 3, -1)]
    assert states.last_offsets() == {7: (2, None)}
    assert decide(states, 7, 2, 1, 1) == "out of order", "batches after a marker start at 0"
    for base_offset in (6, 9):
        states.record(7, 2, ProducedBatch(0, 2, base_offset, base_offset + 2, 777 + base_offset), 1000)
    states.open[7] = 6
    assert list(states.described()) == [(7, 2, 2, 786, 3, 6)]
    assert states.last_offsets() == {7: (2, 11)}
    ended(states, 12, epoch=2)
    assert list(states.described()) == [(7, 2, 2, 120, 3, -1)]


def test_a_marker_counts_as_a_sign_of_life():
    states = ProducerStates()
    ended(states, 5, now_ms=1000)
    assert states.expire(1099, expiration_ms=100) == 0
    ended(states, 6, now_ms=1050)
    assert states.expire(1149, expiration_ms=100) == 0
    assert states.expire(1150, expiration_ms=100) == 1


@pytest.mark.parametrize("others", [{}, {8: 3}])
def test_an_aborted_transaction_has_the_last_stable_offset_of_its_end(others):
    """Up to its marker, or to the oldest of those that are still open."""
    states = ProducerStates()
    states.open |= {7: 1, **others}
    ended(states, 5, is_commit=False)
    assert states.ended.aborted(0, 100) == [(7, 1, 5, others.get(8, 6))]


@pytest.mark.parametrize(
    ("epoch", "sequence", "is_refused"),
    [(2, 0, False), (2, 1, True), (3, 0, False), (3, 1, True), (1, 1, False)],
)
def test_a_version_2_producer_known_by_a_marker_only_starts_at_0(epoch, sequence, is_refused):
    """For a fenced one `check` raises the error. A producer with batches continues after them."""
    states = ProducerStates()
    ended(states, 5, epoch=2)
    with pytest.raises(OutOfOrderSequence) if is_refused else nullcontext():
        states.check_start(7, epoch, sequence)
    states.record(7, 2, ProducedBatch(0, 2, 6, 8, 0), 1000)
    states.check_start(7, epoch, sequence)
    with pytest.raises(OutOfOrderSequence):
        states.check_start(8, epoch, 1)


def test_the_number_of_remembered_gaps_is_bounded():
    states = ProducerStates()
    for producer in range(GAPS_REMEMBERED + 1):
        states.refused(producer, 0, 5)

    assert decide(states, 0, 0, 6, 6) == "append"
    assert decide(states, 1, 0, 6, 6) == "out of order"
    assert decide(states, GAPS_REMEMBERED, 0, 6, 6) == "out of order"


@pytest.mark.parametrize(("silent_ms", "forgotten"), [(99, 0), (100, 1)])
def test_a_silent_producer_is_forgotten(silent_ms, forgotten):
    states = recorded([(0, 0, 0)])

    assert forgotten == states.expire(1000 + silent_ms, expiration_ms=100)
    assert len(states) == 1 - forgotten


def test_the_longest_silent_of_too_many_producers_are_forgotten(monkeypatch):
    """They may then start at any sequence, as after their expiration. A producer with an open transaction is kept."""
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 20)
    states = ProducerStates()
    for producer in range(20):
        states.record(producer, 0, ProducedBatch(0, 4, producer, producer, 0), producer)
    states.open[0] = 0
    states.record(1, 0, ProducedBatch(5, 9, 20, 20, 0), 20)  # it sends again
    counts = []
    for producer in range(20, 120):
        states.record(producer, 0, ProducedBatch(0, 4, producer, producer, 0), producer)
        counts.append(len(states))
        assert states.open_transaction(0) is not None
    with pytest.raises(OutOfOrderSequence):
        states.check(0, 0, 7, 7)
    with pytest.raises(OutOfOrderSequence):
        states.check(119, 0, 7, 7)
    assert states.check(2, 0, 7, 7) is None
    assert counts == [21, 20] * 50, "a tenth goes at a time, of 20, when there is one too many beside the open one"


@pytest.mark.parametrize(("epoch", "decision"), [(-3, "fenced"), (-2, "fenced"), (-1, "append"), (0, "append")])
def test_an_unknown_producer_has_epoch_minus_1(epoch, decision):
    """As in Apache Kafka: an epoch below that is of the past."""
    assert decide(ProducerStates(), 5, epoch, 0, 0) == decision


def test_a_producer_takes_little_memory():
    """A client may name one for each partition, as often as it likes."""
    count = 2_000
    tracemalloc.start()
    try:
        states = ProducerStates()
        for producer_id in range(count):
            states.record(producer_id, 0, ProducedBatch(0, 0, producer_id, producer_id, 1), producer_id)
        memory_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(states) == count
    assert memory_bytes <= count * PRODUCER_BYTES_MAX
