"""`pipeline-broker config` against a broker."""

import pytest


def settings(called):
    return {row["name"]: row["value"] for row in called.json["settings"]}


@pytest.mark.parametrize(
    ("kind", "subject", "setting", "value"),
    [
        ("topic", ["NAME"], "retention.ms", "5000"),
        ("broker", ["1"], "log.cleaner.backoff.ms", "20000"),
        ("broker", ["--default"], "log.cleaner.backoff.ms", "21000"),
        ("group", ["NAME"], "consumer.session.timeout.ms", "46000"),
        ("client-metrics", ["NAME"], "interval.ms", "5000"),
        ("client", ["NAME"], "producer_byte_rate", "1048576"),
        ("client", ["--default"], "consumer_byte_rate", "2048"),
        ("user", ["NAME"], "request_percentage", "12.5"),
        ("ip", ["127.0.0.9"], "connection_creation_rate", "10"),
    ],
)
def test_settings_are_set_shown_and_deleted(call, name, kind, subject, setting, value):
    subject = [it.replace("NAME", name) for it in subject]
    if kind == "topic":
        call("topics", "create", name)
    changed = call("config", "set", kind, *subject, f"{setting}={value}")
    assert changed.out.startswith(f"changed {setting} of ")
    assert settings(call("config", "get", kind, *subject, "--json"))[setting] == value
    assert settings(call("config", "get", kind, *subject, setting, "--json")) == {setting: value}
    assert call("config", "delete", kind, *subject, setting, "--json").json["changed"] == [setting]
    found = settings(call("config", "get", kind, *subject, "--json"))
    assert found.get(setting) != value


def test_default_values_are_shown_on_request(call, name):
    call("topics", "create", name)
    assert call("config", "get", "topic", name, "--json").json == {"kind": "topic", "name": name, "settings": []}
    shown = call("config", "get", "topic", name, "--all", "--json")
    assert settings(shown)["cleanup.policy"] == "delete"
    heading, line = call("config", "get", "topic", name, "cleanup.policy").lines
    assert (heading.split(), line.split()) == (["NAME", "VALUE", "SOURCE"], ["cleanup.policy", "delete", "default"])


def test_secret_values_are_not_shown(call):
    call("config", "set", "broker", "1", "listener.name.plaintext.ssl.keystore.password=hidden")
    called = call("config", "get", "broker", "1")
    assert "hidden" not in called.out
    (line,) = [line for line in called.lines if "keystore.password" in line]
    assert "(secret)" in line
    call("config", "delete", "broker", "1", "listener.name.plaintext.ssl.keystore.password")


def test_several_settings_change_together_or_not_at_all(call, name):
    call("topics", "create", name)
    called = call("config", "set", "topic", name, "retention.ms=5", "nope=1", code=1)
    assert "nope (INVALID_CONFIG)" in called.err
    assert call("config", "get", "topic", name, "--json").json["settings"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["get", "topic", "nowhere"], 1, "unknown topic 'nowhere'"),
        (["set", "topic", "nowhere", "retention.ms=5"], 1, "unknown topic 'nowhere'"),
        (["get", "broker", "7"], 1, "unknown broker 7. Use one of 1"),
        (["get", "broker", "1", "nope"], 1, "broker 1 has no setting nope"),
        (["set", "broker", "1", "num.io.threads=many"], 1, "Not a number of type INT"),
        (["set", "client", "app", "producer_byte_rate=fast"], 1, "'fast' is not a number"),
        (["set", "client", "app", "nope=1"], 1, "(INVALID_REQUEST)"),
        (["set", "topic", "t"], 2, "nothing to change"),
        (["set", "topic", "t", "retention.ms"], 2, "expected NAME=VALUE"),
        (["get", "topic"], 2, "topic needs a name: give NAME"),
        (["get", "broker"], 2, "broker needs a name: give NAME or --default"),
        (["get", "topic", "--default"], 2, "topics have no default: give NAME"),
        (["set", "topic", "--default", "retention.ms=5"], 2, "topics have no default: give NAME"),
        (["get", "tpic", "t"], 2, "'KIND': 'tpic' is not one of"),
    ],
)
def test_an_error_is_one_line(call, arguments, code, message):
    called = call("config", *arguments, code=code)
    assert called.err.startswith("Error: ")
    assert message in called.err
    assert (called.err.count("\n"), called.out) == (1, "")
