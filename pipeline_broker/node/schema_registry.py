"""The schema registry of a broker: its topic in the log, and its port.

On Trio; `pipeline_broker.schema_registry` decides. The registry has no state but the topic: it appends changes in the
name of the broker, and applies them when it reads them from the log. So another registry may write to the topic too.
Whatever a library does with a schema is done in a worker process. Changes are recorded one at a time, and only if the
state is still the one that they were decided on.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import trio

from pipeline_broker.log.errors import LogError
from pipeline_broker.node.worker_process import WORK_SECONDS_MAX
from pipeline_broker.records.batch import BatchHeader, NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.errors import RecordError
from pipeline_broker.schema_registry.api import answer_of, error_answer, find_operation
from pipeline_broker.schema_registry.decoding import Decoded, coded, decode_all, has_schema
from pipeline_broker.schema_registry.errors import RegistryError, invalid_schema
from pipeline_broker.schema_registry.records import (
    SCHEMAS_TOPIC,
    SCHEMAS_TOPIC_CONFIGS,
    Change,
    read_changes,
)
from pipeline_broker.schema_registry.registration import SMALL_BYTES_MAX, Decision, Steps, remembering
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.state.topic_rules import TopicError
from pipeline_broker.state.topics import NewTopic
from pipeline_broker.web.http_server import HttpLimits, HttpUnavailableError, open_listeners, serve_http
from pipeline_broker.web.messages import Answer, BadRequestError, HttpRequest, StreamedAnswer
from pipeline_broker.web.strangers import SameOriginCheck
from pipeline_broker.web.turns import Steps as TurnSteps
from pipeline_broker.web.turns import in_turns
from pipeline_broker.worker.work import BusyError, TookTooLongError, Work, WorkFailedError
from stages.durable import wait_durable

if TYPE_CHECKING:
    from pipeline_broker.base.byte_budget import ByteBudget
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from stages.socket_server import SocketServer

__all__ = ["BODY_BYTES_MAX", "LIMITS", "SchemaRegistry", "Worker", "check_installed", "refused", "serving"]

logger = logging.getLogger(__name__)

WHAT = "the schema registry"
BODY_BYTES_MAX = 1 << 20
LIMITS = HttpLimits(connections_max=64, response_seconds=10.0, body_bytes_max=BODY_BYTES_MAX)
REQUEST_SECONDS_MAX = 60.0
"""Of one request, the time included in which its work waits for that of others."""
READ_BYTES_MAX = 1 << 20
"""Of one read of the topic, unless a single batch is larger."""
SMALL_RECORDS_MAX = 64
"""Of a batch that is read on the event loop."""
ATTEMPTS_MAX = 16
"""To record a change, while other registries that write to the topic change the state again and again."""
CHANGES_IN_BATCH_MAX = 200
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


class Worker(Protocol):
    """Does work in a process of its own, as `node.worker_process.Workers`."""

    async def run(self, work: Work, client: Hashable) -> Any:
        """Return the result of the work."""


class SchemaRegistry:
    """See the module.

    Args:
        broker: has the topic.
        server: commits the changes.
        worker: does the work of schemas.
    """

    def __init__(self, broker: Broker, server: SocketServer, worker: Worker) -> None:
        self._broker, self._server, self._worker = broker, server, worker
        self._state = RegistryState()
        self._topic_id: bytes | None = None
        self._position = 0
        self._reading, self._turn = trio.Lock(), trio.Lock()

    async def answer(self, request: HttpRequest) -> Answer | StreamedAnswer:
        """Answer a request."""
        try:
            with trio.fail_after(REQUEST_SECONDS_MAX):
                return answer_of(await self._answered(request))
        except (RegistryError, BadRequestError) as error:
            return error_answer(error)
        except TookTooLongError:
            text = f"This took longer than {WORK_SECONDS_MAX:g} s, which is all that a schema may take"
            return error_answer(RegistryError(50002, text))
        except (BusyError, trio.TooSlowError):
            return error_answer(RegistryError(503, "The registry is busy with other schemas; try again later"))
        except (OSError, LogError) as error:
            return error_answer(RegistryError(50001, f"The topic {SCHEMAS_TOPIC} cannot be read: {error}"))
        except Exception as error:  # noqa: BLE001 - of a library, at whatever a stranger has sent
            logger.warning("%s %.200s: %s: %.500s", request.method, request.path, type(error).__name__, error)
            return error_answer(invalid_schema("Invalid schema, details: it cannot be processed"))

    async def _answered(self, request: HttpRequest) -> Decision:
        """Decide, and record the changes if the state is still the one that was decided on."""
        known: dict[Work, Any] = {}
        for _ in range(ATTEMPTS_MAX):
            await self.catch_up()
            state, revision = self._state, self._state.revision
            decision = await self._decide(request, known)
            if not decision.changes:
                return decision
            async with self._turn:
                await self.catch_up()
                if self._state is not state or state.revision != revision:
                    again = await self._decide_again(request, known)
                    if again is None:
                        continue
                    decision = again
                with trio.CancelScope(shield=True):  # all changes of a decision, also if the client leaves
                    for begin in range(0, len(decision.changes), CHANGES_IN_BATCH_MAX):
                        await self._record(decision.changes[begin : begin + CHANGES_IN_BATCH_MAX])
                await self.catch_up()
                return decision
        raise RegistryError(503, "Others change the registry again and again; try again later")

    def _steps(self, request: HttpRequest, known: dict[Work, Any]) -> Steps:
        found = find_operation(request)(self._state, request)
        return remembering(found, known) if isinstance(found, Generator) else _decided(found)

    async def _decide(self, request: HttpRequest, known: dict[Work, Any]) -> Decision:
        steps, result = self._steps(request, known), None
        while True:
            wanted = await in_turns(_to_work(steps, result))
            if isinstance(wanted, Decision):
                return wanted
            result = await self._worker.run(wanted, request.segments[:2])

    async def _decide_again(self, request: HttpRequest, known: dict[Work, Any]) -> Decision | None:
        """Decide on the present state without further work; None where that is not possible."""
        state, revision = self._state, self._state.revision
        decision = await in_turns(_to_work(self._steps(request, known), None))
        is_current = self._state is state and state.revision == revision
        return decision if isinstance(decision, Decision) and is_current else None

    # Read

    async def catch_up(self) -> None:
        """Apply the records of the topic that were not read yet; a topic that was made anew is read from its start.

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
                await self._read_batch(header, bytes(batch), offset)
            self._position = header.last_offset + 1

    async def _read_batch(self, header: BatchHeader, batch: bytes, offset: int) -> None:
        is_small = len(batch) <= SMALL_BYTES_MAX and header.record_count <= SMALL_RECORDS_MAX and not header.compression
        while offset <= header.last_offset:
            work = Work(read_changes, (batch, offset))
            try:
                changes, offset = work() if is_small else await self._worker.run(work, SCHEMAS_TOPIC)
            except (RecordError, WorkFailedError, TookTooLongError, BusyError) as error:
                reason = str(error) or type(error).__name__
                logger.warning("%s: a batch at offset %d is left out: %s", SCHEMAS_TOPIC, header.base_offset, reason)
                return
            await in_turns(self._apply(changes))

    def _apply(self, changes: Sequence[tuple[int, Change | str]]) -> TurnSteps[None]:
        for offset, change in changes:
            yield None
            if isinstance(change, str):
                logger.warning("%s: the record at offset %d is left out: %s", SCHEMAS_TOPIC, offset, change)
            elif not (yield from self._state.apply_in_steps(change)):
                logger.warning("%s: the record at offset %d is left out: the registry is full", SCHEMAS_TOPIC, offset)

    async def decode(self, contents: Sequence[bytes]) -> Sequence[Decoded | None]:
        """Return keys and values that a serializer wrote with schemas of the registry, as JSON; None for others."""
        if not any(map(has_schema, contents)):
            return [None] * len(contents)
        await self.catch_up()
        found = coded(self._state, contents)
        try:
            decoded: Sequence[Decoded | None] = await self._worker.run(Work(decode_all, (tuple(found),)), "records")
        except (WorkFailedError, TookTooLongError, BusyError) as error:
            logger.warning("records are shown as they are: %s", str(error) or type(error).__name__)
            return [None] * len(found)
        return decoded

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


def _decided(decision: Decision) -> Steps:
    yield None
    return decision


def _to_work(steps: Steps, result: Any) -> TurnSteps[Work | Decision]:
    """Run an operation up to its next work, or to its end."""
    try:
        wanted = steps.send(result)
        while wanted is None:
            yield None
            wanted = next(steps)
    except StopIteration as end:
        decision: Decision = end.value
        return decision
    return wanted


class Answering(Protocol):
    """Answers requests."""

    async def answer(self, request: HttpRequest) -> Answer | StreamedAnswer:
        """Answer a request."""


def refused(request: HttpRequest, host: str) -> Answer | None:
    """The refusal of a request that a stranger's page has a browser send; None where it may pass.

    Args:
        host: that the server is bound to.
    """
    reason = SameOriginCheck(host=host).refusal(request.headers)
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

    async def answer(request: HttpRequest) -> Answer | StreamedAnswer:
        return refused(request, host) or await registry.answer(request)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http, listeners, answer, LIMITS, edges)
        yield _url(host, listeners)
        nursery.cancel_scope.cancel()


def _url(host: str, listeners: Sequence[trio.SocketListener]) -> str:
    """Where clients find it."""
    port = listeners[0].socket.getsockname()[1]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
