"""Shapes of server.properties in use: each starts a broker, or is refused because it needs a missing feature.

Each entry keeps one fact of public files, in lines of our own.
"""

import pytest

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.settings import load_settings
from pipeline_broker.config.unknown_names import misspelled

ZOOKEEPER = "zookeeper.connect=zk1:2181,zk2:2181/kafka\nzookeeper.connection.timeout.ms=18000\n"
QUORUM = "process.roles=broker,controller\nnode.id=3\ncontroller.quorum.voters=3@me:9093\n"
CONTROLLER = QUORUM + "controller.listener.names=CONTROLLER\n"
BOTH = "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
SHAPES = {
    "the first brokers": "broker.id=1\nport=9092\nhost.name=me\nlog.cleanup.interval.mins=1\nnum.io.threads=2\n",
    "metrics written to a file": "kafka.csv.metrics.dir=/m\nkafka.metrics.polling.interval.secs=5\n",
    "retention switched off": "log.retention.hours=-1\nlog.retention.bytes=-1\n" + ZOOKEEPER,
    "a value after a blank": "security.inter.broker.protocol= SASL_PLAINTEXT\n" + ZOOKEEPER,
    "a line that begins with a blank": " group.initial.rebalance.delay.ms=0\n" + ZOOKEEPER,
    "an id that ZooKeeper gives": "broker.id=-1\nbroker.id.generation.enable=true\nreserved.broker.max.id=2000\n",
    "numbers with a comment": "broker.id=7 # ours\nnum.io.threads=4\t# cores\nauto.create.topics.enable=false # no\n",
    "a choice with a comment": "ssl.client.auth=required  # or requested\ncompression.type=lz4 # fast\n",
    "listeners with a comment": "listeners=PLAINTEXT://127.0.0.1:9092    # changed\n",
    "a listener's choice with a comment": "listener.name.plaintext.ssl.client.auth=none # no\n",
    "the authorizer of ZooKeeper": ZOOKEEPER + "authorizer.class.name=kafka.security.auth.SimpleAclAuthorizer\n",
    "addresses before listeners": "advertised.host.name=me\nadvertised.port=9094\nport=9092\n" + ZOOKEEPER,
    "an advertised listener without a host": "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://:9092\n",
    "images of wurstmeister": "broker.id=-1\nadvertised.port=9094\nversion=2.13\nhome=/opt/kafka\n",
    "Confluent's metrics": "confluent.metrics.reporter.bootstrap.servers=me:9092\n"
    "confluent.support.metrics.enable=false\n",
    "Confluent's directory": "ldap.group.member.attribute.pattern=cn=(.*),ou=users\njmx.port=10000\n",
    "Ambari": "kafka.timeline.metrics.truststore.password=p\nkerberos.auth.enable=false\n"
    "ssl.keystore.location=\nport=6667\n"
    "external.kafka.metrics.exclude.prefix=kafka.network\nproducer.metrics.enable=false\nreplica.lag.max.messages=4000\n",
    "Kerberos for a listener that does not exist": "sasl.enabled.mechanisms=GSSAPI\nsasl.kerberos.service.name=kafka\n",
    "keys for a listener that does not exist": "ssl.keystore.type=JKS\nssl.keystore.location=/none.jks\n",
    "JAAS of a listener that does not exist": "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=x required;\n",
    "a node in combined mode": CONTROLLER + BOTH + "inter.broker.listener.name=PLAINTEXT\n",
    "a controller that is advertised": CONTROLLER + BOTH + "advertised.listeners=PLAINTEXT://me:1,CONTROLLER://me:2\n",
    "a broker of a quorum": CONTROLLER.replace(",controller", "") + "broker.rack=west\ndefault.replication.factor=3\n",
    "a property twice": "controller.quorum.election.backoff.max.ms=1\ncontroller.quorum.election.backoff.max.ms=2\n",
    "Strimzi": "listeners=PLAIN-9092://0.0.0.0:9092\nadvertised.listeners=PLAIN-9092://me:9092\n"
    "listener.security.protocol.map=CONTROLPLANE-9090:SSL,PLAIN-9092:PLAINTEXT\nsasl.enabled.mechanisms=\n"
    "listener.name.controlplane-9090.ssl.keystore.type=PKCS12\ncontroller.listener.names=CONTROLPLANE-9090\n"
    "prometheus.metrics.reporter.listener=http://:9404\nclient.quota.callback.static.produce=1000\n",
    "koperator": "super.users=\nsecurity.inter.broker.protocol=PLAINTEXT\n"
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT\n"
    "cruise.control.metrics.reporter.kubernetes.mode=true\n" + ZOOKEEPER,
    "a plane for the controller": "listeners=IN://:9092,CTL://:9093\n"
    "listener.security.protocol.map=IN:PLAINTEXT,CTL:PLAINTEXT\n"
    "control.plane.listener.name=CTL\ninter.broker.listener.name=IN\n",
    "tiered storage": "remote.log.storage.system.enable=true\nremote.log.storage.manager.class.name=io.x.Manager\n"
    "rsm.config.storage.s3.bucket.name=b\nrlmm.config.remote.log.metadata.topic.replication.factor=1\n",
    "clients' properties": "max.request.size=1048576\nfetch.min.bytes=1\nretention.ms=1000\n",
    "names and values with blanks": "broker.id = 0\nlisteners = A://h:1, B://h:2\nnum.partitions = 1\t\n"
    "listener.security.protocol.map = A:PLAINTEXT, B:PLAINTEXT\nlog.dirs=/a, /b\n",
    "lower-case listeners": "listeners=plaintext://127.0.0.1:9092\nadvertised.listeners=PLAINTEXT://MY_HOST:9092\n",
    "a shell's line": "export KAFKA_OPTS=-Djava.security.auth.login.config=/etc/kafka/jaas.conf\nbroker.id=0\n",
}


def load(tmp_path, data):
    file = tmp_path / "server.properties"
    file.write_bytes(data)
    return load_settings([file], [])


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_a_file_of_a_public_shape_is_accepted(tmp_path, text):
    config, warnings = load(tmp_path, text.encode())
    assert config.listener_configs
    assert all("\n" not in warning for warning in warnings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("authorizer.class.name=org.apache.ranger.X\n", "'org.apache.ranger.X' is not supported"),
        ("broker.id=${STRIMZI_BROKER_ID}\n", "broker.id: '${STRIMZI_BROKER_ID}' is not allowed: not a number"),
        ("broker.rack=${secrets:a:b}\n", "${secrets:a:b} cannot be resolved"),
        ("log.retention.ms=\n", "log.retention.ms: '' is not allowed"),
        ("broker.id=-2\n", "broker.id: '-2' is not allowed"),
        (QUORUM + BOTH, "set controller.listener.names=CONTROLLER"),
        (
            CONTROLLER.replace("broker,", "") + "listeners=CONTROLLER://:9093\n",
            "every listener is the controller's",
        ),
        (CONTROLLER + BOTH + "inter.broker.listener.name=CONTROLLER\n", "unknown listener 'CONTROLLER'"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9092\n", "clients cannot connect to this address"),
    ],
)
def test_a_file_that_is_invalid_or_names_an_unsupported_class_is_refused_in_one_line(tmp_path, text, said):
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text.encode())
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_trailing_comment_is_removed_only_from_values_without_blanks_and_one_warning_names_them(tmp_path):
    text = (
        "num.io.threads=4 # cores\nlisteners=PLAINTEXT://h:1 # mine\nbroker.rack=west # 1\nsuper.users=User:a # b\n"
        "ssl.key.password=p # q\nnum.partitions=2#3\n"
    )
    with pytest.raises(ConfigError, match=r"num\.partitions: '2#3' is not allowed"):
        load(tmp_path, text.encode())
    config, warnings = load(tmp_path, text.replace("#3", "").encode())
    assert (config.num_io_threads, config.listeners, config.super_users) == (4, ("PLAINTEXT://h:1",), ("User:a # b",))
    assert config.properties["broker.rack"] == "west # 1"
    assert config.properties["ssl.key.password"] == "p # q"
    (line,) = [warning for warning in warnings if "the comment after" in warning]
    assert line.startswith("warning: num.io.threads, listeners: ")


def test_a_generated_id_of_zookeeper_becomes_the_default(tmp_path):
    config, _ = load(tmp_path, b"broker.id=-1\n")
    assert config.node_id == 1
    assert config.properties["broker.id"] == "1"


def test_an_advertised_listener_without_a_host_advertises_an_address(tmp_path):
    config, _ = load(tmp_path, b"listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://:9999\n")
    (listener,) = config.listener_configs
    assert (listener.advertised_host, listener.advertised_port) == ("127.0.0.1", 9999)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "gbk"])
def test_comments_may_have_any_encoding(tmp_path, encoding):
    text = "broker.id=5\n# \u00e4\u00fc\n" if encoding == "latin-1" else "broker.id=5\n# \u4e2d\u6587\n"
    assert load(tmp_path, text.encode(encoding))[0].node_id == 5


def test_a_consumer_setting_is_not_a_misspelled_broker_property():
    assert misspelled("fetch.min.bytes", ["fetch.max.bytes"]) is None
    assert misspelled("fetch.mix.bytes", ["fetch.max.bytes"]) == "fetch.max.bytes"
