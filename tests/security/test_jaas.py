"""JAAS lines are read as Java's tokenizer reads them, and no error shows the value of an option."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.jaas import parse_jaas, users_of

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = "hunter2-secret"


def options(text):
    return parse_jaas(f"{MODULE} required {text};", MODULE).options


def test_kafkas_own_example_is_read():
    entry = parse_jaas(
        f'{MODULE} required username="admin" password="admin-secret" user_admin="admin-secret" user_alice="a b;c";',
        MODULE,
    )
    assert entry.options["username"] == "admin"
    assert users_of(entry) == {"admin": "admin-secret", "alice": "a b;c"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x=plain", "plain"),
        ("x = spaced", "spaced"),
        ("x='single \"inside\"'", 'single "inside"'),
        (r'x="a\"b\\c"', 'a"b\\c'),
        (r'x="\101\t\7"', "A\t\a"),
        ('x=""', ""),
        ("/* a comment */ x=1 // and one to the end of the line\n", "1"),
        ("x=\n\ty", "y"),
    ],
)
def test_values_are_quoted_and_escaped_as_in_java(text, value):
    assert options(text) == {"x": value}


@pytest.mark.parametrize("flag", ["required", "REQUIRED", "requisite", "sufficient", "optional"])
def test_every_flag_of_java_is_taken(flag):
    assert parse_jaas(f"{MODULE} {flag};", MODULE).options == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        MODULE,
        f"{MODULE} perhaps;",
        f"{MODULE} required",
        f'{MODULE} required user_a="{SECRET}"',
        f'{MODULE} required user_a="{SECRET};',
        f"{MODULE} required user_a={SECRET}@;",
        f"{MODULE} required user_a {SECRET};",
        f'{MODULE} required "{SECRET}"=x;',
        f'{MODULE} required user_a="{SECRET}" user_a="{SECRET}";',
        f'{MODULE} required user_a="{SECRET}"; {MODULE} required;',
        f"{MODULE} required user_a=;",
        f"{MODULE} required user_a=my {SECRET};",
        f"{MODULE} required user_a=my {SECRET}=1 {SECRET}=2;",
        f"{MODULE} required a=b a=b;",
        f"{SECRET} required;",
        f"{MODULE} {SECRET};",
        f'other.Module required user_a="{SECRET}";',
    ],
)
def test_an_error_is_one_line_without_secrets(text):
    with pytest.raises(ConfigError) as caught:
        parse_jaas(text, MODULE)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "has_hint"), [(f"{MODULE} required user_a=a@b;", True), (f"{MODULE} required user_a;", False)]
)
def test_the_refusal_of_a_value_suggests_quotes(text, has_hint):
    with pytest.raises(ConfigError) as caught:
        parse_jaas(text, MODULE)
    assert ("must be quoted" in str(caught.value)) is has_hint


def test_the_refusal_of_a_section_of_a_jaas_file_names_the_part_to_keep():
    with pytest.raises(ConfigError, match="Keep only the login module and its options up to the first ;"):
        parse_jaas(f'KafkaServer {{\n  {MODULE} required\n  user_a="{SECRET}";\n}};', MODULE)


def test_an_entry_is_printed_without_its_options():
    assert SECRET not in repr(parse_jaas(f'{MODULE} required user_a="{SECRET}";', MODULE))


@given(value=st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",))))
def test_any_text_can_be_quoted(value):
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert options(f'x="{quoted}"') == {"x": value}


@given(text=st.text(string.printable))
def test_any_line_is_read_or_refused(text):
    try:
        parse_jaas(f"{MODULE} {text}", MODULE)
    except ConfigError as error:
        said = str(error)
    else:
        said = ""
    assert "\n" not in said
