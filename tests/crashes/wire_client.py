"""A Kafka client of our own: one blocking connection, requests sent and answers received one by one.

Rules of this file: it knows the wire format and nothing of what the answers should be; an end of the connection,
whatever ended it, is a ConnectionError, and silence is a TimeoutError.
"""

import collections
import socket
import struct
import sys

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest

ANSWER_SECONDS_MAX = 15.0
LENGTH = struct.Struct(">i")
CLIENT_ID = "faults"


def response_of(request_type):
    """The class of the answer, which is declared beside the request."""
    return getattr(sys.modules[request_type.__module__], request_type.__name__.replace("Request", "Response"))


class WireClient:
    """One connection; `in_flight` counts requests that are not answered."""

    def __init__(self, address, seconds_max=ANSWER_SECONDS_MAX):
        self._socket = socket.create_connection(address, timeout=seconds_max)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._expected = collections.deque()
        self._next_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._socket.close()

    def fileno(self):
        """For select."""
        return self._socket.fileno()

    @property
    def in_flight(self):
        return len(self._expected)

    def send(self, request, version=None):
        """Send without waiting for the answer."""
        key = request.SCHEMA.key
        version = SERVED[key].versions[-1] if version is None else version
        header = encode_request_header(RequestHeader(key, version, self._next_id, CLIENT_ID))
        body = b"".join((header, *encode(request, version)))
        self._expected.append((key, version, self._next_id, response_of(type(request))))
        self._next_id += 1
        self._socket.sendall(LENGTH.pack(len(body)) + body)

    def receive(self):
        """The answer to the oldest request."""
        key, version, correlation_id, response_type = self._expected[0]
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        frame = self._read(length)
        self._expected.popleft()
        answered, position = read_response_header(key, version, frame)
        assert answered == correlation_id, f"the answer to {correlation_id} was due, that to {answered} came"
        return decode(response_type, version, frame, position)[0]

    def ask(self, request, version=None):
        """Send, and wait for the answer."""
        assert not self._expected, "answers come in order"
        self.send(request, version)
        return self.receive()

    def _read(self, size):
        while len(self._received) < size:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            self._received += data
        data = bytes(self._received[:size])
        del self._received[:size]
        return data


def describe_topics(client, names=None, *, create=False):
    """Name -> the topic as Metadata tells it (an error code is in it)."""
    topics = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    answer = client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=create))
    return {topic.name: topic for topic in answer.topics}


def fetch_request(topic_id, partition, offset, *, wait_ms=0):
    """For one partition, from an offset on."""
    wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(topic_id=topic_id, partitions=[wanted])
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[topic])
