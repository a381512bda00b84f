"""The requests of a transactional producer: complete transactions, one at a time."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.client.control import Node, Target
from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.requests import END, PRODUCE, IdempotentProduce
from pipeline_broker.measure.load.template import in_turn, produce_template
from pipeline_broker.measure.load.transactions import END_VERSION, TransactionPace, Transactions
from pipeline_broker.records.batch import read_header
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import read_request_header, response_header
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse

NAME = "somebody"
TARGET = Target("load", 2, 12, (Node("localhost", 1, (0, 1)),))


def transactions(each):
    options = LoadOptions("localhost", 1, record_size=10, transaction_requests=each)
    template = produce_template(TARGET, options, (0, 1), NAME)
    found = Transactions(IdempotentProduce(template, in_turn(2, 0), 1), NAME, each)
    found.become(7, 0)
    return found


def requests_in(data):
    found = []
    while data:
        (size,) = struct.unpack_from(">i", data)
        frame, data = data[4 : 4 + size], data[4 + size :]
        header, position = read_request_header(frame)
        request_type = {0: ProduceRequest, 26: EndTxnRequest}[header.api_key]
        request, end = decode(request_type, header.api_version, frame, position)
        assert end == len(frame)
        found.append((header.correlation_id, request))
    return found


def framed(key, version, correlation_id, response):
    body = b"".join((response_header(key, version, correlation_id), *encode(response, version)))
    return memoryview(struct.pack(">i", len(body)) + body)


def produced(correlation_id, error_code=0):
    partition = ProduceResponse.PartitionProduceResponse(error_code=error_code)
    topic = ProduceResponse.TopicProduceResponse(name="load", partition_responses=[partition])
    return framed(0, 12, correlation_id, ProduceResponse(responses=[topic]))


def test_every_request_has_the_transactions_producer_and_sequence():
    found = transactions(3)
    (first, second, third, (end_id, end)) = requests_in(found.frames(0, 4))
    assert [correlation_id for correlation_id, _ in (first, second, third)] == [0, 1, 2]
    batches = []
    for _, request in (first, second, third):
        assert (request.transactional_id, request.acks) == (NAME, -1)
        batches.append(read_header(request.topic_data[0].partition_data[0].records, 0))
    assert [(it.producer_id, it.producer_epoch, it.base_sequence) for it in batches] == [
        (7, 0, 0),
        (7, 0, 0),
        (7, 0, 1),
    ]
    assert all(it.is_transactional for it in batches)
    assert (end_id, end) == (3, EndTxnRequest(NAME, 7, 0, committed=True))


def test_the_answer_to_an_end_sets_the_next_epoch_and_restarts_sequences():
    found = transactions(1)
    found.frames(0, 2)
    assert found.read(0, produced(0)) == 0
    assert found.read(1, framed(26, END_VERSION, 1, EndTxnResponse(producer_id=7, producer_epoch=1))) == 0
    ((_, request), (_, end)) = requests_in(found.frames(2, 2))
    header = read_header(request.topic_data[0].partition_data[0].records, 0)
    assert (header.producer_epoch, header.base_sequence) == (1, 0)
    assert end == EndTxnRequest(NAME, 7, 1, committed=True)


def test_errors_of_both_kinds_are_returned_and_a_refused_end_keeps_the_producer():
    found = transactions(1)
    found.frames(0, 2)
    assert found.read(0, produced(0, error_code=45)) == 45
    assert found.read(1, framed(26, END_VERSION, 1, EndTxnResponse(error_code=48))) == 48
    (_, (_, end)) = requests_in(found.frames(2, 2))
    assert (end.producer_id, end.producer_epoch) == (7, 0)


@pytest.mark.parametrize("correlation_id", [0, 1])
def test_an_invalid_answer_is_a_client_error(correlation_id):
    found = transactions(1)
    with pytest.raises(ClientError):
        found.read(correlation_id, memoryview(struct.pack(">iib", 5, correlation_id, 0)))


@given(st.integers(1, 8), st.integers(1, 6), st.lists(st.integers(1, 8), min_size=1, max_size=60), st.integers(0, 60))
def test_a_transaction_is_ended_alone_and_none_is_left_open(window, each, answers, stop_ns):
    pace = TransactionPace(window, stop_ns, each)
    kinds = [*[PRODUCE] * each, END]
    sent = in_flight = now_ns = 0
    steps = iter(answers)
    while not (pace.is_over(now_ns) and not in_flight):
        count = len(pace.take(now_ns, in_flight))
        sending = [kinds[number % len(kinds)] for number in range(sent, sent + count)]
        if END in sending:
            assert (sending, in_flight) == ([END], 0)
        elif sent % len(kinds) == 0 and count:
            assert in_flight == 0, "the end of the one before is answered"
            assert now_ns < stop_ns
        sent, in_flight = sent + count, in_flight + count
        assert in_flight <= window
        assert in_flight, "something is always on its way"
        in_flight -= min(in_flight, next(steps, 1))
        now_ns += 1
        pace.answered(1, now_ns, 1)
        assert pace.next_ns(in_flight) is None
    assert sent % len(kinds) == 0
    assert (sent > 0) == (stop_ns > 0)
