"""The settings in docs/guides/security.md are valid, and make listeners that work."""

import re
from pathlib import Path

import pytest
import trustme

from pipeline_broker.config.settings import load_settings
from pipeline_broker.security.offer import read_offer
from pipeline_broker.security.scram_users import ScramUsers
from pipeline_broker.security.tls import TlsContexts
from tests.security.tokens import jwk, rsa_key, write_keys

TEXT = (Path(__file__).parents[2] / "docs/guides/security.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```properties\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
OFFERED = {
    "SSL": [()],
    "SASL_SSL": [("SCRAM-SHA-256", "SCRAM-SHA-512"), ("PLAIN",), ("OAUTHBEARER",)],
    "SASL_PLAINTEXT": [("SCRAM-SHA-256", "SCRAM-SHA-512")],
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("etc")
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(directory / "store.pem")
    (directory / "store.pem").chmod(0o600)
    authority.cert_pem.write_to_path(directory / "authority.pem")
    write_keys(directory / "jwks.json", jwk(rsa_key(), "r"))
    return directory


def test_every_kind_of_listener_is_shown():
    assert len(BLOCKS) == sum(map(len, OFFERED.values()))


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_makes_a_listener_that_works(block, directory, tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(block.replace("/etc/kafka", str(directory)), encoding="utf-8")
    path.chmod(0o600)  # as the guide says
    config, warnings = load_settings([path], ())
    assert warnings == []
    (listener,) = config.listener_configs
    if listener.is_tls:
        assert TlsContexts(listener.properties).context()
    mechanisms = ()
    if listener.is_sasl:
        mechanisms = read_offer(listener.properties, ScramUsers(), lambda: 0).mechanisms
    assert mechanisms in OFFERED[listener.security_protocol]


def test_quotes_in_a_properties_file_are_escaped_as_shown(directory, tmp_path):
    block = next(block for block in BLOCKS if "PlainLoginModule" in block)
    path = tmp_path / "server.properties"
    path.write_text(block.replace("/etc/kafka", str(directory)), encoding="utf-8")
    (listener,) = load_settings([path], ())[0].listener_configs
    server = read_offer(listener.properties, ScramUsers(), lambda: 0).servers["PLAIN"]()
    server.receive(b'\0bob\0bob "the builder"')
    assert server.is_complete
