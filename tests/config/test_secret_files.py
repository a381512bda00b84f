"""Warnings about files with secrets that other users can read."""

import pytest

from pipeline_broker.config.properties import broker_properties
from pipeline_broker.config.secret_files import SECRETS
from pipeline_broker.config.settings import load_settings

PUBLIC = {"ssl.keystore.certificate.chain", "ssl.truststore.certificates"}
PROVIDERS = """
config.providers=file,dir
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
"""


def exposed(*files):
    _, warnings = load_settings(files, ())
    return [line for line in warnings if "may read" in line]


def line_of(path):
    return f"warning: other users may read {path} (mode 0644). Run chmod 600 {path}"


@pytest.fixture
def write(tmp_path):
    def write(name, text, mode=0o644):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


def test_every_secret_property_of_the_broker_is_known():
    passwords = {name for name, each in broker_properties().items() if each.type == "password"}
    assert passwords - PUBLIC <= SECRETS


@pytest.mark.parametrize(
    "secret",
    [
        "ssl.key.password=p",
        "listener.name.tls.ssl.keystore.password=p",
        "listener.name.in.plain.sasl.jaas.config=x",
        "delegation.token.secret.key=k",
    ],
)
def test_a_settings_file_with_a_secret_is_named_once(write, secret):
    assert exposed(path := write("a", secret)) == [line_of(path)]
    assert exposed(write("b", secret, 0o600)) == []


@pytest.mark.parametrize("text", ["num.partitions=2", "ssl.key.password=", "ssl.truststore.certificates=c"])
def test_a_settings_file_without_a_secret_may_be_read(write, text):
    assert exposed(write("a", text)) == []


def test_files_of_providers_and_key_stores_are_named_instead_of_the_settings(write, tmp_path):
    values, whole = write("values", "key=k"), write("whole", "w")
    store = write("store.pem", "")
    settings = write(
        "settings",
        f"{PROVIDERS}ssl.key.password=${{file:{values}:key}}\nssl.keystore.password=${{dir:{tmp_path}:whole}}\n"
        f"delegation.token.secret.key=${{file:{values}:key}}\nlistener.name.tls.ssl.keystore.location={store}\n"
        "ssl.keystore.location=missing.pem",
    )
    assert exposed(settings) == [line_of(values), line_of(whole), line_of(store)]
    for each in (values, whole, store):
        each.chmod(0o600)
    assert exposed(settings) == []
