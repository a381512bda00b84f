"""A client of raw frames: it sends what no Kafka client would, and sees a closed connection as None."""

import socket
import struct
import time
from contextlib import suppress

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from pipeline_broker.wire.registry import ApiKey, message_classes
from tests.tables import each_row

WAIT_SECONDS_MAX = 20.0
CORRELATION_ID = 7
SERVED_VERSIONS = [(key, version) for key, served in sorted(SERVED.items()) for version in served.versions]
ACKS_ALL = -1


def each_served_version(*, parts=1):
    """Have a test run with `key` and `version` of all that the broker serves."""
    names = [f"{SERVED[key].name}-{version}" for key, version in SERVED_VERSIONS]
    return each_row("key, version", SERVED_VERSIONS, names, parts=parts)


def wait_until(condition, complaint):
    """Ask until it holds."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.005)


class RawClient:
    """One connection."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def reset_when_closed(self):
        """Have the end of the socket be a reset: a linger of no time."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def send(self, data):
        # A broker that has seen enough may close while the rest is still on its way.
        with suppress(ConnectionResetError, BrokenPipeError):
            self.socket.sendall(data)

    def send_frame(self, payload):
        self.send(struct.pack(">i", len(payload)) + payload)

    def receive_exactly(self, count):
        data = bytearray()
        while len(data) < count:
            try:
                chunk = self.socket.recv(count - len(data))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                return None
            data += chunk
        return bytes(data)

    def receive_frame(self):
        """The next response without its length; None once the broker has closed."""
        head = self.receive_exactly(4)
        return None if head is None else self.receive_exactly(struct.unpack(">i", head)[0])

    def ask_raw(self, payload):
        self.send_frame(payload)
        return self.receive_frame()

    def ask(self, message, version, correlation_id=CORRELATION_ID):
        """The decoded response, or None when the connection was closed instead."""
        answer = self.ask_raw(frame_of(message, version, correlation_id))
        return None if answer is None else answer_of(message, version, answer, correlation_id)

    def is_closed(self):
        """Whether the broker closes without another byte; fails when it does neither close nor send."""
        return self.receive_exactly(1) is None


def frame_of(message, version, correlation_id=CORRELATION_ID, client_id="bad-input"):
    """Header and body."""
    header = RequestHeader(message.SCHEMA.key, version, correlation_id, client_id)
    return encode_request_header(header) + b"".join(encode(message, version))


def answer_of(message, version, frame, correlation_id=CORRELATION_ID):
    key = message.SCHEMA.key
    seen, position = read_response_header(key, version, frame)
    assert seen == correlation_id
    response, end = decode(message_classes(key)[1], version, frame, position)
    assert end == len(frame)
    return response


def request_class(key):
    return message_classes(ApiKey(key))[0]


def batch_of(*values, **options):
    return build_batch([NewRecord(value, timestamp=1_700_000_000_000) for value in values], **options)


def produce_request(*partitions, topic="bad-input", acks=ACKS_ALL, **fields):
    """One request with `(index, records)` for one topic."""
    data = [ProduceRequest.PartitionProduceData(index, records) for index, records in partitions]
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.TopicProduceData(topic, partition_data=data)], **fields)


def fetch_request(topic, partition, offset=0, bytes_max=1 << 20):
    wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    return FetchRequest(max_bytes=bytes_max, topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])])


def produce_answers(response: ProduceResponse):
    """`(index, error code)` of every partition."""
    return [(data.index, data.error_code) for topic in response.responses for data in topic.partition_responses]


def create_topic(port, name):
    """Have a topic created by asking for it, and wait until it is there."""
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
    with RawClient(port) as client:
        while True:
            response: MetadataResponse = client.ask(request, 8)
            if response.topics[0].error_code == 0:
                return
