"""A dashboard on the loopback interface, of a broker without network and with immediate commits; and a raw client."""

import contextlib
import json
import socket

import trio

from pipeline_broker.dashboard.options import DashboardOptions
from pipeline_broker.dashboard.service import Dashboard
from pipeline_broker.node.http_callers import HttpCallers
from pipeline_broker.node.schema_registry import SchemaRegistry
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.security.http_security import HttpSecurity
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from stages.mode import PIPELINED
from stages.socket_server import SocketServer
from stages.testing.memory_storage import MemoryStorage
from tests.apis.groups.group_desk import GroupDesk
from tests.schema_registry.registry_desk import WorkerHere

SECONDS_MAX = 20


class Board:
    """A broker with a topic `t` of four partitions, and its dashboard.

    With `users`, the BasicUsers of its port, the header `authorization` is sent with each request.
    """

    def __init__(
        self, *settings, desk=None, beside=None, principal=None, is_read_only=False, users=None, has_registry=False
    ):
        self.desk = desk or GroupDesk(*settings)
        self.server = SocketServer(PIPELINED, None, MemoryStorage())  # it serves statistics and does not run
        self.server.submit = self._submit
        self.observed, self.is_alone = [], True
        self.users, self.authorization = users, None
        self.registry = SchemaRegistry(self.desk.broker, self.server, WorkerHere()) if has_registry else None
        callers = HttpCallers(self.server, self.desk.broker, "DASHBOARD", principal and f"User:{principal}")
        self.dashboard = Dashboard(
            self.server,
            self.desk.broker,
            beside,
            self.observed.append,
            lambda: self.is_alone,
            callers.caller_of,
            is_read_only=is_read_only,
            registry=self.registry,
        )
        self.port = 0
        self.link = ""

    def _submit(self, submission):
        self.desk.submit(list(submission.entries), submission.on_durable or (lambda: None))
        if submission.on_ended is not None:
            submission.on_ended(submission, None)

    def run(self, scenario, host="127.0.0.1"):
        """Run `scenario(board)` while the dashboard is served."""

        async def main():
            with trio.fail_after(SECONDS_MAX):
                async with self.dashboard.serving(
                    DashboardOptions(0, host), HttpSecurity(users=self.users)
                ) as self.link:
                    self.port = int(self.link.split(":")[2].split("/")[0])
                    return await scenario(self)

        return trio.run(main)

    def produce(self, *records, partition=0):
        batch = build_batch([NewRecord(value, key, self.desk.now_ms, headers) for key, value, headers in records])
        data = ProduceRequest.PartitionProduceData(partition, batch)
        request = ProduceRequest(None, -1, 1000, [ProduceRequest.TopicProduceData(name="t", partition_data=[data])])
        (topic,) = self.desk.ask(request, 9).responses
        assert topic.partition_responses[0].error_code == 0

    def commit(self, group, offset, partition=0):
        request = OffsetCommitRequest
        wanted = request.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topic = request.OffsetCommitRequestTopic(name="t", partitions=[wanted])
        (answered,) = self.desk.ask(request(group_id=group, topics=[topic]), 8).topics
        assert answered.partitions[0].error_code == 0

    # A client

    @property
    def authority(self):
        return f"127.0.0.1:{self.port}"

    @property
    def bearer(self):
        """The header of the user, or with the token if the dashboard needs one."""
        if self.authorization is not None:
            return (f"Authorization: {self.authorization}",)
        _, separator, token = self.link.partition("?token=")
        return (f"Authorization: Bearer {token}",) if separator else ()

    async def connect(self, method, target, headers=(), body=b"", host=None, receive_bytes=None):
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        if receive_bytes:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.authority if host is None else host}", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        await stream.send_all("\r\n".join([*lines, "", ""]).encode() + body)
        return stream

    @contextlib.asynccontextmanager
    async def watching(self, target, **more):
        """Yield the events of a stream."""
        async with await self.connect("GET", target, **more) as stream:
            yield Events(stream)

    async def exchange(self, method, target, *headers, body=b"", host=None):
        """Return the status, headers and body of a response."""
        async with await self.connect(method, target, headers, body, host) as stream:
            received = b"".join([bytes(data) async for data in stream])
        head, _, content = received.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), content

    async def get(self, target, *headers):
        """Return the JSON of an address."""
        status, _, content = await self.exchange("GET", target, *self.bearer, *headers)
        assert status == 200, content
        return json.loads(content)

    async def change(self, target, content):
        headers = (f"Origin: http://{self.authority}", "Content-Type: application/json", *self.bearer)
        answered = await self.exchange("POST", target, *headers, body=json.dumps(content).encode())
        return answered[0], json.loads(answered[2])


class Events:
    """Reads the events of a stream; each is an HTTP chunk."""

    def __init__(self, stream):
        self._stream = stream
        self._received = b""

    async def next(self):
        """Return the name and content of the next event."""
        while b"\ndata: " not in self._received or b"\n\n" not in self._received.partition(b"\ndata: ")[2]:
            data = await self._stream.receive_some(65536)
            assert data, "the stream ended"
            self._received += data
        _, _, rest = self._received.partition(b"event: ")
        name, _, rest = rest.partition(b"\ndata: ")
        content, _, self._received = rest.partition(b"\n\n")
        return name.decode(), json.loads(content)
