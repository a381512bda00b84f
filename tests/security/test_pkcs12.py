"""PKCS12 stores by openssl and Java can be opened; a slow one, or one without a key, is refused with one line."""

import contextlib
import subprocess
import sys
import time

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.pem import read_key_store, read_trust_store
from pipeline_broker.security.pkcs12 import STORE_ROUNDS_MAX, read_pkcs12
from pipeline_broker.security.tls import TlsContexts
from tests.crashes.lengths import examples
from tests.required import require_tool
from tests.security.test_tls import client_context, handshake

ROOT = trustme.CA()
AUTHORITY = ROOT.create_child_ca()
SERVER = AUTHORITY.issue_cert("localhost", common_name="broker")
PASSWORD = "changeit"


def export(directory, *words, password=PASSWORD, issued=SERVER):
    """Write a store with openssl, with the root before the certificates that it signed."""
    store, pem = directory / "store.p12", directory / "all.pem"
    chain = [each.bytes() for each in issued.cert_chain_pems]
    pem.write_bytes(b"".join([issued.private_key_pem.bytes(), chain[0], ROOT.cert_pem.bytes(), *chain[1:]]))
    command = ["openssl", "pkcs12", "-export", "-in", pem, "-out", store, "-passout", f"pass:{password}", *words]
    subprocess.run(command, check=True, capture_output=True)
    return store


def key_settings(store, password=PASSWORD, **more):
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": password,
        **more,
    }


def refusal(read, *arguments):
    with pytest.raises(ConfigError) as caught:
        read(*arguments)
    assert "\n" not in str(caught.value)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


SCHEMES = {
    "PBKDF2": [],
    "PKCS #12": ["-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES", "-macalg", "sha1"],
    "a key that is not encrypted": ["-keypbe", "NONE", "-certpbe", "NONE"],
    "no sum": ["-nomac"],
    "more rounds": ["-iter", "80000"],
}


@pytest.mark.parametrize("words", SCHEMES.values(), ids=SCHEMES)
def test_a_store_of_openssl_opens_a_listener_with_its_chain_in_order(tmp_path, words):
    contexts = TlsContexts(key_settings(export(tmp_path, *words)))
    client = client_context()
    client.load_verify_locations(cadata=ROOT.cert_pem.bytes().decode())
    assert handshake(contexts.context(), client).version() == "TLSv1.3"
    chain = read_key_store(key_settings(tmp_path / "store.p12")).chain
    wanted = [each.bytes().decode().split() for each in [*SERVER.cert_chain_pems, ROOT.cert_pem]]
    assert [each.split() for each in chain] == wanted


@pytest.mark.parametrize("kind", ["PKCS12", "pkcs12", "JKS", None])
def test_the_content_decides_the_format_of_a_store_of_the_default_type(tmp_path, kind):
    found = key_settings(export(tmp_path))
    found = {name: text for name, text in found.items() if name != "ssl.keystore.type"}
    if kind is not None:
        found["ssl.keystore.type"] = kind
    assert "PRIVATE KEY" in read_key_store(found).key


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ssl.keystore.password": "wrong"}, "its password is wrong, or it is damaged"),
        ({"ssl.keystore.password": ""}, "its password is wrong, or it is damaged"),
        ({"ssl.key.password": "another"}, "a PKCS12 store has one password"),
        ({"ssl.keystore.location": "/no/such.p12"}, "No such file"),
    ],
)
def test_a_store_that_cannot_be_opened_is_refused_in_one_line(tmp_path, more, said):
    assert said in refusal(read_key_store, key_settings(export(tmp_path), **more))


def test_the_password_of_the_key_may_be_that_of_the_store(tmp_path):
    assert read_key_store(key_settings(export(tmp_path), **{"ssl.key.password": PASSWORD})).password == ""


def test_a_store_without_a_key_is_a_trust_store_and_no_key_store(tmp_path):
    store = export(tmp_path, "-nokeys")
    assert "must hold one private key" in refusal(read_key_store, key_settings(store))
    trusted = {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(store),
        "ssl.truststore.password": PASSWORD,
    }
    assert read_trust_store(trusted).count("BEGIN CERTIFICATE") == len(SERVER.cert_chain_pems) + 1
    assert "its password is wrong" in refusal(read_trust_store, trusted | {"ssl.truststore.password": "x"})


@pytest.mark.parametrize("words", [[], SCHEMES["PKCS #12"]], ids=["PBKDF2", "PKCS #12"])
def test_the_rounds_of_all_passwords_are_counted_before_one_is_spent(tmp_path, words):
    store = export(tmp_path, *words, "-iter", "100000")
    began = time.thread_time()
    assert f"300000 rounds, but at most {STORE_ROUNDS_MAX} are allowed" in refusal(read_key_store, key_settings(store))
    assert time.thread_time() - began < 0.05


def test_the_rounds_of_the_sum_alone_may_be_too_many(tmp_path):
    path = export(tmp_path, "-keypbe", "NONE", "-certpbe", "NONE", "-iter", "300000")
    said = refusal(read_key_store, key_settings(path))
    assert "300000 rounds" in said


def test_a_store_with_two_keys_is_refused(tmp_path):
    require_tool("keytool")
    store = tmp_path / "two.p12"
    for alias in ("a", "b"):
        java_key(store, alias)
    assert "holds 2 private keys" in refusal(read_key_store, key_settings(store))


def java_key(store, alias, *words):
    generate = ["-genkeypair", "-alias", alias, "-keyalg", "EC", "-dname", f"CN={alias}", "-storetype", "PKCS12"]
    keytool(*generate, "-keystore", store, *words)


def keytool(*words):
    command = [require_tool("keytool"), *words, "-storepass", PASSWORD, "-noprompt"]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("words", [[], ["-J-Dkeystore.pkcs12.legacy=true"]], ids=["today", "Java 8"])
def test_stores_of_java_are_read(tmp_path, words):
    require_tool("keytool")
    java_key(tmp_path / "key.jks", "broker", *words)
    assert len(read_key_store(key_settings(tmp_path / "key.jks", **{"ssl.keystore.type": "JKS"})).chain) == 1
    ROOT.cert_pem.write_to_path(str(tmp_path / "root.pem"))
    keytool(
        "-importcert", "-alias", "root", "-file", tmp_path / "root.pem", "-keystore", tmp_path / "trust.p12", *words
    )
    trusted = {"ssl.truststore.location": str(tmp_path / "trust.p12"), "ssl.truststore.password": PASSWORD}
    assert read_trust_store(trusted).split() == ROOT.cert_pem.bytes().decode().split()


def test_a_store_in_javas_own_format_is_refused_with_the_command_that_converts_it(tmp_path):
    require_tool("keytool")
    store = tmp_path / "old.jks"
    generate = ["-genkeypair", "-alias", "a", "-keyalg", "RSA", "-dname", "CN=a", "-storetype", "JKS"]
    keytool(*generate, "-keystore", store, "-keypass", PASSWORD)
    said = refusal(read_key_store, key_settings(store, **{"ssl.keystore.type": "JKS"}))
    assert f"keytool -importkeystore -srckeystore {store} -destkeystore store.p12" in said


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return export(tmp_path_factory.mktemp("stores")).read_bytes()


@settings(max_examples=examples(100))
@given(data=st.data())
def test_a_store_with_another_byte_is_refused_or_read_as_certificates(store, data):
    position = data.draw(st.integers(0, len(store) - 1))
    damaged = bytearray(store)
    damaged[position] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ConfigError):  # any other error fails
        content = read_pkcs12(bytes(damaged), PASSWORD, "x")
        assert all("BEGIN CERTIFICATE" in pem for pem in content.certificates)


def test_a_store_that_is_not_quite_der_gives_no_warning(store):
    version = store.index(b"\x02\x01\x03")
    damaged = store[: version + 2] + b"\x83" + store[version + 3 :]
    with contextlib.suppress(ConfigError):
        read_pkcs12(damaged, PASSWORD, "x")


@pytest.mark.parametrize("part", range(10))
def test_a_store_that_is_cut_off_is_refused(store, part):
    refusal(read_pkcs12, store[: len(store) * part // 10], PASSWORD, "x")


def test_without_the_package_the_error_names_the_package_to_install(tmp_path):
    store = export(tmp_path)
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from pipeline_broker.config.properties import ConfigError\n"
        "from pipeline_broker.security.pem import read_trust_store\n"
        f"settings = {{'ssl.truststore.type': 'PKCS12', 'ssl.truststore.location': {str(store)!r}}}\n"
        "try:\n    read_trust_store(settings)\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == (
        f"ssl.truststore.location: {store}: PKCS12 needs the package cryptography."
        " Run pip install 'pipeline-broker[pkcs12]'\n"
    )
