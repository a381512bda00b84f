"""The schema registry of a broker: its topic, its HTTP server, and its workers.

`pipeline_broker.schema_registry` decides all requests; this module runs it on Trio.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import trio

from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.log.errors import LogError
from pipeline_broker.node.errors import StartError
from pipeline_broker.node.http_callers import HttpCallers
from pipeline_broker.node.known_schemas import KnownSchemas
from pipeline_broker.node.registry_rights import Answering, GuardedRegistry
from pipeline_broker.node.worker_process import WORK_SECONDS_MAX, Workers
from pipeline_broker.records.batch import BatchHeader, NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.errors import RecordError
from pipeline_broker.schema_registry.api import answer_of, error_answer, find_operation
from pipeline_broker.schema_registry.decoding import Decoded, coded, decode_all, schema_id_of
from pipeline_broker.schema_registry.errors import RegistryError, invalid_schema
from pipeline_broker.schema_registry.formats import PRELOADED, record_names
from pipeline_broker.schema_registry.records import (
    SCHEMAS_TOPIC,
    SCHEMAS_TOPIC_CONFIGS,
    Change,
    read_changes,
)
from pipeline_broker.schema_registry.references import resolve
from pipeline_broker.schema_registry.registration import SMALL_BYTES_MAX, Decision, Steps, remembering
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.security.principal import USER
from pipeline_broker.state.topic_rules import TopicError
from pipeline_broker.state.topics import NewTopic
from pipeline_broker.web.audit import log_change
from pipeline_broker.web.hosts import parse_host_port
from pipeline_broker.web.http_server import HttpLimits, open_listeners, serve_http
from pipeline_broker.web.messages import Answer, BadRequestError, HttpRequest, StreamedAnswer
from pipeline_broker.web.strangers import SameOriginCheck
from pipeline_broker.web.turns import Steps as TurnSteps
from pipeline_broker.web.turns import in_turns
from pipeline_broker.worker.work import BusyError, TookTooLongError, Work, WorkFailedError
from stages.durable import wait_durable

if TYPE_CHECKING:
    from pipeline_broker.base.byte_budget import ByteBudget
    from pipeline_broker.base.schema_id import MessagePath
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.schema_registry.values import Schema
    from stages.socket_server import SocketServer

__all__ = [
    "BODY_BYTES_MAX",
    "LIMITS",
    "SchemaRegistry",
    "Worker",
    "check_installed",
    "read_address",
    "refused",
    "registry_of",
    "serving",
    "serving_of_broker",
]

logger = logging.getLogger(__name__)

WHAT = "the schema registry"
BODY_BYTES_MAX = 1 << 20
LIMITS = HttpLimits(connections_max=64, response_seconds=10.0, body_bytes_max=BODY_BYTES_MAX)
# Time limit of a request, including the time in which its work waits for a worker.
REQUEST_SECONDS_MAX = 60.0
# Bytes of one read of the topic, unless a single batch is larger.
READ_BYTES_MAX = 1 << 20
# Records of a batch that is decoded on the event loop; more are decoded in a worker.
SMALL_RECORDS_MAX = 64
# Attempts to record a change while other registries that write to the topic keep changing the state.
ATTEMPTS_MAX = 16
# Records of one batch: a subject may have thousands of versions to delete.
CHANGES_IN_BATCH_MAX = 200
# Modules and packages of the extra `schema-registry`.
PACKAGES = {
    "h11": "h11",
    "avro": "avro",
    "jsonschema": "jsonschema",
    "google.protobuf": "protobuf",
    "grpc_tools": "grpcio-tools",
}


def check_installed() -> None:
    """Check that the packages of the registry are installed, without importing them.

    Raises:
        UnavailableError: a package is missing.
    """
    for module, package in PACKAGES.items():
        try:
            found = importlib.util.find_spec(module)
        except ImportError:
            found = None
        if found is None:
            raise UnavailableError(
                f"cannot serve {WHAT}: the package {package} is missing."
                " Run pip install 'pipeline-broker[schema-registry]'"
            )


def read_address(place: str) -> tuple[str, int]:
    """Return the host and port of `--schema-registry`.

    Raises:
        StartError: `place` is not of the form [HOST:]PORT.
        UnavailableError: a package of the registry is missing.
    """
    check_installed()
    try:
        return parse_host_port(place)
    except ValueError as error:
        raise StartError(f"--schema-registry: {error}") from None


class Worker(Protocol):
    """An executor of work in a process of its own, such as `node.worker_process.Workers`."""

    async def run(self, work: Work, client: Hashable) -> Any: ...


class SchemaRegistry:
    """The registry, with all its state in one topic.

    It appends changes, and applies them when it reads them from the log. So other registries may write to the topic
    too. A change is recorded only if the state is still the one that it was decided on.

    Libraries handle schemas in worker processes, because untrusted schemas may make them slow or crash them.

    Args:
        server: commits the changes.
        worker: does the work on schemas.
    """

    def __init__(self, broker: Broker, server: SocketServer, worker: Worker) -> None:
        self._broker, self._server, self._worker = broker, server, worker
        self._state = RegistryState()
        self._topic_id: bytes | None = None
        self._position = 0
        self._reading, self._turn = trio.Lock(), trio.Lock()

    async def answer(self, request: HttpRequest) -> Answer | StreamedAnswer:
        try:
            with trio.fail_after(REQUEST_SECONDS_MAX):
                return answer_of(await self._answered(request))
        except (RegistryError, BadRequestError) as error:
            return error_answer(error)
        except TookTooLongError:
            text = f"Processing the schema took longer than the limit of {WORK_SECONDS_MAX:g} s"
            return error_answer(RegistryError(50002, text))
        except (BusyError, trio.TooSlowError):
            return error_answer(RegistryError(503, "The registry is busy with other schemas; try again later"))
        except (OSError, LogError) as error:
            return error_answer(RegistryError(50001, f"The topic {SCHEMAS_TOPIC} cannot be read: {error}"))
        except Exception as error:  # noqa: BLE001 - libraries raise anything on untrusted schemas
            logger.warning("%s %.200s: %s: %.500s", request.method, request.path, type(error).__name__, error)
            return error_answer(invalid_schema("Invalid schema, details: it cannot be processed"))

    async def _answered(self, request: HttpRequest) -> Decision:
        known: dict[Work, Any] = {}  # results of work, so that another attempt does not repeat it
        for _ in range(ATTEMPTS_MAX):
            await self.catch_up()
            state, revision = self._state, self._state.revision
            decision = await self._decide(request, known)
            if not decision.changes:
                return decision
            # Changes are recorded one at a time. While this one waited, others may have changed the state.
            async with self._turn:
                await self.catch_up()
                if self._state is not state or state.revision != revision:
                    again = await self._decide_again(request, known)
                    if again is None:
                        continue
                    decision = again
                # Shielded, so that all changes of a decision are recorded even if the client disconnects.
                with trio.CancelScope(shield=True):
                    for begin in range(0, len(decision.changes), CHANGES_IN_BATCH_MAX):
                        await self._record(decision.changes[begin : begin + CHANGES_IN_BATCH_MAX])
                await self.catch_up()
                name = "" if request.user is None else f"{USER}:{request.user.name}"
                log_change(request, name, request.method, request.path, None)
                return decision
        raise RegistryError(503, "Other registries keep changing the schemas; try again later")

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
        """Decide on the present state with the known results of work; return None if that is not possible."""
        state, revision = self._state, self._state.revision
        decision = await in_turns(_to_work(self._steps(request, known), None))
        is_current = self._state is state and state.revision == revision
        return decision if isinstance(decision, Decision) and is_current else None

    # Read

    @property
    def state(self) -> RegistryState:
        return self._state

    @property
    def is_current(self) -> bool:
        topic = self._broker.topics.get(SCHEMAS_TOPIC)
        log = None if topic is None else self._broker.logs.find(SCHEMAS_TOPIC, 0)
        is_same = self._topic_id == (None if topic is None else topic.topic_id)
        return is_same and (log is None or self._position >= log.high_watermark)

    async def catch_up(self) -> None:
        """Apply the unread records of the topic. If the topic was created again, start with empty state.

        Raises:
            OSError, LogError: the topic cannot be read.
        """
        async with self._reading:
            topic = self._broker.topics.get(SCHEMAS_TOPIC)
            topic_id = None if topic is None else topic.topic_id
            if topic_id != self._topic_id:
                self._state, self._topic_id, self._position = RegistryState(), topic_id, 0
            log = None if topic is None else self._broker.logs.find(SCHEMAS_TOPIC, 0)
            while log is not None and self._position < log.high_watermark:
                await self._read_some(log)

    async def _read_some(self, log: PartitionLog) -> None:
        offset = max(self._position, log.log_start_offset)
        result = log.read(offset, READ_BYTES_MAX, at_least_one=True)
        parts = result.parts if result.cold is None else await trio.to_thread.run_sync(result.cold)
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        # An empty read means that compaction or retention has removed all remaining records.
        self._position = offset if len(whole) else log.high_watermark
        for header, batch in iterate_batches(whole):
            if not header.is_control:
                await self._read_batch(header, bytes(batch), offset)
            self._position = header.last_offset + 1

    async def _read_batch(self, header: BatchHeader, batch: bytes, offset: int) -> None:
        # Small batches are decoded here, since a worker would take longer to receive them.
        is_small = len(batch) <= SMALL_BYTES_MAX and header.record_count <= SMALL_RECORDS_MAX and not header.compression
        while offset <= header.last_offset:
            work = Work(read_changes, (batch, offset))
            try:
                changes, offset = work() if is_small else await self._worker.run(work, SCHEMAS_TOPIC)
            except (RecordError, WorkFailedError, TookTooLongError, BusyError) as error:
                offset = header.base_offset
                logger.warning("%s: the batch at offset %d is ignored: %s", SCHEMAS_TOPIC, offset, _reason_of(error))
                return
            await in_turns(self._apply(changes))

    def _apply(self, changes: Sequence[tuple[int, Change | str]]) -> TurnSteps[None]:
        for offset, change in changes:
            yield None
            if isinstance(change, str):
                logger.warning("%s: the record at offset %d is ignored: %s", SCHEMAS_TOPIC, offset, change)
            elif not (yield from self._state.apply_in_steps(change)):
                logger.warning("%s: the record at offset %d is ignored: the registry is full", SCHEMAS_TOPIC, offset)

    async def record_names(self, schema: Schema) -> Mapping[MessagePath, str] | None:
        """Return the names of the records in a registered schema; None if no worker can read it, which is logged."""
        try:
            names: Mapping[MessagePath, str] = await self._worker.run(
                Work(record_names, (resolve(self._state, schema),)), "records"
            )
        except (RegistryError, WorkFailedError, TookTooLongError, BusyError) as error:
            logger.warning("records are refused: the names in their schema cannot be read: %s", _reason_of(error))
            return None
        return names

    async def decode(self, contents: Sequence[bytes]) -> Sequence[Decoded | None]:
        """Decode keys and values that were serialized with schemas of the registry to JSON.

        Returns:
            one entry for each content, None if it has no known schema. All are None if no worker can decode them, which
            is logged.

        Raises:
            OSError, LogError: the topic cannot be read.
        """
        if all(schema_id_of(content) is None for content in contents):
            return [None] * len(contents)
        await self.catch_up()
        found = coded(self._state, contents)
        try:
            decoded: Sequence[Decoded | None] = await self._worker.run(Work(decode_all, (tuple(found),)), "records")
        except (WorkFailedError, TookTooLongError, BusyError) as error:
            logger.warning("records are shown without decoding: %s", _reason_of(error))
            return [None] * len(found)
        return decoded

    # Write

    async def _record(self, changes: Sequence[Change]) -> None:
        now_ms = self._broker.ports.clock_ms()
        records = [NewRecord(value, key, now_ms) for key, value in (change.record() for change in changes)]
        if not self._broker.can_write:
            raise RegistryError(50001, "The disk of the broker is full. Free some space, then try again")
        log = await self._existing_log(now_ms)
        batch = build_batch(records)
        entry = log.append(read_header(batch), batch, now_ms).entry
        await self._committed([] if entry is None else [entry])

    async def _existing_log(self, now_ms: int) -> PartitionLog:
        broker = self._broker
        if broker.topics.get(SCHEMAS_TOPIC) is None:
            topic = NewTopic(
                name=SCHEMAS_TOPIC,
                topic_id=broker.new_id().bytes,
                assignments=[(0, [broker.leadership.broker_id])],
                configs=SCHEMAS_TOPIC_CONFIGS,
            )
            try:
                write = broker.topics.create(topic)
            except TopicError as error:  # a client is creating it at the same time
                raise RegistryError(50001, f"The topic {SCHEMAS_TOPIC} cannot be created: {error}") from None
            await self._committed([broker.append_metadata(write, now_ms)], lambda: broker.topic_durable(write))
        log = broker.logs.find(SCHEMAS_TOPIC, 0)
        if log is None:
            raise RegistryError(50001, f"The topic {SCHEMAS_TOPIC} was deleted")
        return log

    async def _committed(self, entries: Sequence[JournalEntry], on_durable: Callable[[], None] | None = None) -> None:
        error = await wait_durable(self._server, entries, on_durable)
        if error is not None:
            raise RegistryError(50001, f"The change could not be written: {error}")


def _reason_of(error: Exception) -> str:
    return str(error) or type(error).__name__


def _decided(decision: Decision) -> Steps:
    yield None
    return decision


def _to_work(steps: Steps, result: Any) -> TurnSteps[Work | Decision]:
    try:
        wanted = steps.send(result)
        while wanted is None:
            yield None
            wanted = next(steps)
    except StopIteration as end:
        decision: Decision = end.value
        return decision
    return wanted


def refused(request: HttpRequest, host: str, scheme: str = "http") -> Answer | None:
    """Return an error for a request that a browser sent for a foreign page; None if the request is allowed.

    Args:
        host: address that the server listens on.
        scheme: "http" or "https".
    """
    # Against DNS rebinding, and requests that foreign pages make browsers send.
    reason = SameOriginCheck(host=host, scheme=scheme).refusal(request.headers)
    return None if reason is None else error_answer(RegistryError(403, reason))


@contextlib.asynccontextmanager
async def serving(
    registry: Answering,
    edges: ByteBudget,
    host: str,
    port: int,
    option: str | None = None,
    security: HttpSecurity = NO_SECURITY,
) -> AsyncIterator[str]:
    """Serve the registry while the body runs. The context is its URL.

    Args:
        registry: a SchemaRegistry, or an object that finds one for each request.
        edges: memory budget, charged for connections.
        port: port to listen on; 0 takes a free one.
        option: option that set the port, for the error.
        security: TLS and users.

    Raises:
        UnavailableError: h11 is missing, or the port is not available.
    """
    listeners = await open_listeners(WHAT, host, port, LIMITS, option)

    async def answer(request: HttpRequest) -> Answer | StreamedAnswer:
        return refused(request, host, security.scheme) or await registry.answer(request)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http, listeners, answer, LIMITS, edges, security)
        yield _url(security.scheme, host, listeners)
        nursery.cancel_scope.cancel()


def registry_of(broker: Broker, server: SocketServer, worker: Worker) -> tuple[SchemaRegistry, KnownSchemas]:
    """Return the registry of a broker, and the schemas that the broker then validates records with."""
    registry = SchemaRegistry(broker, server, worker)
    schemas = KnownSchemas(registry)
    # The other brokers of a machine could not look ids up.
    broker.schemas = schemas if broker.members is None else None
    return registry, schemas


@contextlib.asynccontextmanager
async def serving_of_broker(
    broker: Broker, server: SocketServer, host: str, port: int, option: str, security: HttpSecurity
) -> AsyncIterator[tuple[SchemaRegistry, str]]:
    """Serve the registry of a broker, with workers of its own, while the body runs. The context includes its URL.

    See `serving` for the other arguments and the errors.
    """
    workers = Workers(PRELOADED)
    registry, schemas = registry_of(broker, server, workers)
    guarded = GuardedRegistry(registry, HttpCallers(server, broker, "SCHEMA_REGISTRY"))
    async with (
        workers.serving(),
        serving(guarded, broker.edges, host, port, option, security) as url,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(schemas.run)
        yield registry, url
        nursery.cancel_scope.cancel()


def _url(scheme: str, host: str, listeners: Sequence[trio.SocketListener]) -> str:
    port = listeners[0].socket.getsockname()[1]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
