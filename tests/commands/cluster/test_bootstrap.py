"""Options that reach a cluster: addresses, properties, TLS and SASL."""

import subprocess

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
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_properties_file_of_either_kind_works_with_a_secured_broker(secured, authority, mechanism, name, tmp_path):
    secured("produce", name, "-F", written(tmp_path, librdkafka(authority, mechanism)), data=b"one\n")
    assert secured("consume", name, "-F", written(tmp_path, java(authority, mechanism))).lines == ["one"]


def store_of_java(authority, name, *words):
    """Write a PKCS12 store with openssl: Java's default format since version 9, whatever its name."""
    store = authority / f"{name}.jks"
    command = ["openssl", "pkcs12", "-export", "-in", authority / f"{name}.pem", "-out", store]
    subprocess.run([*command, "-passout", "pass:changeit", *words], check=True, capture_output=True)
    return store


def text_of(path):
    """Return a text in PEM form as a properties file holds it, on one line."""
    return path.read_text().strip().replace("\n", "\\n")


def of_stores(authority, kind):
    if kind is None:
        return {
            "ssl.truststore.location": authority / "authority.pem",
            "ssl.keystore.location": authority / "client.pem",
        }
    trusted, own = store_of_java(authority, "authority", "-nokeys"), store_of_java(authority, "client")
    types = {f"ssl.{store}.type": kind for store in ("truststore", "keystore") if kind != "unset"}
    passwords = {f"ssl.{name}.password": "changeit" for name in ("truststore", "keystore", "key")}
    return {"ssl.truststore.location": trusted, "ssl.keystore.location": own, **types, **passwords}


@pytest.mark.parametrize("kind", [None, "unset", "JKS", "PKCS12"])
def test_the_stores_of_a_java_client_may_be_pkcs12_or_pem_without_a_type(secured, authority, kind, tmp_path):
    properties = {name: text for name, text in java(authority, "PLAIN").items() if "store" not in name}
    secured("topics", "list", "-F", written(tmp_path, properties | of_stores(authority, kind)))


def test_the_certificates_of_a_java_client_may_be_texts(secured, authority, tmp_path):
    properties = {name: text for name, text in java(authority, "PLAIN").items() if "location" not in name}
    texts = {
        "ssl.truststore.certificates": text_of(authority / "authority.pem"),
        "ssl.keystore.key": text_of(authority / "client.pem"),
        "ssl.keystore.certificate.chain": text_of(authority / "client.pem"),
    }
    secured("topics", "list", "-F", written(tmp_path, properties | texts))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ssl.truststore.location": "/none.jks"}, "ssl.truststore.location: cannot read /none.jks: No such file"),
        ({"ssl.keystore.location": "/none"}, "ssl.keystore.location: cannot read /none: No such file"),
        ({"ssl.truststore.password": "x", "ssl.truststore.location": "/none"}, "cannot read /none: No such file"),
        ({"ssl.keystore.password": "wrong"}, "its password is wrong"),
        ({"ssl.truststore.location": "own.jks"}, "JKS cannot be read here. Convert the store with"),
        ({"ssl.protocol": "TLS"}, "unknown property 'ssl.protocol'"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, "sasl.mechanism 'AWS_MSK_IAM' is not one of PLAIN"),
        ({"securty.protocol": "SSL"}, "unknown property 'securty.protocol'; did you mean security.protocol?"),
        ({"bootstrap.server": "a:1"}, "unknown property 'bootstrap.server'"),
    ],
    ids=str,
)
def test_a_property_of_a_java_client_that_cannot_be_used_is_one_line(
    secured, authority, change, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.jks").write_bytes(b"\xfe\xed\xfe\xed")  # Java's own format
    properties = java(authority, "PLAIN") | of_stores(authority, "unset")
    properties = {name: text for name, text in properties.items() if not name.endswith("store.type")}
    called = secured("topics", "list", "-F", written(tmp_path, properties | change), code=2)
    assert message in called.err
    assert called.err.count("\n") == 1


def test_a_password_in_a_properties_file_may_be_a_reference_to_another_file(secured, authority, tmp_path):
    (tmp_path / "secrets").write_text("password=secret\n")
    properties = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        **librdkafka(authority, password=f"${{file:{tmp_path}/secrets:password}}"),
        "basic.auth.user.info": "${unknown:x}",
    }
    secured("topics", "list", "-F", written(tmp_path, properties))
    del properties["config.providers"]
    called = secured("topics", "list", "-F", written(tmp_path, properties), code=2)
    assert "cannot be resolved" in called.err


def test_properties_of_other_programs_in_a_file_are_ignored_and_on_the_command_line_they_are_refused(
    secured, authority, tmp_path
):
    others = {
        "group.id": "readers",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "45000",
        "fetch.max.bytes": "26214400",
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "acks": "all",
        "client.dns.lookup": "use_all_dns_ips",
        "schema.registry.url": "https://registry.example",
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": "a:b",
    }
    secured("topics", "list", "-F", written(tmp_path, librdkafka(authority) | others))
    called = secured("topics", "list", "-F", written(tmp_path, librdkafka(authority)), "-X", "group.id=readers", code=2)
    assert "unknown property 'group.id'" in called.err


def test_single_properties_override_the_file_that_the_environment_names(secured, authority, name, tmp_path):
    variables = {"PIPELINE_BROKER_COMMAND_CONFIG": str(written(tmp_path, librdkafka(authority, password="wrong")))}
    called = secured("topics", "list", code=1, environment=variables)
    assert "SASL_AUTHENTICATION_FAILED: check sasl.username and sasl.password" in called.err
    assert "wrong" not in called.err
    secured("topics", "create", name, "-X", "sasl.password=secret", environment=variables)


def test_a_broker_with_an_unverified_certificate_is_rejected(secured, authority):
    called = secured("topics", "list", "-X", "security.protocol=ssl", code=1)
    assert "name the authority of the broker's certificate with ssl.ca.location" in called.err
    assert called.err.count("\n") == 1


def test_plaintext_to_a_tls_listener_is_one_line(secured):
    called = secured("topics", "list", code=1)
    assert called.err == f"Error: {secured.address}: the broker closed the connection: check security.protocol\n"


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
        (["-b", "[host]:[port]"], 2, "'[host]:[port]' is not an address"),
        (["-b", ","], 2, "the address is missing: give one such as localhost:9092"),
        (["--timeout", "soon"], 2, "'soon' is not a time"),
        (["-X", "security.protocl=ssl"], 2, "did you mean security.protocol?"),
        (["-X", "sasl.username=ada"], 2, "Set security.protocol=sasl_plaintext"),
        (["-X", "sasl.jaas.config=x"], 2, "sasl.jaas.config needs sasl.mechanism: set it to one of PLAIN"),
        (["-X", "ssl.truststore.location=a.jks", "-X", "ssl.truststore.type=JKS"], 2, "cannot read a.jks"),
        (["-F", "/nowhere/client.properties"], 2, "cannot read /nowhere/client.properties"),
    ],
)
def test_an_error_is_one_line(call, arguments, code, message):
    called = call("topics", "list", *arguments, code=code)
    assert called.err.startswith("Error: ")
    assert message in called.err
    assert (called.err.count("\n"), called.out) == (1, "")


def test_files_with_secrets_that_others_can_read_are_named_with_their_mode_and_the_command(call, tmp_path):
    client, secret, key = (tmp_path / each for each in ("client.properties", "secrets", "key.pem"))
    security = "security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\nsasl.username=ada\n"
    provider = "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider"
    reference = f"config.providers=file\n{provider}\nsasl.password=${{file:{secret}:password}}\n"
    secret.write_text("password=p\n")
    for text, exposed, options in (
        ("sasl.password=p\n", client, ()),
        (reference, secret, ()),
        ("sasl.password=p\n", key, ("-X", f"ssl.key.location={key}")),
    ):
        client.write_text(security + text)
        for each in (client, secret, key):
            each.touch()
            each.chmod(0o644 if each == exposed else 0o600)
        found = call("topics", "list", "--command-config", client, *options, code=2 if options else 1)
        warnings = [line for line in found.err.splitlines() if "may read" in line]
        assert warnings == [f"Warning: other users may read {exposed} (mode 0644). Run chmod 600 {exposed}"]
    key.chmod(0o600)
    assert "may read" not in call("topics", "list", "--command-config", client, code=1).err
