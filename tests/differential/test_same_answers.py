"""Apache Kafka and both modes of ours give the same answers, field by field, but for what masks names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bad_input.raw_client import SERVED_VERSIONS, each_served_version
from tests.differential.comparison import EXAMPLES, compare, drawn
from tests.differential.masks import BY_FIELD, MASKS, MASKS_MAX
from tests.differential.table import REQUESTS

pytestmark = pytest.mark.xdist_group("kafka")
AT_LENGTH = 30
ASKED_MIN = 5_000 if EXAMPLES >= AT_LENGTH else 300
APIS_MIN = 50


@each_served_version(parts=4)
@drawn()
@given(data=st.data())
def test_a_request_is_answered_as_kafka_answers_it(sides, key, version, data):
    found = compare(sides, key, data.draw(REQUESTS[key](version)))
    assert not found, "\n".join(found)


def test_few_fields_are_not_compared_as_they_are():
    """What is masked must stay a list that a person can check."""
    assert len(MASKS) <= MASKS_MAX
    assert len(BY_FIELD) == sum(len(mask.fields) for mask in MASKS), "no field twice"


def test_enough_was_asked(sides):
    """Every API in every version; 300 requests at least, and 5,000 over 50 APIs at length (EXAMPLES=30)."""
    assert sides.seen == set(SERVED_VERSIONS)
    assert len({key for key, _ in sides.seen}) >= APIS_MIN
    assert sides.asked >= ASKED_MIN
