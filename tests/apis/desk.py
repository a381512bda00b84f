"""A broker without a network: requests in, responses out, in memory.

The desk replaces the server in the simplest form. Entries are written, synced and shown at once, and work for threads
runs in place. Frames are real: each request is encoded and each response decoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pipeline_broker.apis.call import Call, Session
from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.ports import ClusterPort, Ports
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.faults.files import FaultyFiles
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.registry import ApiKey
from stages.request import Parked, Pending, Request, Send, Unfinished, Waiting, go_on
from tests.archiving import archive_all
from tests.files.memory_file_system import MemoryFileSystem

DIRECTORY = Path("/data")
LOOK_FIRST = {
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
}
"""They write now and then, and are answered without that while nothing can be written."""


class Connection:
    """A double for the connection of a request."""

    id = "c"
    index = 0
    peer = "127.0.0.1"
    listener = "PLAINTEXT"
    response_room_bytes = 2**30
    sends_ranges = False
    closed = False

    def __init__(self) -> None:
        self.session: Any = None
        self.completed: list[Any] = []
        self.throttles: list[float] = []
        self.callbacks: deque[tuple[Request, Callable[[], Any]]] = deque()

    def call_back(self, request: Request, callback: Callable[[], Any]) -> None:
        self.callbacks.append((request, callback))

    def complete(self, request: Request, result: Any) -> None:
        self.completed.append((request, result))

    def throttle(self, seconds: float) -> None:
        self.throttles.append(seconds)


class Desk:
    """One broker; `restart` returns another one on the same files."""

    fault_files: FaultyFiles | None = None
    cluster: ClusterPort | None = None
    metadata: Sequence[tuple[bytes, bytes | None]] = ()
    """Records of the controller before the start of a member."""

    def __init__(self, *settings: str, files: MemoryFileSystem | None = None) -> None:
        self.files = files or MemoryFileSystem()
        self.settings = settings
        self.client_id = "desk"
        self.now_ms = 1_000_000
        config = parse_settings([tuple(setting.split("=", 1)) for setting in settings])[0]
        self.journal = Journal.open(DIRECTORY, flush="always", segment_bytes=1 << 20, files=self.files)
        self.archive = open_local_archive(DIRECTORY, self.files)
        self.advertised = {"PLAINTEXT": ("broker.test", 9092)}
        self.configs_seen = []
        self.ip_rates_changed = lambda: None
        ports = Ports(
            clock_ms=lambda: self.now_ms,
            submit=lambda entries, on_durable: self.submit(entries, on_durable),  # noqa: PLW0108 - a test may replace it
            advertised=lambda listener: self.advertised.get(listener),  # noqa: PLW0108 - a test may replace it
            config_changed=self.configs_seen.append,
            ip_rates_changed=lambda: self.ip_rates_changed(),  # noqa: PLW0108 - a test may replace it
            fault_files=self.fault_files,
            cluster=self.cluster,
        )
        self.broker = Broker(config, LogManager(self.journal, archive=self.archive), ports=ports)
        self.broker.recover(self.now_ms, self.metadata)
        self.commit(self.broker.first_entries(self.now_ms))
        self.dispatcher = Dispatcher(self.broker)
        self.request_ns = self._looked_ns = 0
        self.broker.quotas.clock_ns = self.clock_ns
        self.connection = Connection()
        self.asked = 0
        self.requests: dict[int, Request] = {}

    def clock_ns(self) -> int:
        """The clock of quotas; each read advances it by `request_ns`."""
        self._looked_ns += self.request_ns
        return self.now_ms * 1_000_000 + self._looked_ns

    def restart(self, *settings: str) -> Desk:
        self.journal.close()
        return type(self)(*(settings or self.settings), files=self.files)

    def commit(self, entries: list[Any]) -> None:
        if entries:
            self.journal.sync(self.journal.write(entries))
            self.broker.entries_durable(entries)

    def submit(self, entries: Sequence[Any], on_durable: Callable[[], None]) -> None:
        """Commit entries that coordinators append on their own."""
        self.commit(list(entries))
        on_durable()

    def create_topic(self, name: str) -> None:
        """Create a topic like a request of a client."""
        write = self.broker.topics.create(self.broker.new_topic(name))
        result = self.broker.commit_metadata([(write, self.broker.topic_durable)], self.now_ms, Send())
        assert isinstance(result, Pending)
        self.submit(result.entries, result.on_durable or (lambda: None))

    def archive_all(self) -> None:
        """Archive the whole journal."""
        archive_all(self.journal, self.broker.logs, self.now_ms)

    def decide(self, message: Any, version: int) -> Any:
        """Return the handler's result, before anything is durable."""
        self.asked += 1
        header = RequestHeader(type(message).SCHEMA.key, version, self.asked, self.client_id)
        frame = encode_request_header(header) + b"".join(map(bytes, encode(message, version)))
        request = self.requests[self.asked] = Request(self.connection, self.asked, frame, 0)
        try:
            return self.dispatcher.handle(request)
        except Exception as error:
            result = self.dispatcher.failed(request, error)
            raise AssertionError(f"the handler raised and was answered {result}") from error

    def call(self, key: int, version: int) -> Call:
        """Return the call of a request without a body."""
        request = Request(self.connection, 1, b"", 0)
        request.api = key
        session = Session(host=self.connection.peer, listener=self.connection.listener)
        return Call(self.broker, request, session, key, version, 1, self.client_id, self.now_ms)

    def do_steps(self, result: Any) -> Any:
        """Run the remaining steps of a request."""
        while isinstance(result, Unfinished):
            first, value, problem = result.first, None, None
            if isinstance(first, Pending):
                self.commit(list(first.entries))
                if first.on_durable is not None:
                    first.on_durable()
            elif isinstance(first, Waiting):
                first.when_over(lambda: None)
            elif first is not None:
                assert first.work is not None
                try:
                    value = first.work()
                except Exception as error:  # noqa: BLE001 - re-raised in the steps
                    problem = error
            result = go_on(result.steps, value, problem)
        return result

    def finish(self, message: Any, version: int, result: Any) -> Any:
        """Make a result durable and read its response."""
        result = self.do_steps(result)
        while isinstance(result, Parked):
            if result.work is None:  # it was answered in the meantime
                (result,) = [answer for request, answer in self.connection.completed if request.sequence == self.asked]
                continue
            found = result.work()
            result = found if result.then is None else result.then(found)
        if isinstance(result, Pending):
            key = type(message).SCHEMA.key
            assert SERVED[key].writes or key in LOOK_FIRST or not result.entries, "it may write when nothing can be"
            self.commit(list(result.entries))
            if result.on_durable is not None:
                result.on_durable()
            result = result.result
        assert isinstance(result, Send), result
        frame = b"".join(map(bytes, result.parts))
        kind = type(message)
        response = getattr(import_module(kind.__module__), kind.__name__.replace("Request", "Response"))
        number, position = read_response_header(kind.SCHEMA.key, version, frame)
        answer, end = decode(response, version, frame, position)
        assert end == len(frame)
        shown = self.requests[number].answer if number in self.requests else None  # some tests make their own requests
        if shown is not None:
            assert b"".join(map(bytes, encode(shown, version))) == frame[position:], (
                "observers are shown another answer"
            )
        return answer

    def ask(self, message: Any, version: int) -> Any:
        return self.finish(message, version, self.decide(message, version))
