"""`consume --schema-registry` prints what confluent-kafka's serializers wrote as JSON, and anything else unchanged."""

import http.server
import json
import ssl
import threading

import pytest
import trustme
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pipeline_broker import EmbeddedBroker
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.remote_schemas import RemoteSchemas
from pipeline_broker.records.record import Record
from tests.clients.test_schema_registry_clients import CUSTOMER, ORDER, made_classes
from tests.commands.cluster.conftest import CommandLine
from tests.free_ports import free_port

MONEY = '{"type":"record","name":"Money","namespace":"shop","fields":[{"name":"cents","type":"long"}]}'
BILL = '{"type":"record","name":"Bill","namespace":"shop","fields":[{"name":"total","type":"shop.Money"}]}'


@pytest.fixture(scope="module")
def served():
    with EmbeddedBroker(schema_registry=True) as started:
        yield started


@pytest.fixture
def consumed(served, name):
    """Produce records (key, value) and return the lines that the command prints, with its errors."""

    def consume(records, *options, url=None, code=0):
        producer = Producer({"bootstrap.servers": served.bootstrap_servers})
        for key, value in records:
            producer.produce(name, value, key, partition=0)
        producer.flush()
        call = CommandLine(served.bootstrap_servers)
        return call("consume", name, "--schema-registry", url or served.schema_registry_url, *options, code=code)

    return consume


@pytest.fixture
def serialized(served, name):
    """Serialize a value with a serializer class and its arguments."""
    with SchemaRegistryClient({"url": served.schema_registry_url}) as registry:
        yield lambda kind, content, *arguments: kind(registry, *arguments)(
            content, SerializationContext(name, MessageField.VALUE)
        )


def test_avro_is_printed_as_json_beside_plain_text(consumed, serialized):
    value = serialized(AvroSerializer, {"id": "a-1", "count": 3}, ORDER)
    found = consumed([("plain", value), (None, "no schema")], "-K", ":", "--null", "-")
    assert found.lines == ['plain:{"id": "a-1", "count": 3}', "-:no schema"]


def test_a_json_line_has_the_value_as_an_object(consumed, serialized):
    value = serialized(lambda registry, text: JSONSerializer(text, registry), {"name": "Ada", "age": 36}, CUSTOMER)
    found = consumed([("Ada", value)], "--json").json
    assert (found["key"], found["value"]) == ("Ada", {"name": "Ada", "age": 36})


def test_protobuf_with_imports_is_printed_as_json(consumed, serialized):
    money_class, bill_class = made_classes()
    bill = bill_class(total=money_class(cents=5))
    bill.at.seconds = 7
    value = serialized(lambda registry: ProtobufSerializer(bill_class, registry), bill)
    assert json.loads(consumed([(None, value)]).out) == {"total": {"cents": "5"}, "at": "1970-01-01T00:00:07Z"}


def test_a_schema_with_references_is_resolved(served, consumed, name):
    with SchemaRegistryClient({"url": served.schema_registry_url}) as registry:
        registry.register_schema(f"{name}-money/with slash", Schema(MONEY, "AVRO"))
        references = [SchemaReference("shop.Money", f"{name}-money/with slash", 1)]
        schema_id = registry.register_schema(f"{name}-value", Schema(BILL, "AVRO", references))
    value = b"\0" + schema_id.to_bytes(4) + b"\x0a"
    assert consumed([(None, value)]).out == '{"total": {"cents": 5}}\n'


@pytest.mark.parametrize("content", [b"\0\x7f\0\0\0x", b"\0\0\0\0", b"\0"])
def test_contents_without_a_known_schema_are_unchanged(consumed, content):
    assert consumed([(None, content)]).raw == content + b"\n"


def test_a_content_that_does_not_fit_its_schema_is_unchanged(consumed, serialized):
    value = serialized(AvroSerializer, {"id": "a-1", "count": 3}, ORDER)[:-3]
    assert consumed([(None, value)]).raw == value + b"\n"


@pytest.mark.parametrize("address", ["127.0.0.1:8081", "ftp://127.0.0.1", "http://", "registry"])
def test_an_address_that_is_not_one_of_http_is_refused(consumed, address):
    found = consumed([], url=address, code=2)
    assert f"--schema-registry: {address!r} is not an address such as http://127.0.0.1:8081" in found.err


def test_a_registry_that_cannot_be_reached_is_one_line(consumed):
    port = free_port()
    found = consumed([(None, b"\0\0\0\0\1x")], url=f"http://127.0.0.1:{port}", code=1)
    assert f"cannot read the schema at http://127.0.0.1:{port}/schemas/ids/1: Connection refused. Check" in found.err


def test_a_host_that_cannot_be_encoded_is_one_line():
    with pytest.raises(ClientError, match=r"cannot read the schema at http://a\.\.b/schemas/ids/1: "):
        RemoteSchemas("http://a..b").decoded(record(b"\0\0\0\0\1x"))


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers["Authorization"]))
        status, body = self.server.answers
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def registry_of():
    """Start a registry that gives one answer."""
    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()

        def answering(status, body):
            server.answers = status, body
            return server

        yield answering
        server.shutdown()
        thread.join()


def record(value):
    return Record(0, 0, None, value, (), -1)


def test_each_schema_is_read_once_with_the_user_of_the_address(registry_of):
    server = registry_of(200, b'{"schema": "\\"string\\""}')
    schemas = RemoteSchemas(f"http://ada%40shop:s%3Acret@127.0.0.1:{server.server_port}/registry/")
    for text in ("one", "two"):
        content = b"\0\0\0\0\7" + bytes([2 * len(text)]) + text.encode()
        assert schemas.decoded(record(content)).value == f'"{text}"'.encode()
    assert server.asked == [("/registry/schemas/ids/7", "Basic YWRhQHNob3A6czpjcmV0")]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, b"{}", "HTTP 401 Unauthorized. Write user and password into --schema-registry"),
        (500, b"broken", "HTTP 500 Internal Server Error. Check the address"),
        (200, b"[]", "the answer is not a JSON object"),
        (200, b"not JSON", "the answer is not a JSON object"),
    ],
)
def test_an_answer_that_is_not_a_schema_names_its_reason(registry_of, status, body, reason):
    server = registry_of(status, body)
    schemas = RemoteSchemas(f"http://127.0.0.1:{server.server_port}")
    with pytest.raises(ClientError) as failed:
        schemas.decoded(record(b"\0\0\0\0\7x"))
    assert f"/schemas/ids/7: {reason}" in str(failed.value)


def test_a_registry_with_an_unknown_authority_needs_the_file_of_it(registry_of, tmp_path, monkeypatch):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    server = registry_of(200, b'{"schema": "\\"string\\""}')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    schemas = RemoteSchemas(f"https://127.0.0.1:{server.server_port}")
    with pytest.raises(ClientError, match="Name the file of its authority in SSL_CERT_FILE"):
        schemas.decoded(record(b"\0\0\0\0\7\2a"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    assert schemas.decoded(record(b"\0\0\0\0\7\2a")).value == b'"a"'


@pytest.mark.parametrize("schema", ["{}", '{"schema": "not a schema"}', '{"schema": "\\"x\\"", "schemaType": "OTHER"}'])
def test_an_invalid_schema_leaves_records_unchanged(registry_of, schema):
    server = registry_of(200, schema.encode())
    schemas = RemoteSchemas(f"http://127.0.0.1:{server.server_port}")
    assert schemas.decoded(record(b"\0\0\0\0\7x")).value == b"\0\0\0\0\7x"
