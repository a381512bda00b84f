"""The listeners of a broker while nothing is served yet: what a start finds in its records, and what a change costs."""

import pytest
import trustme

from pipeline_broker.config.settings import parse_settings
from pipeline_broker.node.listeners import BrokerListeners
from pipeline_broker.security.scram_users import ScramUsers

USERS = ScramUsers()
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required user_alice={};"


def users():
    return USERS


def config_of(**settings):
    config, _ = parse_settings([(name.replace("_", "."), text) for name, text in settings.items()])
    return config


@pytest.fixture
def opened():
    """Opens listeners; all are closed at the end."""
    made = []

    def open_listeners(config):
        made.append(BrokerListeners(config))
        return made[-1]

    yield open_listeners
    for listeners in made:
        listeners.close()


def two_listeners(protocol, **settings):
    return config_of(
        listeners="PLAINTEXT://127.0.0.1:0,MORE://127.0.0.1:0",
        listener_security_protocol_map=f"PLAINTEXT:PLAINTEXT,MORE:{protocol}",
        **settings,
    )


def test_a_listener_whose_protocol_is_another_in_the_records_is_served_by_that_one(opened, tmp_path):
    """Bound by what the broker is started with, it would be told to be TLS and speak plaintext."""
    issued = trustme.CA().issue_cert("127.0.0.1")
    (tmp_path / "store.pem").write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "store.pem")}
    listeners = opened(two_listeners("PLAINTEXT"))
    listeners.follow_at_start(two_listeners("SSL", **store), users)
    by_name = {listener.name: listener for listener in listeners}
    assert by_name["PLAINTEXT"].tls is None
    assert by_name["MORE"].tls is not None
    assert by_name["MORE"].port


def test_a_listener_that_is_of_the_control_plane_in_the_records_is_served_as_that(opened):
    listeners = opened(two_listeners("PLAINTEXT"))
    listeners.follow_at_start(two_listeners("PLAINTEXT", control_plane_listener_name="MORE"), users)
    assert {listener.name: listener.is_control_plane for listener in listeners} == {"PLAINTEXT": False, "MORE": True}


def test_an_offer_is_made_anew_only_when_what_it_is_made_of_has_changed(opened):
    """Each user of a SCRAM line costs thousands of hashes, while nobody is served."""
    line = "listener.name.more.scram-sha-256.sasl.jaas.config"
    fields = {"sasl_enabled_mechanisms": "SCRAM-SHA-256", line: SCRAM.format("secret")}
    first = two_listeners("SASL_PLAINTEXT", **fields)
    listeners = opened(first)
    listeners.follow_at_start(first, users)
    served = listeners._served["MORE"]
    offer = served.offer
    listeners.update(two_listeners("SASL_PLAINTEXT", **fields, num_io_threads="9"))
    assert served.offer is offer
    listeners.update(two_listeners("SASL_PLAINTEXT", **{**fields, line: SCRAM.format("other")}))
    assert served.offer is not offer


def test_a_listener_whose_certificate_cannot_be_read_any_more_goes_on_with_the_users_it_had_too(opened, tmp_path):
    path = tmp_path / "store.pem"
    path.write_bytes(trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes())
    line = "listener.name.more.scram-sha-256.sasl.jaas.config"
    fields = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    fields |= {"sasl_enabled_mechanisms": "SCRAM-SHA-256", line: SCRAM.format("secret")}
    listeners = opened(two_listeners("SASL_SSL", **fields))
    served = listeners._served["MORE"]
    offer, config = served.offer, served.config
    path.write_bytes(b"no certificate")
    listeners.update(two_listeners("SASL_SSL", **{**fields, line: SCRAM.format("other")}))
    assert served.offer is offer
    assert served.config is config
