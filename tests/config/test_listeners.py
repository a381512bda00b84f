"""Listeners in settings; error codes and messages come from Apache Kafka."""

import pytest

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.settings import config_with, parse_settings

MAP = ("listener.security.protocol.map", "IN:PLAINTEXT,OUT:SASL_SSL,ADMIN:PLAINTEXT,CONTROLLER:PLAINTEXT")
STORE = ("listener.name.out.ssl.keystore.location", "/keys.pem")
JAAS = (
    "listener.name.out.plain.sasl.jaas.config",
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";',
)
OUT = (("listener.name.out.sasl.enabled.mechanisms", "PLAIN"), STORE, JAAS)


def listeners_of(*pairs):
    return {listener.name: listener for listener in parse_settings(pairs)[0].listener_configs}


def refusal_of(*pairs):
    with pytest.raises(ConfigError) as caught:
        parse_settings(pairs)
    assert "\n" not in str(caught.value)
    return caught.value


def test_each_listener_has_a_name_an_address_and_a_protocol():
    inside, outside = listeners_of(
        ("listeners", "in://127.0.0.1:0,OUT://[::1]:9093"), ("advertised.listeners", "OUT://example.test:1"), MAP, *OUT
    ).values()
    assert (inside.name, inside.host, inside.port, inside.security_protocol) == ("IN", "127.0.0.1", 0, "PLAINTEXT")
    assert (inside.is_tls, inside.is_sasl, inside.advertised_host) == (False, False, None)
    assert (outside.name, outside.host, outside.port, outside.security_protocol) == ("OUT", "::1", 9093, "SASL_SSL")
    assert (outside.advertised_host, outside.advertised_port) == ("example.test", 1)
    assert outside.mechanisms == ("PLAIN",)


def test_by_default_a_listener_advertises_its_own_address():
    assert [
        (listener.advertised_host, listener.advertised_port)
        for listener in listeners_of(("listeners", "IN://h:1,ADMIN://:2"), MAP).values()
    ] == [("h", 1), ("127.0.0.1", 2)]


def test_each_broker_of_a_machine_has_and_advertises_ports_of_its_own():
    advertised = ("advertised.listeners", "IN://h:9092,OUT://outside:0")
    one = parse_settings([("listeners", "PLAINTEXT://h:1"), ("advertised.listeners", "PLAINTEXT://outside:9092")])[0]
    assert one.listeners_of_broker(3) == ["advertised.listeners=PLAINTEXT://outside:9094"]
    assert parse_settings([("listeners", "PLAINTEXT://h:1")])[0].listeners_of_broker(3) == []
    two = parse_settings([("listeners", "IN://h:1,OUT://h:2"), advertised, MAP, *OUT])[0]
    assert sorted(two.listeners_of_broker(2)) == [
        "advertised.listeners=IN://h:9094,OUT://outside:0",
        "listeners=IN://h:3,OUT://h:4",
    ]


def test_a_property_with_a_listeners_prefix_overrides_the_one_for_all():
    listeners = listeners_of(
        ("listeners", "IN://h:1,OUT://h:2"),
        MAP,
        *OUT,
        ("ssl.client.auth", "none"),
        ("listener.name.out.ssl.client.auth", "required"),
        ("max.connections", "7"),
        ("listener.name.out.max.connections", " +5"),
        ("listener.name.out.oauthbearer.connections.max.reauth.ms", "9"),
        ("num.partitions", "3"),
    )
    assert dict(listeners["IN"].properties) == {"ssl.client.auth": "none"}
    assert dict(listeners["OUT"].properties) == {
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.keystore.location": "/keys.pem",
        "plain.sasl.jaas.config": JAAS[1],
        "ssl.client.auth": "required",
        "max.connections": "5",
        "oauthbearer.connections.max.reauth.ms": "9",
    }
    assert (listeners["IN"].limit("max.connections"), listeners["OUT"].limit("max.connections")) == (None, 5)


def test_a_dynamic_property_overrides_the_static_one():
    started, _ = parse_settings([("listeners", "IN://h:1"), MAP, ("listener.name.in.max.connections", "5")])
    changed = config_with(started, {"listener.name.in.max.connections": "6", "listeners": "IN://h:1,ADMIN://h:2"})
    assert [listener.name for listener in changed.listener_configs] == ["IN", "ADMIN"]
    assert changed.listener_configs[0].limit("max.connections") == 6
    assert started.listener_configs[0].limit("max.connections") == 5


def test_the_controllers_listener_is_not_served_with_one_warning():
    config, warnings = parse_settings(
        [
            ("listeners", "IN://h:1,CONTROLLER://h:2"),
            ("controller.listener.names", "controller"),
            ("listener.name.controller.ssl.client.auth", "none"),
            MAP,
        ]
    )
    assert [listener.name for listener in config.listener_configs] == ["IN"]
    assert warnings == [
        "warning: the listener CONTROLLER is the controller's; this broker has no quorum and does not serve it"
    ]


def test_properties_of_an_unknown_listener_give_a_warning():
    _, warnings = parse_settings([("listener.name.inn.max.connections", "5")])
    assert warnings == ["warning: properties of listener.name.inn have no effect: listeners has no INN"]


@pytest.mark.parametrize("name", ["sasl.jaas.config", "listener.name.plaintext.sasl.jaas.config"])
def test_a_jaas_line_without_listener_or_mechanism_gives_a_warning(name):
    _, warnings = parse_settings([(name, "x")])
    said = "has no effect: write listener.name.<listener>.<mechanism>.sasl.jaas.config"
    assert warnings == [f"warning: {name} {said}"]
    assert parse_settings([("listener.name.plaintext.plain.sasl.jaas.config", "x")])[1] == []


def test_a_sasl_listener_requires_a_client_certificate_only_by_its_own_setting():
    pairs = (("listeners", "OUT://h:1"), MAP, ("ssl.client.auth", "required"))
    assert "ssl.client.auth" not in listeners_of(*pairs)["OUT"].properties
    own = ("listener.name.out.ssl.client.auth", "requested")
    assert listeners_of(*pairs, own)["OUT"].properties["ssl.client.auth"] == "requested"


@pytest.mark.parametrize(
    ("pairs", "privileged"),
    [
        ([("listeners", "PLAINTEXT://h:1")], "PLAINTEXT"),
        ([("listeners", "IN://h:1,ADMIN://h:2"), MAP], None),
        ([("listeners", "IN://h:1,ADMIN://h:2"), MAP, ("inter.broker.listener.name", "admin")], "ADMIN"),
        ([("listeners", "PLAINTEXT://h:1,SSL://h:2"), ("security.inter.broker.protocol", "SSL")], "SSL"),
    ],
)
def test_the_inter_broker_listener_is_privileged(pairs, privileged):
    listeners = listeners_of(*pairs, ("ssl.keystore.location", "/k.pem"))
    assert [name for name, listener in listeners.items() if listener.is_privileged] == [privileged] * bool(privileged)


def test_one_listener_may_be_the_control_plane():
    pairs = (("listeners", "IN://h:1,ADMIN://h:2"), MAP)
    assert not any(listener.is_control_plane for listener in listeners_of(*pairs).values())
    listeners = listeners_of(*pairs, ("control.plane.listener.name", "ADMIN"))
    assert [listener.is_control_plane for listener in listeners.values()] == [False, True]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("listeners", "PLAINTEXT://h:99999")], "NAME://host:port"),
        ([("listeners", "9092")], "NAME://host:port"),
        ([("listeners", "IN://h:9092")], "no security protocol for IN"),
        (
            [("listeners", "CONTROLLER://h:1"), ("controller.listener.names", "CONTROLLER")],
            "every listener is the controller's",
        ),
        ([("listeners", "PLAINTEXT://h:1,plaintext://h:2")], "PLAINTEXT is the name of two listeners"),
        ([("listeners", "IN://h:1,ADMIN://h:1"), MAP], "more than one listener has port 1"),
        ([("listeners", "IN://127.0.0.1:1,ADMIN://127.0.0.2:1"), MAP], "more than one listener has port 1"),
        ([("listener.security.protocol.map", "PLAINTEXT")], "NAME:PROTOCOL"),
        ([("listener.security.protocol.map", "PLAINTEXT:TCP")], "'TCP' is not one of PLAINTEXT"),
        ([("advertised.listeners", "PLAINTEXT://0.0.0.0:1")], "clients cannot connect to this address"),
        ([("advertised.listeners", "PLAINTEXT://[::]:1")], "clients cannot connect to this address"),
        ([("advertised.listeners", "SSL://h:1")], "unknown listener SSL. Use one of PLAINTEXT"),
        ([("inter.broker.listener.name", "OUT")], "unknown listener 'OUT'. Use one of PLAINTEXT"),
        ([("control.plane.listener.name", "OUT")], "unknown listener 'OUT'. Use one of PLAINTEXT"),
        ([("control.plane.listener.name", "PLAINTEXT")], "another listener must serve the data"),
        (
            [("inter.broker.listener.name", "PLAINTEXT"), ("security.inter.broker.protocol", "PLAINTEXT")],
            "Only one of inter.broker.listener.name and security.inter.broker.protocol",
        ),
        ([("max.connection.creation.rate", "0")], "no client could connect"),
        ([("listener.name.plaintext.max.connections", "0")], "listener.name.plaintext.max.connections: 0 is not"),
        ([("listener.name.plaintext.max.connection.creation.rate", "0")], "no client could connect"),
        ([("listener.name.PLAINTEXT.max.connections", "1")], "must be in lower case"),
        ([("listener.name.plaintext.max.connections", "x")], "listener.name.plaintext.max.connections: 'x'"),
    ],
)
def test_contradictory_properties_are_refused_in_one_line(pairs, message):
    assert message in str(refusal_of(*pairs))


def test_an_ipv4_and_an_ipv6_listener_may_share_a_port():
    assert len(listeners_of(("listeners", "IN://127.0.0.1:5,ADMIN://[::1]:5"), MAP)) == 2
    assert len(listeners_of(("listeners", "IN://127.0.0.1:0,ADMIN://127.0.0.1:0"), MAP)) == 2


def test_a_client_receives_kafkas_message():
    listed = "IN://127.0.0.1:1,ADMIN://127.0.0.1:1"
    shown = listed.replace(",", ", ")
    assert refusal_of(("listeners", listed), MAP).client_message == (
        f"Error creating broker listeners from '[{shown}]': If you have two listeners on the same port then one needs"
        f" to be IPv4 and the other IPv6, listeners: [{shown}], port: 1"
    )
    assert refusal_of(("listeners", "NEW://h:1")).client_message == (
        "Error creating broker listeners from '[NEW://h:1]': No security protocol defined for listener NEW"
    )
    assert refusal_of(("listeners", "nonsense")).client_message == (
        "Error creating broker listeners from '[nonsense]': Unable to parse nonsense to a broker endpoint"
    )
    assert refusal_of(("listeners", "IN://h:1,IN://h:2"), MAP).client_message == (
        "Error creating broker listeners from '[IN://h:1, IN://h:2]': Each listener must have a different name,"
        " listeners: [IN://h:1, IN://h:2]"
    )
    assert refusal_of(("listeners", "IN://h:1"), ("advertised.listeners", "ADMIN://h:1"), MAP).client_message == (
        "requirement failed: advertised.listeners listener names must be equal to or a subset of the ones defined in"
        " listeners. Found ADMIN. The valid options based on the current configuration are IN"
    )


def test_the_command_line_moves_the_first_served_listener():
    config, _ = parse_settings(
        [("listeners", "CONTROLLER://h:1,IN://h:2,ADMIN://h:3"), ("controller.listener.names", "CONTROLLER"), MAP]
    )
    moved = config.with_endpoint("::1", 0)
    assert moved.listeners == ("CONTROLLER://h:1", "IN://[::1]:0", "ADMIN://h:3")
    assert moved.properties["listeners"] == "CONTROLLER://h:1,IN://[::1]:0,ADMIN://h:3"
    assert config.with_endpoint(None, 7).listeners[1] == "IN://h:7"
