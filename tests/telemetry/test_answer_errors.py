"""Error codes at every level of a response are counted, up to a bounded number of elements."""

from collections import Counter

from pipeline_broker.telemetry.answer_errors import ELEMENTS_MAX, count_errors
from pipeline_broker.wire.messages.data.produce import ProduceResponse


def response_of(topics, partitions):
    partition = ProduceResponse.PartitionProduceResponse
    of_topic = [partition(number, 3) for number in range(partitions)]
    topic = ProduceResponse.TopicProduceResponse
    return ProduceResponse([topic(f"t{number}", partition_responses=of_topic) for number in range(topics)])


def counted(response):
    codes = Counter()
    count_errors(response, codes)
    return codes


def test_each_code_counts():
    assert counted(response_of(3, 4)) == {3: 12}


def test_only_the_first_elements_of_a_very_large_response_count():
    assert counted(response_of(1, 2 * ELEMENTS_MAX)) == {3: ELEMENTS_MAX - 1}, "the topic is an element, too"
    found = counted(response_of(200, 200))
    assert ELEMENTS_MAX - 200 <= found[3] <= ELEMENTS_MAX
