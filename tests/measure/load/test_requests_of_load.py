"""The requests of a load depend on the broker's abilities; a missing one gives a one-line error."""

import pytest
import trio

from pipeline_broker.client.control import Node, Target
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.security import PLAINTEXT
from pipeline_broker.measure.load import requests_of_load
from pipeline_broker.measure.load.client import load_rows
from pipeline_broker.measure.load.options import LoadOptions

NODES = (Node("one", 9092, (0,)), Node("two", 9092, (1,)))


class Coordinators:
    """A control connection that names the nodes in turn as coordinators."""

    def __init__(self, *addresses):
        self._addresses = addresses
        self.names = []

    async def coordinator(self, name):
        self.names.append(name)
        return self._addresses[(len(self.names) - 1) % len(self._addresses)]


def name_of(control, nodes, node):
    builder = requests_of_load._RequestBuilder(LoadOptions("", 0), Target("load", 2, 12, nodes), nodes, PLAINTEXT)
    return trio.run(builder._name, control, node)


def test_a_producer_gets_an_id_that_its_broker_coordinates():
    control = Coordinators(("one", 9092), ("one", 9092), ("two", 9092))
    assert name_of(control, NODES, NODES[1]) == control.names[2]
    assert len(set(control.names)) == 3


def test_a_single_broker_coordinates_every_id_whatever_it_advertises():
    control = Coordinators(("advertised.invalid", 1))
    assert name_of(control, NODES[:1], NODES[0]) == control.names[0]


def test_a_broker_that_coordinates_no_producer_gives_a_one_line_error(monkeypatch):
    monkeypatch.setattr(requests_of_load, "NAMES_TRIED_MAX", 3)
    control = Coordinators(("one", 9092))
    with pytest.raises(ClientError, match="two:9092 coordinates none of 3 random transactional ids"):
        name_of(control, NODES, NODES[1])
    assert len(control.names) == 3


def test_a_broker_without_transactions_of_version_2_gives_a_one_line_error(serve_fake):
    async def main():
        async with serve_fake() as broker:
            await load_rows(LoadOptions("127.0.0.1", broker.port, seconds=0.1, warmup_s=0, transaction_requests=1))

    with pytest.raises(ClientError, match="lacks transactions of version 2"):
        trio.run(with_one_error, main)


async def with_one_error(function):
    try:
        await function()
    except ExceptionGroup as group:
        (error,) = group.exceptions
        raise error from None
