"""An unknown name is ignored with a warning, unless it is a misspelling of a known one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline_broker.config.properties import ConfigError, broker_properties
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.config.unknown_names import EDITS_MAX, FORMER_NAMES, edits, misspelled

NAMES = sorted(broker_properties())
IGNORED = [
    "zookeeper.connect", "zookeeper.connection.timeout.ms", "host.name", "port", "advertised.host.name",
    "log.message.format.version", "inter.broker.protocol.version", "confluent.metadata.server.listeners",
    "confluent.support.metrics.enable", "kafka.ganglia.metrics.reporter.enabled", "kafka.timeline.metrics.hosts",
    "cruise.control.metrics.reporter.bootstrap.servers", "strimzi.authorization.token.endpoint.uri",
    "listener.name.external.oauth.client.id", "auto.include.jmx.reporter.strimzi", "my.own.plugin",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num.io.treads", "num.io.threads"),
        ("num.partitons", "num.partitions"),
        ("log.retension.hours", "log.retention.hours"),
        ("lisetners", "listeners"),
        ("zookeeper.connect", None),
        ("listener.name.external.ssl.client.auht", "listener.name.external.ssl.client.auth"),
        ("listener.name.x.plain.sasl.jaas.confg", "listener.name.x.plain.sasl.jaas.config"),
        ("num.io.threads.of.mine", None),
        ("port", None),
        ("", None),
    ],
)
def test_a_name_within_two_edits_of_a_known_one_is_a_misspelling(name, meant):
    assert misspelled(name, NAMES) == meant


@given(st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_edits_returns_the_levenshtein_distance(first, second):
    def distance(one, other):
        if not one or not other:
            return len(one) + len(other)
        return min(
            distance(one[1:], other) + 1,
            distance(one, other[1:]) + 1,
            distance(one[1:], other[1:]) + (one[0] != other[0]),
        )

    expected = distance(first, second)
    assert edits(first, second) == expected or (expected > EDITS_MAX and edits(first, second) > EDITS_MAX)


@given(st.sampled_from(NAMES), st.integers(0, 60), st.sampled_from("ax."))
@example("config.providers", 60, ".")  # the prefix of the providers' own properties, without a name
def test_one_letter_too_many_is_refused_with_the_intended_name(name, place, letter):
    wrong = name[:place] + letter + name[place:]
    if wrong in broker_properties() or wrong in FORMER_NAMES:
        return
    with pytest.raises(ConfigError, match="did you mean"):
        parse_settings([(wrong, "1")])


def test_names_of_other_releases_and_programs_are_ignored_with_one_warning():
    config, warnings = parse_settings([(name, "x") for name in IGNORED])
    (warning,) = [line for line in warnings if "this broker ignores" in line]
    assert all(name in warning for name in IGNORED)
    assert set(IGNORED) <= set(config.properties), "a client sees them, as in Kafka"


def test_no_known_name_is_a_former_one_by_mistake():
    assert all(misspelled(name, NAMES) is None for name in FORMER_NAMES)


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(ConfigError) as refused:
        parse_settings([("num.io.treads", "4"), ("num.partitions", "x"), ("log.retension.hours", "1"), ("port", "1")])
    lines = str(refused.value).splitlines()
    assert len(lines) == 3
    assert [line.partition("'")[2].partition("'")[0] for line in lines] == ["num.io.treads", "x", "log.retension.hours"]
