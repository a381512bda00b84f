"""Apache Kafka and both modes of ours give the same answers, field by field, but for what masks names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bad_input.raw_client import SERVED_IDS, SERVED_VERSIONS
from tests.differential.access_requests import ACCESS_REQUESTS
from tests.differential.admin_requests import ADMIN_REQUESTS
from tests.differential.comparison import compare, drawn
from tests.differential.data_requests import DATA_REQUESTS
from tests.differential.quota_requests import QUOTA_REQUESTS

pytestmark = pytest.mark.xdist_group("kafka")
REQUESTS = DATA_REQUESTS | ADMIN_REQUESTS | QUOTA_REQUESTS | ACCESS_REQUESTS
ASKED_MIN = 300


@pytest.mark.parametrize(("key", "version"), SERVED_VERSIONS, ids=SERVED_IDS)
@drawn()
@given(data=st.data())
def test_a_request_is_answered_as_kafka_answers_it(sides, key, version, data):
    found = compare(sides, key, data.draw(REQUESTS[key](version)))
    assert not found, "\n".join(found)


def test_enough_was_asked(sides):
    """Every API in every version, and 300 requests at least."""
    assert sides.seen == set(SERVED_VERSIONS)
    assert sides.asked >= ASKED_MIN
