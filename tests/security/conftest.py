"""One broker per mode with a listener of each kind, and the credentials for its clients."""

from contextlib import contextmanager

import attrs
import pytest
import trustme
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.conftest import BrokerProcess, start_broker
from tests.security.tokens import jwk, rsa_key, write_keys

MODES = ("classic", "pipelined")
SECONDS_MAX = 20
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
# Of every user. It contains characters that a JAAS line must quote or escape.
PASSWORD = 'pass "quoted" wörd'
REAUTHENTICATION_MS = 2000

PROPERTIES = r"""
listeners=PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,SECURE://127.0.0.1:0,CERTIFICATE://127.0.0.1:0,SHORT://127.0.0.1:0
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SECURE:SASL_SSL,CERTIFICATE:SSL,SHORT:SASL_PLAINTEXT
group.initial.rebalance.delay.ms=0
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
sasl.oauthbearer.jwks.endpoint.url=file://{directory}/jwks.json
sasl.oauthbearer.expected.audience=broker
sasl.oauthbearer.allow.unverified.issuer=true
ssl.keystore.type=PEM
ssl.keystore.location={directory}/store.pem
ssl.truststore.type=PEM
ssl.truststore.location={directory}/authority.pem
listener.name.sasl.plain.sasl.jaas.config={plain_module} required username="broker" password="x" \
  user_plain-user="pass \\"quoted\\" wörd";
listener.name.secure.plain.sasl.jaas.config={plain_module} required user_plain-user="pass \\"quoted\\" wörd";
listener.name.short.sasl.enabled.mechanisms=PLAIN,OAUTHBEARER
listener.name.short.plain.sasl.jaas.config={plain_module} required user_plain-user="pass \\"quoted\\" wörd";
listener.name.short.connections.max.reauth.ms={reauthentication_ms}
listener.name.certificate.ssl.client.auth=required
listener.name.certificate.ssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/L,DEFAULT
"""


@attrs.define
class SecuredBroker:
    """A broker, the ports of its listeners by name, and the authority that signed its certificate."""

    broker: BrokerProcess
    ports: dict
    directory: object
    authority: trustme.CA

    def address(self, listener):
        return f"127.0.0.1:{self.ports[listener]}"

    @property
    def authority_path(self):
        return str(self.directory / "authority.pem")


@pytest.fixture(scope="session", params=MODES)
def secured(request, tmp_path_factory):
    with start_secured(tmp_path_factory.mktemp(f"secured-{request.param}"), mode=request.param) as broker:
        yield broker


@contextmanager
def start_secured(directory, **how):
    """Start a broker with a listener of each kind; `how` as in `start_broker`."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", common_name="broker")
    store = issued.private_key_pem.bytes() + b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    (directory / "store.pem").write_bytes(store)
    authority.cert_pem.write_to_path(directory / "authority.pem")
    write_keys(directory / "jwks.json", jwk(rsa_key(), "r"))
    path = directory / "server.properties"
    text = PROPERTIES.format(directory=directory, plain_module=PLAIN_MODULE, reauthentication_ms=REAUTHENTICATION_MS)
    path.write_text(text, encoding="utf-8")
    broker = start_broker(directory, arguments=("--config", str(path)), **how)
    ports = listener_ports(broker)
    add_scram_user(broker.bootstrap, "scram-user")
    yield SecuredBroker(broker, ports, directory, authority)
    broker.stop()
    broker.process.stdout.close()


def listener_ports(broker):
    """Return the ports by listener, from DescribeConfigs."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    listeners = future.result(SECONDS_MAX)["listeners"].value
    return {name: int(rest.rpartition(":")[2]) for name, rest in (each.split("://") for each in listeners.split(","))}


def add_scram_user(bootstrap, user):
    """Add a user to both mechanisms, one request each, as Kafka requires."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        admin.alter_user_scram_credentials([change])[user].result(SECONDS_MAX)
