"""Listeners before anything is served: stored settings at startup, and the work of a change."""

import datetime as dt

import pytest
import trustme

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.node.errors import StartError
from pipeline_broker.node.listeners import BrokerListeners, bind_listener
from pipeline_broker.security.scram_users import ScramUsers
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from stages.authentication import Conversation
from tests.apis.security.test_authentication import frame_of

USERS = ScramUsers()
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice={};"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required user_alice={};"


def users():
    return USERS


def config_of(**settings):
    config, _ = parse_settings([(name.replace("_", "."), text) for name, text in settings.items()])
    return config


@pytest.fixture
def opened():
    """Open listeners; close all of them at the end."""
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


def follow(listeners, config, *named):
    """Apply the change of a client, with keys and users loaded in this thread."""
    load = listeners.check(config, named)
    if load is not None:
        load()()
    listeners.update(config)


def with_certificate(path, **fields):
    """Return the properties of a listener with TLS and existing keys."""
    path.write_bytes(trustme.CA().issue_cert("127.0.0.1", **fields).private_key_and_cert_chain_pem.bytes())
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}


def named(listeners, name):
    return next(listener for listener in listeners if listener.name == name)


def test_a_stored_security_protocol_overrides_that_of_the_startup(opened, tmp_path):
    """Bound with the properties of the startup, it would be reported as TLS and speak plaintext."""
    issued = trustme.CA().issue_cert("127.0.0.1")
    (tmp_path / "store.pem").write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "store.pem")}
    listeners = opened(two_listeners("PLAINTEXT"))
    listeners.follow_at_start(two_listeners("SSL", **store), users)
    by_name = {listener.name: listener for listener in listeners}
    assert by_name["PLAINTEXT"].tls is None
    assert by_name["MORE"].tls is not None
    assert by_name["MORE"].port


def test_a_stored_control_plane_listener_is_served_as_one(opened):
    listeners = opened(two_listeners("PLAINTEXT"))
    listeners.follow_at_start(two_listeners("PLAINTEXT", control_plane_listener_name="MORE"), users)
    assert {listener.name: listener.is_control_plane for listener in listeners} == {"PLAINTEXT": False, "MORE": True}


def test_a_stored_inter_broker_listener_is_served_as_one(opened):
    listeners = opened(two_listeners("PLAINTEXT", inter_broker_listener_name="PLAINTEXT"))
    assert {listener.name: listener.is_privileged for listener in listeners} == {"PLAINTEXT": True, "MORE": False}
    listeners.follow_at_start(two_listeners("PLAINTEXT", inter_broker_listener_name="MORE"), users)
    assert {listener.name: listener.is_privileged for listener in listeners} == {"PLAINTEXT": False, "MORE": True}


def test_an_offer_is_made_again_only_if_its_settings_have_changed(opened):
    """Each user in a SCRAM setting costs thousands of hashes, during which no client is served."""
    line = "listener.name.more.scram-sha-256.sasl.jaas.config"
    fields = {"sasl_enabled_mechanisms": "SCRAM-SHA-256", line: SCRAM.format("secret")}
    first = two_listeners("SASL_PLAINTEXT", **fields)
    listeners = opened(first)
    listeners.follow_at_start(first, users)
    served = listeners._served["MORE"]
    offer = served.loaded.offer
    follow(listeners, two_listeners("SASL_PLAINTEXT", **fields, num_io_threads="9"), "num.io.threads")
    assert served.loaded.offer is offer
    follow(listeners, two_listeners("SASL_PLAINTEXT", **{**fields, line: SCRAM.format("other")}), line)
    assert served.loaded.offer is not offer


def test_an_offer_is_made_again_once_the_stored_users_are_known(opened):
    """Before recovery no users are known, even if the settings of the listener do not change."""
    config = two_listeners("SASL_PLAINTEXT", sasl_enabled_mechanisms="SCRAM-SHA-256")
    listeners = opened(config)
    offer = listeners._served["MORE"].loaded.offer
    listeners.follow_at_start(config, users)
    assert listeners._served["MORE"].loaded.offer is not offer
    assert listeners._served["MORE"].loaded.users is USERS


def test_a_listener_with_an_unreadable_certificate_keeps_its_users(opened, tmp_path):
    path = tmp_path / "store.pem"
    path.write_bytes(trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes())
    line = "listener.name.more.scram-sha-256.sasl.jaas.config"
    fields = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    fields |= {"sasl_enabled_mechanisms": "SCRAM-SHA-256", line: SCRAM.format("secret")}
    listeners = opened(two_listeners("SASL_SSL", **fields))
    served = listeners._served["MORE"]
    loaded, config = served.loaded, served.config
    path.write_bytes(b"no certificate")
    other = two_listeners("SASL_SSL", **{**fields, line: SCRAM.format("other")})
    assert [each.name for each in listeners.unloaded(other)] == ["MORE"]
    assert listeners.load(listeners.unloaded(other)) == {"MORE"}
    listeners.update(other)
    assert served.loaded is loaded
    assert served.config is config


def test_a_client_authenticates_again_with_the_current_users(opened):
    """Its connection may be older than its password."""

    class Handle:
        peer, session = "127.0.0.1", None

    def config(password):
        line = {"listener.name.more.plain.sasl.jaas.config": PLAIN.format(password)}
        return two_listeners("SASL_PLAINTEXT", sasl_enabled_mechanisms="PLAIN", **line)

    def login(password):
        authenticator.receive(frame_of(SaslHandshakeRequest("PLAIN"), 1))
        return authenticator.receive(frame_of(SaslAuthenticateRequest(b"\0alice\0" + password), 2)).conversation

    listeners = opened(config("old"))
    listeners.follow_at_start(config("old"), users)
    authenticator = named(listeners, "MORE").open_session(Handle(), None)
    assert login(b"old") is Conversation.SUCCEEDED
    follow(listeners, config("new"), "listener.name.more.plain.sasl.jaas.config")
    assert login(b"new") is Conversation.SUCCEEDED
    assert login(b"old") is Conversation.FAILED


def test_a_changed_address_does_not_move_a_bound_listener(opened):
    listeners = opened(two_listeners("PLAINTEXT"))
    before = listeners.addresses
    other = config_of(
        listeners="PLAINTEXT://127.0.0.1:0,MORE://localhost:9",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT",
    )
    listeners.update(other)
    assert listeners.addresses == before
    assert listeners.advertised(other) == before


def test_invalid_users_of_a_listener_are_refused_before_the_change(opened):
    line = "listener.name.more.scram-sha-256.sasl.jaas.config"
    fields = {"sasl_enabled_mechanisms": "SCRAM-SHA-256", line: SCRAM.format("secret")}
    listeners = opened(two_listeners("SASL_PLAINTEXT", **fields))
    listeners.check(two_listeners("SASL_PLAINTEXT", **fields), {line})()
    load = listeners.check(two_listeners("SASL_PLAINTEXT", **{**fields, line: "no login module"}), {line})
    with pytest.raises(ConfigError, match="listener MORE: "):
        load()


def test_keys_are_not_used_before_their_change_is_applied(opened, tmp_path):
    """The change may be validated only, or refused because of another property."""
    config = two_listeners("SSL", **with_certificate(tmp_path / "store.pem"))
    listeners = opened(config)
    shown = named(listeners, "MORE").tls()
    adopt = listeners.check(config, {"listener.name.more.ssl.keystore.location"})()
    listeners.update(config)
    assert named(listeners, "MORE").tls() is shown
    adopt()
    listeners.update(config)
    assert named(listeners, "MORE").tls() is not shown


def test_a_change_of_other_properties_opens_no_file(opened, tmp_path):
    path = tmp_path / "store.pem"
    config = two_listeners("SSL", **with_certificate(path))
    listeners = opened(config)
    path.unlink()
    assert listeners.check(config, {"log.retention.ms"}) is None
    listeners.update(config)
    assert listeners.unloaded(config) == []


def test_a_removed_listener_frees_its_address_for_a_stored_one(opened):
    listeners = opened(two_listeners("PLAINTEXT"))
    before = listeners.addresses
    port = before["MORE"][1]
    listeners.follow_at_start(
        config_of(
            listeners=f"PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:{port}",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        ),
        users,
    )
    assert listeners.addresses == {"PLAINTEXT": before["PLAINTEXT"], "OTHER": ("127.0.0.1", port)}


def test_a_certificate_that_expires_soon_is_logged_each_time_it_is_read(opened, tmp_path, caplog):
    path = tmp_path / "store.pem"
    allowed = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    config = two_listeners("SSL", **with_certificate(path), **allowed)
    listeners = opened(config)
    assert caplog.messages == []
    with_certificate(path, not_after=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    follow(listeners, config, "listener.name.more.ssl.keystore.location")
    (message,) = caplog.messages
    assert message.startswith("listener MORE: the certificate expires soon")


def test_if_a_listener_cannot_be_bound_the_sockets_of_the_others_are_closed():
    bound = []

    def bind(listener, config):
        if bound:
            raise StartError("the address is in use")
        bound.append(bind_listener(listener, config))
        return bound[-1]

    with pytest.raises(StartError, match="in use"):
        BrokerListeners(two_listeners("PLAINTEXT"), bind)
    (first,) = bound
    assert first.sock.fileno() == -1
