"""Rows outside the bounds never pass the filters: bounds are compared with the filters themselves.

The filters are those of `pyspark.sql.datasource` since Spark 4.1; here they are values with the same names and fields.
"""

from datetime import UTC, datetime, timedelta

import attrs
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pipeline_broker.bounds import Bounds

START = datetime(2026, 1, 1, tzinfo=UTC)


@attrs.frozen
class Filter:
    attribute: tuple[str, ...]
    value: object


class EqualTo(Filter):
    def passes(self, value):
        return value == self.value


class GreaterThan(Filter):
    def passes(self, value):
        return value > self.value


class GreaterThanOrEqual(Filter):
    def passes(self, value):
        return value >= self.value


class LessThan(Filter):
    def passes(self, value):
        return value < self.value


class LessThanOrEqual(Filter):
    def passes(self, value):
        return value <= self.value


class In(Filter):
    def passes(self, value):
        return value in self.value


@attrs.frozen
class Not:
    child: Filter

    def passes(self, value):
        return not self.child.passes(value)


VALUES = {
    "topic": st.sampled_from(["a", "b"]),
    "partition": st.integers(0, 3),
    "offset": st.integers(-1, 6),
    "timestamp": st.integers(0, 5).map(lambda s: START + timedelta(seconds=s)),
}


@st.composite
def filters(draw):
    column = draw(st.sampled_from([*VALUES, "value"]))
    values = VALUES.get(column, st.binary(max_size=1))
    kind = draw(st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, In]))
    if kind is In:
        return column, In((column,), tuple(draw(st.lists(values, max_size=3))))
    found = kind((column,), draw(values))
    return column, Not(found) if draw(st.booleans()) and draw(st.booleans()) else found


@given(st.lists(filters(), max_size=4), st.fixed_dictionaries({**VALUES, "value": st.binary(max_size=1)}))
def test_a_row_that_passes_all_filters_is_within_the_bounds(drawn, row):
    bounds = Bounds().narrowed([found for _, found in drawn])
    if not all(found.passes(row[column]) for column, found in drawn):
        return
    assert bounds.take(row["topic"], row["partition"])
    assert bounds.first_offset is None or row["offset"] >= bounds.first_offset
    assert bounds.end_offset is None or row["offset"] < bounds.end_offset
    assert bounds.since_ms is None or row["timestamp"].timestamp() * 1000 >= bounds.since_ms


def test_bounds_are_as_narrow_as_filters_of_offsets_and_partitions_allow():
    found = [
        In(("partition",), (1, 2)),
        EqualTo(("partition",), 2),
        GreaterThan(("offset",), 4),
        LessThan(("offset",), 9),
    ]
    assert Bounds().narrowed(found) == Bounds(partitions=frozenset({2}), first_offset=5, end_offset=9)
    assert Bounds().narrowed([EqualTo(("timestamp",), START)]).since_ms == 1_767_225_600_000
