"""A broker refuses records without a registered schema, as producers see it."""

import http.client
import json
import re

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = pytest.mark.clients
SECONDS_MAX = 30
VALIDATION = {"confluent.value.schema.validation": "true"}


def register(broker, subject):
    (authority,) = re.findall(r"^schema registry on http://(\S+)$", broker.stderr, re.MULTILINE)
    connection = http.client.HTTPConnection(authority, timeout=SECONDS_MAX)
    connection.request("POST", f"/subjects/{subject}/versions", json.dumps({"schema": '"string"'}))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer["id"]


def create(broker, name):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (created,) = admin.create_topics([NewTopic(name, 1, 1, config=VALIDATION)]).values()
    created.result(SECONDS_MAX)


def errors_of(broker, *values, **options):
    found = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, **options})
    for value in values:
        producer.produce("t", value, on_delivery=lambda error, _: found.append(error and error.code()))
    assert producer.flush(SECONDS_MAX) == 0
    return found


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_a_record_without_a_registered_schema_fails_at_its_producer(broker_process, mode):
    broker = broker_process(mode=mode, arguments=["--schema-registry", "0"])
    create(broker, "t")
    known = b"\0" + register(broker, "t-value").to_bytes(4) + b"\2a"
    unknown = b"\0\0\0\0\x63x"
    for codec in ("none", "gzip", "zstd"):
        for options in ({"compression.type": codec}, {"compression.type": codec, "enable.idempotence": True}):
            assert errors_of(broker, known, **options) == [None]
            assert errors_of(broker, unknown, **options) == [KafkaError.INVALID_RECORD]


def test_after_a_restart_the_schemas_are_known_to_the_first_record(broker_process):
    broker = broker_process(arguments=["--schema-registry", "0"])
    create(broker, "t")
    known = b"\0" + register(broker, "t-value").to_bytes(4) + b"\2a"
    broker.stop()
    broker = broker_process(arguments=["--schema-registry", "0"])
    assert errors_of(broker, known) == [None]


def test_in_a_cluster_the_setting_is_refused(broker_process):
    broker = broker_process(arguments=["--brokers", "2", "--schema-registry", "0"])
    with pytest.raises(KafkaException, match="Start it with --schema-registry, and without --brokers"):
        create(broker, "t")
