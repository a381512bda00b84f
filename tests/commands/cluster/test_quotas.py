"""`pipeline-broker quotas` against a broker."""

import pytest


@pytest.mark.parametrize(
    ("entity", "words", "quota", "value", "shown"),
    [
        (["--user", "NAME"], {"user": "NAME"}, "request_percentage", "12.5", 12.5),
        (["--client", "NAME"], {"client-id": "NAME"}, "producer_byte_rate", "1048576", 1048576.0),
        (["--user", "NAME", "--client-defaults"], {"user": "NAME", "client-id": None}, "consumer_byte_rate", "9", 9.0),
        (["--user-defaults"], {"user": None}, "controller_mutation_rate", "5", 5.0),
        (["--ip", "127.0.0.8"], {"ip": "127.0.0.8"}, "connection_creation_rate", "10", 10.0),
        (["--ip-defaults"], {"ip": None}, "connection_creation_rate", "1000", 1000.0),
    ],
)
def test_quotas_are_set_listed_and_deleted(call, name, entity, words, quota, value, shown):
    entity = [it.replace("NAME", name) for it in entity]
    words = {kind: it and it.replace("NAME", name) for kind, it in words.items()}
    call("quotas", "set", *entity, f"{quota}={value}")
    assert {"entity": words, "quota": quota, "value": shown} in call("quotas", "list", "--json").json
    assert call("quotas", "list", *entity, "--json").json == [{"entity": words, "quota": quota, "value": shown}]
    assert call("quotas", "delete", *entity, "--json").json["changed"] == [quota]
    assert call("quotas", "list", *entity, "--json").json == []


def test_the_quotas_of_a_user_include_those_of_its_clients(call, name):
    call("quotas", "set", "--user", name, "producer_byte_rate=7", "consumer_byte_rate=8")
    call("quotas", "set", "--user", name, "--client", "app", "request_percentage=3")
    table = [line.split() for line in call("quotas", "list", "--user", name).lines]
    assert table[0] == ["USER", "CLIENT", "QUOTA", "VALUE"]
    assert sorted(table[1:]) == [
        [name, "-", "consumer_byte_rate", "8"],
        [name, "-", "producer_byte_rate", "7"],
        [name, "app", "request_percentage", "3"],
    ]
    assert call("quotas", "delete", "--user", name, "producer_byte_rate").lines == [
        f"deleted producer_byte_rate of user {name}"
    ]
    left = [row["quota"] for row in call("quotas", "list", "--user", name, "--json").json]
    assert sorted(left) == ["consumer_byte_rate", "request_percentage"]
    call("quotas", "delete", "--user", name)
    call("quotas", "delete", "--user", name, "--client", "app")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["set", "producer_byte_rate=1"], 2, "an entity is missing"),
        (["set", "--user", "ada", "--user-defaults", "producer_byte_rate=1"], 2, "give one of"),
        (["set", "--ip", "127.0.0.1", "--user", "ada", "connection_creation_rate=1"], 2, "--ip cannot be combined"),
        (["set", "--user", "ada", "producer_byte_rate=fast"], 1, "'fast' is not a number"),
        (["set", "--user", "ada", "nope=1"], 1, "(INVALID_REQUEST)"),
        (["delete", "--user", "nobody-has-this-name"], 1, "has no quota"),
    ],
)
def test_an_error_is_one_line(call, arguments, code, message):
    called = call("quotas", *arguments, code=code)
    assert message in called.err
    assert called.err.count("\n") == 1
