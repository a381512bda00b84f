"""Options that reach a cluster: addresses, properties, TLS and SASL."""

import pytest

from pipeline_broker import EmbeddedBroker
from tests.commands.cluster.conftest import CommandLine
from tests.secured_broker import MECHANISMS, secured_settings, write_authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return write_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority):
    with EmbeddedBroker(settings=secured_settings(authority)) as broker:
        yield CommandLine(broker.bootstrap_servers)


def librdkafka(authority, mechanism="PLAIN", password="secret"):
    return {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": mechanism,
        "sasl.username": "ada",
        "sasl.password": password,
        "ssl.ca.location": authority / "authority.pem",
        "ssl.certificate.location": authority / "client.pem",
    }


def java(authority, mechanism):
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'org.apache.kafka.common.security.{module}LoginModule required username="ada" '
        'password="secret";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority / "authority.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority / "client.pem",
    }


def written(folder, properties):
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_properties_file_of_either_kind_works_with_a_secured_broker(secured, authority, mechanism, name, tmp_path):
    secured("produce", name, "-F", written(tmp_path, librdkafka(authority, mechanism)), data=b"one\n")
    assert secured("consume", name, "-F", written(tmp_path, java(authority, mechanism))).lines == ["one"]


def test_single_properties_override_the_file_that_the_environment_names(secured, authority, name, tmp_path):
    variables = {"PIPELINE_BROKER_COMMAND_CONFIG": str(written(tmp_path, librdkafka(authority, password="wrong")))}
    called = secured("topics", "list", code=1, environment=variables)
    assert "SASL_AUTHENTICATION_FAILED: check sasl.username and sasl.password" in called.err
    assert "wrong" not in called.err
    secured("topics", "create", name, "-X", "sasl.password=secret", environment=variables)


def test_a_broker_with_an_unverified_certificate_is_rejected(secured, authority):
    called = secured("topics", "list", "-X", "security.protocol=ssl", code=1)
    assert "name its certificate authority with ssl.ca.location" in called.err
    assert called.err.count("\n") == 1


def test_plaintext_to_a_tls_listener_is_one_line(secured):
    called = secured("topics", "list", code=1)
    assert called.err == f"Error: {secured.address}: the broker closed the connection: is security.protocol right?\n"


def test_an_address_comes_from_the_option_the_environment_the_file_or_the_default(one_broker, name, tmp_path):
    here, nowhere = one_broker.bootstrap_servers, "127.0.0.1:1"
    file = written(tmp_path, {"bootstrap.servers": here})
    CommandLine(nowhere)("topics", "list", "-b", f"{nowhere},{here}")
    CommandLine(here)("topics", "list")
    CommandLine("")("topics", "list", "-F", file)
    assert "cannot connect to 127.0.0.1:1: Connection refused" in CommandLine(nowhere)("topics", "list", code=1).err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-b", "127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1: Connection refused"),
        (["-b", "[::1]:1"], 1, "cannot connect to ::1:1: "),
        (["-b", "nowhere.invalid"], 1, "cannot resolve nowhere.invalid"),
        (["-b", "a:b"], 2, "'a:b' is not an address"),
        (["-b", ","], 2, "give an address such as localhost:9092"),
        (["--timeout", "soon"], 2, "'soon' is not a time"),
        (["-X", "security.protocl=ssl"], 2, "did you mean security.protocol?"),
        (["-X", "sasl.username=ada"], 2, "Set security.protocol=sasl_plaintext"),
        (["-X", "sasl.jaas.config=x"], 2, "sasl.jaas.config needs sasl.mechanism: set it to one of PLAIN"),
        (["-X", "ssl.truststore.location=a.jks", "-X", "ssl.truststore.type=JKS"], 2, "give a PEM file"),
        (["-F", "/nowhere/client.properties"], 2, "cannot read /nowhere/client.properties"),
    ],
)
def test_an_error_is_one_line(call, arguments, code, message):
    called = call("topics", "list", *arguments, code=code)
    assert called.err.startswith("Error: ")
    assert message in called.err
    assert (called.err.count("\n"), called.out) == (1, "")
