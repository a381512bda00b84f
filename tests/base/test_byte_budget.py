"""Holders stay within their shares and the budget; the largest holder pays for new ones."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipeline_broker.base.byte_budget import HOLDER_FRACTION, ByteBudget, OverBudgetError

BYTES_MAX = 1_600
PART = BYTES_MAX // HOLDER_FRACTION


class Keeping(RuleBasedStateMachine):
    """Twenty holders keep, resize and release bytes; a model knows the charged sizes."""

    def __init__(self):
        super().__init__()
        self.budget = ByteBudget(BYTES_MAX)
        self.kept = {}  # Kept -> (holder, size)
        self.dropped = []

    def sum_of(self, holder):
        return sum(size for each, size in self.kept.values() if each == holder)

    def after_drops(self):
        """Check that the holder of each dropped entry was more than half as large as the largest other one."""
        for victim in self.dropped:
            holder, dropped_size = self.kept.pop(victim)
            largest = max(map(self.sum_of, {each for each, _ in self.kept.values()}), default=0)
            assert 2 * (self.sum_of(holder) + dropped_size) > largest
            assert victim.size_bytes == 0
        self.dropped.clear()

    @rule(holder=st.integers(0, 19), size=st.integers(0, PART + 20))
    def keep(self, holder, size):
        handle = []

        def drop():
            self.dropped.append(handle[0])

        before = self.sum_of(holder)
        try:
            kept = self.budget.keep(holder, size, drop)
        except OverBudgetError:
            self.after_drops()
            assert before + size > PART, "a newcomer is not refused for the bytes of others"
            return
        handle.append(kept)
        self.after_drops()
        self.kept[kept] = holder, size

    @precondition(lambda self: self.kept)
    @rule(data=st.data(), size=st.integers(0, PART + 20))
    def resize(self, data, size):
        kept = data.draw(st.sampled_from(list(self.kept)))
        holder, before = self.kept[kept]
        rest = self.sum_of(holder) - before
        try:
            kept.resize(size)
        except OverBudgetError:
            self.after_drops()
            assert kept.size_bytes == before
            return
        assert rest + size <= PART or size <= before
        self.after_drops()
        self.kept[kept] = holder, size

    @precondition(lambda self: self.kept)
    @rule(data=st.data(), twice=st.booleans())
    def release(self, data, twice):
        kept = data.draw(st.sampled_from(list(self.kept)))
        for _ in range(1 + twice):
            kept.release()
        del self.kept[kept]

    @invariant()
    def sums_agree(self):
        assert self.budget.size_bytes == sum(size for _, size in self.kept.values()) <= BYTES_MAX


TestKeeping = Keeping.TestCase


def test_the_largest_holder_loses_its_oldest_bytes_for_a_newcomer():
    budget, dropped = ByteBudget(BYTES_MAX), []

    def keep(holder, size):
        budget.keep(holder, size, lambda: dropped.append((holder, size)))

    for small in range(15):
        keep(small, 60)
    for part in (50, 90, 60):
        keep("large", part)
    for middle in range(5):
        keep(f"middle {middle}", 100)
    assert budget.size_bytes == BYTES_MAX
    keep("newcomer", 120)
    assert dropped == [("large", 50), ("large", 90)]
    assert budget.dropped == 2


def test_a_single_holder_gets_only_its_share():
    budget = ByteBudget(BYTES_MAX)
    kept = budget.keep("one", PART, lambda: None)
    with pytest.raises(OverBudgetError, match=str(PART)):
        budget.keep("one", 1, lambda: None)
    with pytest.raises(OverBudgetError, match=str(PART)):
        kept.resize(PART + 1)
    kept.release()
    assert budget.size_bytes == 0
    budget.keep("one", PART, lambda: None)
