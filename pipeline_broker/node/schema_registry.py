"""The schema registry of a broker: its topic in the log, and the port that it is served on.

Rules of this file: on Trio; `pipeline_broker.schema_registry` decides. The topic is all that the registry has: what is
changed is appended as entries that no client's request waits for, in the name of the broker itself, and counts when it
is read from the log again. So a registry of somebody else's may write there too. A change takes its turn until it is
durable; work that takes time is done in few threads, and is ended when it takes too long.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import trio

from pipeline_broker.log.errors import LogError
from pipeline_broker.node.bounded_work import TookTooLongError, run_bounded
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import iterate_records
from pipeline_broker.schema_registry.api import answer_of, error_answer, find_operation, is_change
from pipeline_broker.schema_registry.decoding import Decoded, decode
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.records import (
    SCHEMAS_TOPIC,
    SCHEMAS_TOPIC_CONFIGS,
    Change,
    StrangeRecordError,
    read_change,
)
from pipeline_broker.schema_registry.registration import Decision
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.state.topic_rules import TopicError
from pipeline_broker.state.topics import NewTopic
from pipeline_broker.web.http_server import HttpLimits, HttpUnavailableError, open_listeners, serve_http
from pipeline_broker.web.messages import Answer, BadRequestError, HttpRequest
from pipeline_broker.web.strangers import OwnPlace
from stages.durable import wait_durable

if TYPE_CHECKING:
    from pipeline_broker.base.byte_budget import ByteBudget
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.log.entry import JournalEntry
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from stages.socket_server import SocketServer

__all__ = ["BODY_BYTES_MAX", "LIMITS", "WORK_SECONDS_MAX", "SchemaRegistry", "check_installed", "refused", "serving"]

logger = logging.getLogger(__name__)

WHAT = "the schema registry"
BODY_BYTES_MAX = 1 << 20
LIMITS = HttpLimits(connections_max=64, response_seconds=10.0, body_bytes_max=BODY_BYTES_MAX)
WORK_SECONDS_MAX = 10.0
"""Of one piece of work, such as a schema that is read, or compared with others."""
THREADS_MAX = 2
READ_BYTES_MAX = 1 << 20
"""Of one look at the topic, unless a single batch is larger: others are served between two."""
BATCH_BYTES_MAX = 16 << 20
CHANGES_IN_BATCH_MAX = 1_000
"""Of one batch: a subject may have thousands of versions to delete."""
PACKAGES = {
    "h11": "h11",
    "avro": "avro",
    "jsonschema": "jsonschema",
    "google.protobuf": "protobuf",
    "grpc_tools": "grpcio-tools",
}
"""By modules, those of the extra `schema-registry`."""


def check_installed() -> None:
    """Learn early that a package is missing; it is not imported.

    Raises:
        HttpUnavailableError: one is.
    """
    for module, package in PACKAGES.items():
        try:
            found = importlib.util.find_spec(module)
        except ImportError:
            found = None
        if found is None:
            raise HttpUnavailableError(
                f"cannot serve {WHAT} without the package {package}: pip install 'pipeline-broker[schema-registry]'"
            )


class SchemaRegistry:
    """See the rules of the file.

    Args:
        broker: whose topic it is.
        server: commits what is changed.
    """

    def __init__(self, broker: Broker, server: SocketServer) -> None:
        self._broker, self._server = broker, server
        self._state = RegistryState()
        self._topic_id: bytes | None = None
        self._position = 0
        self._reading, self._turn = trio.Lock(), trio.Lock()
        self._threads = trio.CapacityLimiter(THREADS_MAX)

    async def answer(self, request: HttpRequest) -> Answer:
        try:
            if is_change(request):
                async with self._turn:
                    return answer_of(await self._changed(request))
            await self.catch_up()
            return answer_of(await self._decide(request))
        except (RegistryError, BadRequestError) as error:
            return error_answer(error)
        except TookTooLongError:
            text = f"This took longer than {WORK_SECONDS_MAX:g} s, which is all that a schema may take"
            return error_answer(RegistryError(50002, text))
        except (OSError, LogError) as error:
            return error_answer(RegistryError(50001, f"The topic {SCHEMAS_TOPIC} cannot be read: {error}"))

    async def _decide(self, request: HttpRequest) -> Decision:
        found = find_operation(request)(self._state, request)
        return await self._worked_out(found) if isinstance(found, Generator) else found

    async def _worked_out(self, steps: Generator[Callable[[], Any], Any, Decision]) -> Decision:
        value = None
        while True:
            try:
                work = steps.send(value)
            except StopIteration as end:
                decision: Decision = end.value
                return decision
            value = await run_bounded(work, WORK_SECONDS_MAX, self._threads)

    async def _changed(self, request: HttpRequest) -> Decision:
        """Decide on what the topic says now, and record it: once it is appended, its end is waited for."""
        await self.catch_up()
        decision = await self._decide(request)
        if decision.changes:
            with trio.CancelScope(shield=True):
                for begin in range(0, len(decision.changes), CHANGES_IN_BATCH_MAX):
                    await self._record(decision.changes[begin : begin + CHANGES_IN_BATCH_MAX])
                await self.catch_up()
        return decision

    # Read

    async def catch_up(self) -> None:
        """Take over what the topic says and was not read yet; a topic that was made anew is read from its start.

        Raises:
            OSError, LogError: it cannot be read.
        """
        async with self._reading:
            topic = self._broker.topics.get(SCHEMAS_TOPIC)
            topic_id = None if topic is None else topic.topic_id
            if topic_id != self._topic_id:
                self._state, self._topic_id, self._position = RegistryState(), topic_id, 0
            log = None if topic is None else self._broker.logs.find(SCHEMAS_TOPIC, 0)
            while log is not None and self._position < log.high_watermark:
                await self._read_on(log)

    async def _read_on(self, log: PartitionLog) -> None:
        offset = max(self._position, log.log_start_offset)
        result = log.read(offset, READ_BYTES_MAX, at_least_one=True)
        parts = result.parts if result.cold is None else await trio.to_thread.run_sync(result.cold)
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        self._position = offset if len(whole) else log.high_watermark  # nothing is left of what stood here
        for header, batch in iterate_batches(whole):
            if not header.is_control:
                try:
                    for record in iterate_records(batch, header, size_max=BATCH_BYTES_MAX):
                        if record.offset >= offset:
                            self._apply(record.offset, record.key, record.value)
                except RecordError as error:
                    logger.warning("%s: a batch at offset %d is left out: %s", SCHEMAS_TOPIC, header.base_offset, error)
            self._position = header.last_offset + 1
        await trio.lowlevel.checkpoint()

    def _apply(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        try:
            change = read_change(key, value)
        except StrangeRecordError as error:
            logger.warning("%s: the record at offset %d is left out: %s", SCHEMAS_TOPIC, offset, error)
            return
        if change is not None:
            self._state.apply(change)

    def decode(self, content: bytes) -> Decoded | None:
        """What a key or value says that was written with a schema of the registry; from any thread."""
        return decode(self._state, content)

    # Write

    async def _record(self, changes: Sequence[Change]) -> None:
        now_ms = self._broker.ports.clock_ms()
        records = [NewRecord(value, key, now_ms) for key, value in (change.record() for change in changes)]
        if not self._broker.can_write:
            raise RegistryError(50001, "The broker has no room on its disk")
        log = await self._existing_log(now_ms)
        batch = build_batch(records)
        entry = log.append(read_header(batch), batch, now_ms).entry
        await self._committed([] if entry is None else [entry])

    async def _existing_log(self, now_ms: int) -> PartitionLog:
        """The log of the topic, which is made when the first schema comes."""
        broker = self._broker
        if broker.topics.get(SCHEMAS_TOPIC) is None:
            topic = NewTopic(
                name=SCHEMAS_TOPIC,
                topic_id=broker.new_id().bytes,
                partitions=1,
                configs=SCHEMAS_TOPIC_CONFIGS,
            )
            try:
                write = broker.topics.create(topic)
            except TopicError as error:  # a client makes it at this moment
                raise RegistryError(50001, f"The topic {SCHEMAS_TOPIC} cannot be made: {error}") from None
            await self._committed([broker.append_metadata(write, now_ms)], lambda: broker.topic_durable(write))
        log = broker.logs.find(SCHEMAS_TOPIC, 0)
        if log is None:
            raise RegistryError(50001, f"The topic {SCHEMAS_TOPIC} is gone")
        return log

    async def _committed(self, entries: Sequence[JournalEntry], on_durable: Callable[[], None] | None = None) -> None:
        """Return when entries that were just appended are durable; raises RegistryError where they are not."""
        error = await wait_durable(self._server, entries, on_durable)
        if error is not None:
            raise RegistryError(50001, f"The change could not be written: {error}")


class Answering(Protocol):
    """What answers requests."""

    async def answer(self, request: HttpRequest) -> Answer:
        """The answer to one."""


def refused(request: HttpRequest, host: str) -> Answer | None:
    """The refusal of a request that a stranger's page has a browser send; None where it may pass.

    Args:
        host: that the server is bound to.
    """
    reason = OwnPlace(host=host).refusal(request.headers)
    return None if reason is None else error_answer(RegistryError(403, reason))


@contextlib.asynccontextmanager
async def serving(
    registry: Answering, edges: ByteBudget, host: str, port: int, option: str | None = None
) -> AsyncIterator[str]:
    """Serve while the body runs; gives the URL.

    Args:
        registry: a SchemaRegistry, or what finds one for each request.
        edges: charged for what connections keep.
        host: an address.
        port: 0 takes a free one.
        option: where the port came from, for the error.

    Raises:
        HttpUnavailableError: the port cannot be had.
    """
    listeners = await open_listeners(WHAT, host, port, LIMITS, option)

    async def answer(request: HttpRequest) -> Answer:
        return refused(request, host) or await registry.answer(request)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http, listeners, answer, LIMITS, edges)
        yield _url(host, listeners)
        nursery.cancel_scope.cancel()


def _url(host: str, listeners: Sequence[trio.SocketListener]) -> str:
    """Where clients find it."""
    port = listeners[0].socket.getsockname()[1]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
