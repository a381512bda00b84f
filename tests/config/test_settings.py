import re
from pathlib import Path

import attrs
import pytest

from pipeline_broker.config.group_settings import ConsumerGroupSettings, ShareGroupSettings, StreamsGroupSettings
from pipeline_broker.config.listeners import LISTENER_PROPERTIES
from pipeline_broker.config.properties import COARSER, ConfigError, broker_properties, properties_of, topic_properties
from pipeline_broker.config.settings import (
    DEAD_LETTERS_ENABLED,
    FIELDS,
    BrokerConfig,
    config_with,
    is_topic_setting_acted_on,
    load_settings,
    parse_settings,
    warning_of_change,
)
from pipeline_broker.config.topic_settings import TopicSettings

SOURCE = Path(__file__).parents[2] / "pipeline_broker"
VIEWS_OF_GROUPS = (ConsumerGroupSettings, ShareGroupSettings, StreamsGroupSettings)
TYPES = {"boolean": "bool", "int": "int", "list": "tuple[str, ...]", "long": "int", "double": "float"}
TOPIC_FIELDS = {field.replace("_", ".") for field in TopicSettings._fields}


def test_the_fields_are_the_properties_acted_on_with_their_defaults():
    config = BrokerConfig()
    for name in FIELDS & broker_properties().keys():
        definition = broker_properties()[name]
        expected = None if definition.default is None else definition.parse(definition.default)
        assert getattr(config, name.replace(".", "_")) == expected, name


def test_fields_have_the_types_of_their_properties():
    for name in FIELDS & broker_properties().keys():
        definition, field = broker_properties()[name], attrs.fields_dict(BrokerConfig)[name.replace(".", "_")]
        assert field.type == TYPES.get(definition.type, "str") + " | None" * (definition.default is None), name
    for view in VIEWS_OF_GROUPS:
        for field in attrs.fields(view):
            definition = properties_of("group")[f"{view.KIND}.{field.name.replace('_', '.')}"]
            assert field.type == TYPES.get(definition.type, "str"), field.name
    for field, declared in TopicSettings.__annotations__.items():
        assert declared.__forward_arg__ == TYPES.get(topic_properties()[field.replace("_", ".")].type, "str"), field


def test_every_property_acted_on_says_what_it_means_and_no_other_does():
    documented = {name for name, definition in broker_properties().items() if definition.documentation}
    fields = FIELDS & broker_properties().keys()
    inherited = {topic_properties()[name].broker_property for name in TOPIC_FIELDS | {"min.insync.replicas"}} - {None}
    inherited |= {coarser for name in inherited for coarser, _ in COARSER.get(name, ())}
    assert documented == fields | LISTENER_PROPERTIES | inherited | {"broker.id", "log.dir"}
    assert not fields & inherited


def test_topic_settings_that_inherit_from_a_property_acted_on_are_the_fields():
    """One replica exists, so `min.insync.replicas` is acted on without a field."""
    acted_on = {name for name in topic_properties() if is_topic_setting_acted_on(name)}
    strategies = {f"confluent.{part}.subject.name.strategy" for part in ("key", "value")}
    assert acted_on == TOPIC_FIELDS | {"min.insync.replicas", DEAD_LETTERS_ENABLED} | strategies


def test_every_field_is_read_somewhere():
    code = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    by_kind = {
        f"group_{view.KIND}_{bound}{name}"
        for view in VIEWS_OF_GROUPS
        for name in view.inherited()
        for bound in ("", "min_", "max_")
    }
    fields = {name: field for name in FIELDS if (field := name.replace(".", "_")) not in by_kind}
    assert {name for name, field in fields.items() if not re.search(rf"(config|self)\.{field}\b", code)} == set()


def test_a_dynamic_property_changes_the_configuration():
    started, _ = parse_settings([("max.connections", "5"), ("num.partitions", "2")])
    changed = config_with(started, {"max.connections": "7", "log.retention.ms": "1", "num.partitions": "9"})
    assert (changed.max_connections, changed.num_partitions) == (7, 2)
    assert changed.properties == started.properties
    assert config_with(started, {}) == started
    with pytest.raises(ConfigError, match="only with"):
        config_with(started, {"max.connections.per.ip": "0"})


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_a_dynamic_property_of_groups_stays_within_the_limits_of_the_broker(kind):
    started, _ = parse_settings([(f"group.{kind}.max.assignment.interval.ms", "5000")])
    name = f"group.{kind}.assignment.interval.ms"
    assert config_with(started, {name: "5000"}).texts[name] == "5000"
    with pytest.raises(ConfigError, match=rf"and group.{kind}.max.assignment.interval.ms \(5000\)"):
        config_with(started, {name: "5001"})


def test_without_settings_all_defaults_apply_without_a_warning():
    assert parse_settings([]) == (BrokerConfig(), [])


def test_settings_are_parsed_and_kept_in_canonical_form():
    config, warnings = parse_settings([("num.io.threads", " +4"), ("auto.create.topics.enable", "False")])
    assert (config.num_io_threads, config.auto_create_topics_enable) == (4, False)
    assert config.properties == {"num.io.threads": "4", "auto.create.topics.enable": "false"}
    assert warnings == []


def test_a_later_setting_wins_over_an_earlier_one_and_arguments_over_files(tmp_path):
    first, second = tmp_path / "a.properties", tmp_path / "b.toml"
    first.write_text("num.io.threads=1\nnum.partitions=2\nnum.network.threads=5")
    second.write_text("num.io.threads = 3\nnum.partitions = 4")
    config, _ = load_settings([first, second], ["num.partitions=6"])
    assert (config.num_network_threads, config.num_io_threads, config.num_partitions) == (5, 3, 6)


def test_one_warning_names_all_properties_without_effect_except_those_that_describe_a_single_broker():
    as_it_is = [
        ("process.roles", "broker,controller"),
        ("offsets.topic.replication.factor", "1"),
        ("transaction.state.log.min.isr", "1"),
    ]
    idle = [("log.cleaner.threads", "2"), ("transaction.state.log.replication.factor", "3"), ("rsm.config.x", "3")]
    _, warnings = parse_settings([*as_it_is, *idle])
    (line,) = warnings
    names = "log.cleaner.threads, transaction.state.log.replication.factor, rsm.config.x"
    assert line == f"warning: {names} are accepted, but this broker does not act on them"
    assert parse_settings(as_it_is)[1] == []


@pytest.mark.parametrize("name", ["ssl.engine.factory.class", "listener.name.plaintext.num.partitions", "rsm.config.x"])
def test_a_property_without_effect_gives_one_warning(name):
    _, warnings = parse_settings([(name, "3"), (name, "3")])
    assert warnings == [f"warning: {name} is accepted, but this broker does not act on it"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("num.io.threds", "8", "did you mean num.io.threads?"),
        ("listener.name.external.max.connection", "8", "did you mean listener.name.external.max.connections?"),
        ("super.users", "User:CN=duke,OU=x;admin", "'admin' is not of the form User:name"),
        ("super.users", "User:", "'User:' is not of the form User:name"),
        ("num.io.threads", "0", "at least 1"),
        ("ssl.client.auth", "maybe", "one of required, requested, none"),
        ("pipeline.commit", "later", "one of request, group"),
        ("pipeline.in.flight", "0", "at least 1"),
        ("queued.max.request.bytes", "5", "at least socket.request.max.bytes"),
        ("max.connections.per.ip", "0", "only with max.connections.per.ip.overrides"),
        ("max.connections.per.ip.overrides", "host", "host:limit"),
        ("max.connections.per.ip.overrides", "[::1]:1", "'[::1]' is not a host"),
        ("max.connections.per.ip.overrides", "a b:1", "'a b' is not a host"),
        ("max.connections.per.ip.overrides", "*:1", "'*' is not a host"),
        ("max.connections.per.ip.overrides", "127.0.0.1:99999999999", "host:limit"),
        ("group.min.session.timeout.ms", "1900000", "must not be above"),
        ("connection.failed.authentication.delay.ms", "600000", "below connections.max.idle.ms"),
        ("authorizer.class.name", "com.example.Authorizer", "StandardAuthorizer"),
        ("broker.id", "-3", "at least 0"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(name, text, message):
    with pytest.raises(ConfigError) as caught:
        parse_settings([(name, text)])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["super.users", "allow.everyone.if.no.acl.found"])
def test_authorizer_properties_without_an_authorizer_give_a_warning(name):
    text = "User:a" if name == "super.users" else "true"
    _, warnings = parse_settings([(name, text)])
    assert warnings == [
        f"warning: {name} has no effect: authorizer.class.name is not set, so every client may do everything"
    ]
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert parse_settings([(name, text), ("authorizer.class.name", authorizer)])[1] == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("num.io.threads", None),
        ("listener.name.external.max.connections", None),
        ("num.io.thread", "num.io.thread is stored, but Kafka has no such property; did you mean num.io.threads?"),
        ("num.replica.fetchers", "num.replica.fetchers is accepted, but this broker does not act on it"),
        ("rsm.config.x", "rsm.config.x is accepted, but this broker does not act on it"),
    ],
)
def test_a_change_without_effect_gives_a_warning_with_its_reason(name, line):
    assert warning_of_change(name) == line


def test_kafkas_own_properties_for_one_node_are_accepted():
    config, _ = parse_settings(
        [
            ("process.roles", "broker,controller"),
            ("node.id", "7"),
            ("listeners", "PLAINTEXT://:9092,CONTROLLER://:9093"),
            ("advertised.listeners", "PLAINTEXT://[::1]:9092,CONTROLLER://localhost:9093"),
            ("controller.listener.names", "CONTROLLER"),
            ("log.dirs", "/tmp/kraft-combined-logs"),
            ("offsets.topic.replication.factor", "1"),
        ]
    )
    assert config.node_id == 7
    (listener,) = config.listener_configs
    assert (listener.host, listener.port) == ("", 9092)
    assert (listener.advertised_host, listener.advertised_port) == ("::1", 9092)
    assert config.directory(None) == Path("/tmp/kraft-combined-logs")


def test_former_names_set_the_current_properties():
    config, warnings = parse_settings([("broker.id", "4"), ("log.dir", "/a")])
    assert (config.node_id, config.directory(None), warnings) == (4, Path("/a"), [])
    with pytest.raises(ConfigError, match="must agree"):
        parse_settings([("broker.id", "4"), ("node.id", "5")])
    assert parse_settings([("log.dirs", "/b"), ("log.dir", "/a")])[0].directory(None) == Path("/b")


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_the_id_is_a_setting_under_both_of_its_names(name):
    config, _ = parse_settings([(name, "4")])
    assert config.properties == {"node.id": "4", "broker.id": "4"}


def test_connection_limits_of_single_addresses_are_parsed():
    config, _ = parse_settings([("max.connections.per.ip.overrides", "127.0.0.1:3, ::1:4")])
    assert config.connection_limit_overrides() == {"127.0.0.1": 3, "::1": 4}


def test_a_configuration_cannot_be_changed():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        BrokerConfig().num_io_threads = 3


def test_an_error_names_the_place_that_made_the_setting(tmp_path):
    first, second = tmp_path / "a.properties", tmp_path / "b.properties"
    first.write_text("num.partitions=x\nnum.io.threads=x\nlog.dir=/d\n")
    second.write_text("\nnum.io.threads=y\n")
    with pytest.raises(ConfigError) as caught:
        load_settings((first, second), ("max.connections=z",))
    assert str(caught.value).splitlines() == [
        f"{first}, line 1: num.partitions: 'x' is not allowed: not a number of type int",
        f"{second}, line 2: num.io.threads: 'y' is not allowed: not a number of type int",
        "max.connections: 'z' is not allowed: not a number of type int",
    ]
    with pytest.raises(ConfigError, match=r"^num\.io\.threads: 'z' is not"):
        load_settings((second,), ("num.io.threads=z",))


def test_a_retention_below_minus_one_is_accepted_with_a_warning_as_it_means_forever():
    for name in ("log.retention.hours", "log.retention.minutes"):
        _, warnings = load_settings((), (f"{name}=-5",))
        assert warnings == [f"warning: {name}=-5 keeps records forever, like -1"]
        assert load_settings((), (f"{name}=-1",))[1] == []
