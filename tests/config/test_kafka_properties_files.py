"""Configuration files for Apache Kafka start this broker without changes."""

import urllib.request

import pytest
import trustme

from tests.apis.wire_client import WireClient
from tests.node.listener_clients import advertised_to, configs_of, ports_of

COMBINED = """
# one node that is broker and controller
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,\\
  SASL_SSL:SASL_SSL

num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600

log.dirs={data}
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
SECURE = """
node.id=1
listeners=CLIENTS://127.0.0.1:0,INTERNAL://127.0.0.1:0
listener.security.protocol.map=CLIENTS:SASL_SSL,INTERNAL:SSL
inter.broker.listener.name=INTERNAL
sasl.enabled.mechanisms=PLAIN
listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="admin" password="admin-secret" \\
    user_admin="admin-secret" \\
    user_bob="bob-secret";
ssl.keystore.type=PEM
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.clients.ssl.keystore.location={store}
listener.name.internal.ssl.keystore.key={key}
listener.name.internal.ssl.keystore.certificate.chain={chain}
listener.name.internal.ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/L,DEFAULT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:other
"""


def one_line(pem):
    """Lines end in a backslash there, so that Java's reader joins them."""
    return pem.bytes().decode().strip().replace("\n", "\\n\\\n")


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def secure(broker_process, authority, tmp_path):
    server = authority.issue_cert("127.0.0.1", "localhost", common_name="broker")
    store = tmp_path / "store.pem"
    store.write_bytes(server.private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    text = SECURE.format(
        authority=tmp_path / "authority.pem",
        store=store,
        key=one_line(server.private_key_pem),
        chain=one_line(server.cert_chain_pems[0]),
    )
    (tmp_path / "server.properties").write_text(text, encoding="utf-8")
    return broker_process(arguments=["--config", str(tmp_path / "server.properties")])


def client_settings(tmp_path, port, **more):
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(tmp_path / "authority.pem"),
        **more,
    }


def sasl(user, password):
    return {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}


def test_a_node_in_combined_mode_starts_with_one_warning_that_its_controller_is_not_served(broker_process, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(COMBINED.format(data=tmp_path / "kraft-combined-logs"), encoding="utf-8")
    broker = broker_process(arguments=["--config", str(file)])
    assert advertised_to(broker.host, broker.port) == [("localhost", 9092)]
    with WireClient(broker.host, broker.port) as client:
        assert ports_of(client) == {"PLAINTEXT": broker.port, "CONTROLLER": 9093}
        assert configs_of(client, "log.retention.hours")["log.retention.hours"].value == "168"
    (line,) = [line for line in broker.stderr.splitlines() if "CONTROLLER" in line]
    assert "does not serve it" in line


def test_a_listener_on_all_interfaces_is_served_with_metrics_and_one_warning_names_ineffective_properties(
    broker_process, tmp_path
):
    file = tmp_path / "server.properties"
    text = COMBINED.replace("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://:9092")
    file.write_text(text.format(data=tmp_path / "kraft-combined-logs"), encoding="utf-8")
    broker = broker_process(arguments=["--config", str(file), "--metrics", "0"])
    ignored, controller, metrics = broker.stderr.splitlines()
    assert ignored.partition(" pipeline_broker.config: ")[2] == (
        "controller.quorum.bootstrap.servers, num.recovery.threads.per.data.dir are accepted, but this broker "
        "does not act on them"
    )
    assert "CONTROLLER" in controller
    with urllib.request.urlopen(metrics.removeprefix("metrics on ")) as scraped:
        assert b"kafka_server_brokertopicmetrics_messagesin_total" in scraped.read()


@pytest.mark.clients
def test_users_of_a_jaas_line_authenticate_by_sasl_over_tls_and_only_super_users_are_authorized(secure, tmp_path):
    import confluent_kafka
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(client_settings(tmp_path, secure.port, **sasl("admin", "admin-secret")))
    (created,) = admin.create_topics([NewTopic("t", 1)], request_timeout=20).values()
    created.result()
    reports = []
    for user in ("admin", "bob"):
        producer = confluent_kafka.Producer(client_settings(tmp_path, secure.port, **sasl(user, f"{user}-secret")))
        producer.produce("t", b"v", on_delivery=lambda error, _: reports.append(error and error.name()))
        producer.flush(20)
    assert reports == [None, "TOPIC_AUTHORIZATION_FAILED"]


@pytest.mark.clients
def test_a_wrong_password_fails_authentication(secure, tmp_path):
    import confluent_kafka
    from confluent_kafka.admin import AdminClient

    errors = []
    settings = client_settings(tmp_path, secure.port, **sasl("admin", "wrong"))
    admin = AdminClient({**settings, "error_cb": lambda error: errors.append(error.name())})
    with pytest.raises(confluent_kafka.KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(0)
    assert "_AUTHENTICATION" in errors


@pytest.mark.clients
def test_mapping_rules_turn_a_certificate_into_a_principal(secure, authority, tmp_path):
    from confluent_kafka.admin import AdminClient, NewTopic

    port = int(listeners_of(tmp_path, secure.port).rpartition(":")[2])
    results = {}
    for name in ("OTHER", "stranger"):
        certificate = authority.issue_cert("client.test", common_name=name)
        settings = client_settings(
            tmp_path,
            port,
            **{
                "security.protocol": "SSL",
                "ssl.certificate.pem": certificate.cert_chain_pems[0].bytes().decode(),
                "ssl.key.pem": certificate.private_key_pem.bytes().decode(),
            },
        )
        admin = AdminClient(settings)
        (created,) = admin.create_topics([NewTopic(f"of-{name}", 1)], request_timeout=20).values()
        error = created.exception(20)
        results[name] = error and error.args[0].name()
    assert results == {"OTHER": None, "stranger": "TOPIC_AUTHORIZATION_FAILED"}


def listeners_of(tmp_path, port):
    """Return `listeners` as DescribeConfigs of the INTERNAL listener shows it."""
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

    admin = AdminClient(client_settings(tmp_path, port, **sasl("admin", "admin-secret")))
    (described,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")], request_timeout=20).values()
    return described.result()["listeners"].value
