"""Expected values are those of Apache Kafka."""

import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from stages.request import Pending, Send
from tests.apis.desk import Desk

VERSIONS = SERVED[InitProducerIdRequest.SCHEMA.key].versions


def ask(desk, version=4, transactional_id=None, **more):
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000, **more)
    response = desk.ask(request, version)
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", VERSIONS)
def test_every_request_gets_a_new_id_with_epoch_0(version):
    desk = Desk()
    assert [ask(desk, version) for _ in range(3)] == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]


def test_the_draft_version_is_not_served():
    assert list(VERSIONS) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("producer_id", "epoch", "code"), [(5, 3, 0), (-5, -3, 0), (5, -1, 42), (-1, 3, 42)])
def test_an_id_and_an_epoch_come_together_and_do_not_count(producer_id, epoch, code):
    expected = (0, 0, 0) if code == 0 else (code, -1, -1)
    assert ask(Desk(), producer_id=producer_id, producer_epoch=epoch) == expected


def test_an_id_is_returned_once_its_block_is_durable_and_never_twice():
    desk = Desk()
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    first, second = desk.decide(request, 4), desk.decide(request, 4)
    assert isinstance(first, Pending)
    assert isinstance(second, Pending)
    desk.finish(request, 4, first)
    assert isinstance(desk.decide(request, 4), Send)
    assert ask(desk.restart()) == (0, 1000, 0)


@pytest.mark.parametrize(
    ("transactional_id", "code"), [("", ErrorCode.INVALID_REQUEST), ("x", ErrorCode.NOT_COORDINATOR)]
)
def test_a_transactional_id_needs_a_coordinator(transactional_id, code):
    """A client's lookup of the coordinator creates its topic: see test_transactions."""
    assert ask(Desk(), transactional_id=transactional_id) == (code, -1, -1)
