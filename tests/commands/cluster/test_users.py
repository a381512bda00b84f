"""`pipeline-broker users` against a broker with SCRAM."""

import time
from contextlib import suppress

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from pipeline_broker import EmbeddedBroker
from tests.commands.cluster.conftest import CommandLine

LOG_IN_SECONDS_MAX = 30.0
LOGIN = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
}


@pytest.fixture(scope="module")
def guarded():
    with EmbeddedBroker(settings=LOGIN) as embedded:
        yield embedded


@pytest.fixture
def call(guarded):
    return CommandLine(guarded.bootstrap_servers)


def may_log_in(broker, user, password, mechanism):
    """Return whether librdkafka can authenticate."""
    refused = []
    admin = AdminClient(
        {
            "bootstrap.servers": "{}:{}".format(*broker.addresses["SASL"]),
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "error_cb": lambda error: refused.append(error.code()),
            "log_level": 0,
        }
    )
    deadline = time.monotonic() + LOG_IN_SECONDS_MAX
    while time.monotonic() < deadline:
        with suppress(confluent_kafka.KafkaException):
            admin.list_topics(timeout=0.2)
            return True
        admin.poll(0)
        if confluent_kafka.KafkaError._AUTHENTICATION in refused:
            return False
    raise AssertionError(refused)


def test_a_user_logs_in_with_the_new_password(call, guarded, name):
    shown = call("users", "set", name, data=b"secret\n")
    assert shown.out == f"set the password of {name} for SCRAM-SHA-256 and SCRAM-SHA-512\n"
    assert may_log_in(guarded, name, "secret", "SCRAM-SHA-256")
    assert may_log_in(guarded, name, "secret", "SCRAM-SHA-512")
    assert not may_log_in(guarded, name, "wrong", "SCRAM-SHA-512")
    call("users", "set", name, "--mechanism", "scram-sha-512", data=b"other")
    assert may_log_in(guarded, name, "other", "SCRAM-SHA-512")
    assert may_log_in(guarded, name, "secret", "SCRAM-SHA-256")


def test_users_are_listed_with_their_mechanisms(call, name, tmp_path):
    (tmp_path / "password").write_text("secret\nnot this\n")
    file = ["--password-file", tmp_path / "password"]
    (tmp_path / "password").chmod(0o644)
    said = call("users", "set", name, *file, "--mechanism", "SCRAM-SHA-256", "--iterations", "8192").err
    assert said == f"Warning: other users may read {file[1]} (mode 0644). Run chmod 600 {file[1]}\n"
    assert call("users", "list", name, "--json").json == [
        {"user": name, "mechanism": "SCRAM-SHA-256", "iterations": 8192}
    ]
    assert name in call("users", "list").out


def test_a_deleted_user_cannot_log_in(call, guarded, name):
    call("users", "set", name, data=b"secret")
    assert call("users", "delete", name, "--mechanism", "SCRAM-SHA-256", "--json").json["deleted"] == ["SCRAM-SHA-256"]
    assert not may_log_in(guarded, name, "secret", "SCRAM-SHA-256")
    assert may_log_in(guarded, name, "secret", "SCRAM-SHA-512")
    assert call("users", "delete", name).out == f"deleted the password of {name} for SCRAM-SHA-512\n"
    assert f"user '{name}' has no SCRAM password" in call("users", "list", name, code=1).err
    assert f"user '{name}' has no SCRAM password" in call("users", "delete", name, code=1).err


@pytest.mark.parametrize(
    ("arguments", "data", "code", "message"),
    [
        (["set", "ada"], b"\n", 2, "the password is empty"),
        (["set", "ada", "--iterations", "100"], b"secret", 1, "iterations"),
        (["set", "ada", "--mechanism", "PLAIN"], b"secret", 2, "'PLAIN' is not one of"),
        (["set", "ada", "--password-file", "/nowhere"], b"", 2, "/nowhere"),
        (["delete", "ada", "--mechanism", "SCRAM-SHA-256"], b"", 1, "has no password for SCRAM-SHA-256"),
    ],
)
def test_an_error_is_one_line(call, arguments, data, code, message):
    called = call("users", *arguments, data=data, code=code)
    assert message in called.err
    assert called.err.count("\n") == 1
