"""Commands against a cluster with OAUTHBEARER, with properties of librdkafka and of Java clients."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient

from pipeline_broker import EmbeddedBroker
from tests.commands.cluster.conftest import CommandLine
from tests.identity_provider import CLIENT_ID, CLIENT_SECRET, bearer, bearer_settings, provider

SECONDS_MAX = 20
SASL = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
URL = "sasl.oauthbearer.token.endpoint.url"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def identity():
    with provider() as found:
        yield found


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with EmbeddedBroker(settings=bearer_settings(tmp_path_factory.mktemp("keys"))) as broker:
        yield CommandLine(broker.bootstrap_servers)


def of_librdkafka(identity, secret=CLIENT_SECRET):
    return SASL | {
        "sasl.oauthbearer.method": "oidc",
        URL: identity.url,
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": secret,
    }


def of_java(identity):
    return SASL | {
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        URL: identity.url,
        "sasl.jaas.config": f'{PACKAGE}.OAuthBearerLoginModule required clientId="{CLIENT_ID}" '
        f'clientSecret="{CLIENT_SECRET}" extension_logicalCluster="lkc-1";',
    }


def of_newer_java(identity):
    return SASL | {
        URL: identity.url,
        "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
    }


def options(properties):
    return [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]


@pytest.mark.parametrize("properties_of", [of_librdkafka, of_java, of_newer_java])
def test_client_credentials_in_a_file_of_other_clients_work(guarded, identity, properties_of, name, tmp_path):
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties_of(identity).items()))
    guarded("produce", name, "-F", path, data=b"one\n")
    assert guarded("consume", name, "-F", path).lines == ["one"]


@pytest.mark.clients
def test_librdkafka_accepts_the_same_properties(guarded, identity):
    admin = AdminClient({"bootstrap.servers": guarded.address, **of_librdkafka(identity)})
    assert admin.list_topics(timeout=SECONDS_MAX).brokers


def test_a_token_in_a_file_works(guarded, tmp_path):
    path = tmp_path / "token"
    path.write_text(bearer() + "\n")
    guarded("topics", "list", *options(SASL | {URL: path.as_uri()}))


def test_a_token_that_the_broker_rejects_is_one_line(guarded, tmp_path):
    path = tmp_path / "token"
    path.write_text(bearer(-100))
    path.chmod(0o600)
    called = guarded("topics", "list", *options(SASL | {URL: path.as_uri()}), code=1)
    words = "the broker answered SASL_AUTHENTICATION_FAILED: check that the token is valid, and issued for this broker"
    assert called.err == f"Error: the token by OAUTHBEARER: {words}\n"


def test_credentials_that_the_provider_rejects_are_one_line(guarded, identity):
    called = guarded("topics", "list", *options(of_librdkafka(identity, "wrong-secret")), code=1)
    words = "gave no token: HTTP 401 Unauthorized: invalid_client: unknown client"
    assert called.err == f"Error: {identity.url} {words}\n"


def test_a_custom_callback_handler_is_rejected(guarded, identity):
    properties = of_java(identity) | {"sasl.login.callback.handler.class": "com.example.Handler"}
    called = guarded("topics", "list", *options(properties), code=2)
    assert f"is not supported: use {PACKAGE}.OAuthBearerLoginCallbackHandler" in called.err
    assert called.err.count("\n") == 1


def test_each_connection_begins_with_a_currently_valid_token(identity, name, tmp_path, monkeypatch):
    """A broker closes the connection when the token expires; a fault rule does so here."""
    monkeypatch.setattr(identity, "life_s", 0)
    with EmbeddedBroker(settings=bearer_settings(tmp_path)) as broker:
        call, asked = CommandLine(broker.bootstrap_servers), len(identity.asked)
        broker.produce(name, "before")
        broker.faults.when("Fetch", nth=2).disconnect()

        def write():
            broker.wait_fetching(name)
            broker.produce(name, "after")

        with ThreadPoolExecutor(1) as others:
            writing = others.submit(write)
            called = call("consume", name, "--follow", "--count", "2", *options(of_librdkafka(identity)))
            writing.result(SECONDS_MAX)
        assert called.lines == ["before", "after"]
        assert len({request.connection for request in broker.requests("Fetch")}) == 2
        assert len(identity.asked) == asked + 2
