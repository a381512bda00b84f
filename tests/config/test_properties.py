import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.config.properties import (
    ConfigError,
    Property,
    broker_properties,
    format_value,
    properties_of,
    topic_properties,
    unknown_property,
)
from tests.drawn import drawn, measured


def make_property(kind, values="-"):
    return Property(name="some.name", type=kind, default=None, values=values)


@pytest.mark.parametrize("properties", [broker_properties(), topic_properties()], ids=["broker", "topic"])
def test_every_default_is_allowed_and_canonical(properties):
    for definition in properties.values():
        if definition.default is not None and definition.type != "double":
            assert definition.canonical(definition.default) == definition.default, definition.name


@pytest.mark.parametrize(
    ("scope", "name", "default"),
    [
        ("topic", "max.message.bytes", "1048588"),
        ("topic", "retention.ms", str(168 * 3_600_000)),
        ("topic", "flush.ms", str(2**63 - 1)),
        ("group", "consumer.session.timeout.ms", "45000"),
        ("group", "share.auto.offset.reset", "latest"),
    ],
)
def test_a_setting_has_the_default_of_the_broker_property_from_which_it_inherits(scope, name, default):
    assert properties_of(scope)[name].default == default


def test_every_topic_setting_names_an_existing_broker_property():
    inherited = {definition.broker_property for definition in topic_properties().values()} - {None}
    assert inherited <= set(broker_properties())


@pytest.mark.parametrize(
    ("kind", "values", "text", "value"),
    [
        ("int", "1..", " +7 ", 7),
        ("long", "-2..", "-2", -2),
        ("int", "1..9|-1", "-1", -1),
        ("short", "-", "32767", 32767),
        ("double", "0..1", "0.25", 0.25),
        ("boolean", "-", "TRUE", True),
        ("list", "of a,b", " b , a,", ("b", "a")),
        ("list", "-", "", ()),
        ("string", "anycase UP,DOWN", "up", "up"),
        ("password", "-", "x", "x"),
    ],
)
def test_texts_become_values(kind, values, text, value):
    assert make_property(kind, values).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "values", "text", "reason"),
    [
        ("int", "1..", "0", "at least 1"),
        ("int", "1..9|-1", "10", "no more than 9"),
        ("int", "-", "3000000000", "type int"),
        ("short", "-", "40000", "type short"),
        ("long", "-", "soon", "type long"),
        ("int", "-", "1.5", "type int"),
        ("int", "-", "9" * 5000, "type int"),
        ("int", "-", "٣", "type int"),
        ("double", "0..1", "1.5", "no more than 1"),
        ("double", "0..1", "nan", "type double"),
        ("double", "-", "inf", "type double"),
        ("double", "-", "1e400", "type double"),
        ("double", "-", "1_0", "type double"),
        ("double", "-", "9" * 5000, "type double"),
        ("boolean", "-", "yes", "true or false"),
        ("list", "of a,b", "a,c", "one of a, b"),
        ("string", "anycase UP,DOWN", "left", "one of UP, DOWN"),
    ],
)
def test_wrong_values_are_refused_in_one_line_that_names_the_property(kind, values, text, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        make_property(kind, values).parse(text)
    assert str(caught.value).startswith("some.name: ")
    assert "\n" not in str(caught.value)


@given(st.text())
def test_an_error_never_shows_a_secret(text):
    definition = make_property("password", "of nothing")
    with pytest.raises(ConfigError) as caught:
        definition.parse("secret" + text)
    assert "secret" not in str(caught.value)


numbers = st.integers(-(2**63), 2**63).map(str) | st.integers(-200, 200).map(str) | st.floats().map(str)
texts = st.text() | numbers | st.sampled_from(["true", "FALSE", "a,b", " 1 "])


@measured(number=0.05, other=0.1, refused=0.1)
@given(st.sampled_from(["short", "int", "long", "double", "boolean", "list", "string"]), texts)
def test_any_text_parses_to_a_stable_form_or_raises_config_error(kind, text):
    definition = make_property(kind)
    try:
        value = definition.parse(text)
    except ConfigError:
        drawn("refused")
        return
    drawn("number" if kind in {"short", "int", "long", "double"} else "other")
    assert definition.canonical(format_value(value)) == format_value(value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("num.io.thread", "num.io.threads"),
        ("num_io_threads", "num.io.threads"),
        ("mesage.max.bytes", "message.max.bytes"),
    ],
)
def test_an_unknown_name_gets_a_hint_with_the_nearest_one(name, nearest):
    assert str(unknown_property(name, broker_properties())).endswith(f"did you mean {nearest}?")


def test_a_name_unlike_any_other_gets_no_hint():
    assert str(unknown_property("%%%%%%%%", broker_properties())) == "unknown property '%%%%%%%%'"
