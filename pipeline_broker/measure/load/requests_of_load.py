"""Requests of each connection of a load: their keys, producers, transactions and read positions.

The broker assigns producer ids, coordinators and start offsets, so this module queries it before the run.
"""

import contextlib
import random
import secrets
from collections.abc import Sequence

import trio

from pipeline_broker.client.control import Control, Node, Target, open_control
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.security import ClientSecurity
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.requests import (
    IdempotentProduce,
    Mixed,
    ProduceInOrder,
    ProduceInTurn,
    Reads,
    Requests,
)
from pipeline_broker.measure.load.template import at_random, in_turn, keyed_template, produce_template, read_template
from pipeline_broker.measure.load.transactions import END_KEY, END_VERSION, PRODUCE_VERSION, Transactions

WARMUP_IN_FLIGHT = 8  # deep enough to warm up all code, and quickly drained
# The window of prepared requests. An open loop may have more in flight, but sends more at once only after a long stall.
WINDOW_MAX = 1_024
# Random transactional ids to try until one has the wanted broker as its coordinator.
NAMES_TRIED_MAX = 1000


async def requests_of(
    options: LoadOptions, target: Target, nodes: Sequence[Node], security: ClientSecurity
) -> tuple[list[Requests], list[Reads]]:
    """Build the requests of each connection.

    Returns:
        the requests of each connection, and those among them that read.

    Raises:
        ClientError: the broker refuses, lacks an API version that the load needs, or does not answer in `timeout_s`
            seconds; or no key belongs to the partitions of a connection. Nurseries may wrap it in a group.
    """
    with trio.move_on_after(options.timeout_s):
        return await _RequestBuilder(options, target, nodes, security).requests()
    raise ClientError(f"{options.host}:{options.port} did not get producers ready within {options.timeout_s:g} s")


class _RequestBuilder:
    def __init__(self, options: LoadOptions, target: Target, nodes: Sequence[Node], security: ClientSecurity) -> None:
        self._options = options
        self._target = target
        self._nodes = nodes
        self._security = security

    async def requests(self) -> tuple[list[Requests], list[Reads]]:
        options = self._options
        reads = await self._reads()
        if options.read_share >= 1:
            return list(reads), reads
        requests: list[Requests] = []
        async with contextlib.AsyncExitStack() as stack:
            control = await stack.enter_async_context(open_control(options.host, options.port, self._security))
            if options.transaction_requests:
                return [await self._transactions(control, stack, index) for index in range(len(self._nodes))], []
            for index, node in enumerate(self._nodes):
                produce = self._produce(node, index)
                if isinstance(produce, IdempotentProduce):
                    produce.become(*await control.new_producer())
                requests.append(Mixed(produce, reads[index], options.read_share) if reads else produce)
        return requests, reads

    def _produce(self, node: Node, index: int, transactional_id: str | None = None) -> Requests:
        options, target = self._options, self._target
        place = options.share + index * options.shares
        randomness = random.Random(f"{options.seed} {place}")  # noqa: S311 - the keys of a load
        if options.keys:
            template = keyed_template(target, options, node.partitions, randomness, transactional_id)
            order = at_random(len(template.requests), randomness)
        else:
            template = produce_template(target, options, node.partitions, transactional_id)
            order = in_turn(len(template.requests), place)
        if options.is_idempotent or options.transaction_requests:
            return IdempotentProduce(template, order, options.batch_records)
        if options.keys or options.compression != "none":
            return ProduceInOrder(template, order)
        window = min(max(options.in_flight, WARMUP_IN_FLIGHT), WINDOW_MAX)
        return ProduceInTurn(template, window, place)

    async def _transactions(self, control: Control, stack: contextlib.AsyncExitStack, index: int) -> Transactions:
        if self._target.produce_version < PRODUCE_VERSION or not control.has_version(END_KEY, END_VERSION):
            raise ClientError(
                "the broker lacks transactions of version 2 (Produce 12, EndTxn 5): use Apache Kafka 4.0 or newer"
            )
        node = self._nodes[index]
        coordinating = control
        if len(self._target.nodes) > 1:
            security = self._security
            coordinating = await stack.enter_async_context(open_control(node.host, node.port, security))
        name = await self._name(control, node)
        produce = self._produce(node, index, name)
        assert isinstance(produce, IdempotentProduce)
        found = Transactions(produce, name, self._options.transaction_requests)
        found.become(*await coordinating.new_producer(name))
        return found

    async def _name(self, control: Control, node: Node) -> str:
        # EndTxn goes to the coordinator, and all requests of a load go through one connection. So the coordinator must
        # be the broker at its other end.
        for _ in range(NAMES_TRIED_MAX):
            # A random id, because a reused one would fence the producer of another run.
            name = f"load-{secrets.token_hex(8)}"
            coordinator = await control.coordinator(name)
            if len(self._target.nodes) == 1 or coordinator == (node.host, node.port):
                return name
        raise ClientError(
            f"{node.host}:{node.port} coordinates none of {NAMES_TRIED_MAX} random transactional ids: "
            "check that it is part of the cluster"
        )

    async def _reads(self) -> list[Reads]:
        options, target = self._options, self._target
        if not options.read_share:
            return []
        if target.fetch_version is None:
            raise ClientError(
                "the broker lacks Fetch version 12, which names topics and has tags: leave out the read share"
            )
        templates = {}
        for node in dict.fromkeys(self._nodes):
            async with open_control(node.host, node.port, self._security) as control:
                starts = await control.log_starts(target.topic, node.partitions)
            templates[node] = read_template(target, node.partitions, starts, options.read_bytes)
        places = [options.share + index * options.shares for index in range(len(self._nodes))]
        return [Reads(templates[node], place) for node, place in zip(self._nodes, places, strict=True)]
