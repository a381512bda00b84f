"""The load client against brokers with authentication, in one process and in several, and in transactions."""

import json

import pytest
import trustme
from click.testing import CliRunner

from pipeline_broker.commands.load import load
from pipeline_broker.measure.experiment.broker_process import BrokerSettings, running
from tests.secured_broker import MECHANISMS, secured_settings, write_authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return write_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def address(authority, tmp_path_factory):
    data = tmp_path_factory.mktemp("secured") / "data"
    settings = BrokerSettings("pipelined", data, flush="os", properties=tuple(secured_settings(authority).items()))
    with running([settings]) as (broker,):
        yield f"{broker.host}:{broker.port}"


def run(address, properties, *arguments, code=0):
    settings = [word for name, value in properties.items() for word in ("--set", f"{name}={value}")]
    result = CliRunner().invoke(load, [address, "--seconds", "0.3", "--json", *settings, *arguments])
    assert result.exit_code == code, result.output
    return result.output


def proof(authority, **changes):
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ada",
        "sasl.password": "secret",
        "ssl.ca.location": authority / "authority.pem",
        "ssl.certificate.location": authority / "client.pem",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_is_spoken_over_tls(address, authority, mechanism):
    arguments = ["--connections", "2", "--in-flight", "5", "--read-share", "0.2"]
    found = json.loads(run(address, proof(authority, sasl_mechanism=mechanism), *arguments))
    assert found["answered"] == found["requests"] > 0
    assert (found["errors"], found["order_violations"]) == (0, 0)


def test_single_properties_override_a_file_of_properties(address, authority, tmp_path):
    path = tmp_path / "client.properties"
    given = proof(authority, sasl_password="wrong")
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()), encoding="utf-8")
    path.chmod(0o600)
    found = json.loads(run(address, {"sasl.password": "secret"}, "--command-config", str(path)))
    assert found["answered"] > 0
    assert "SASL_AUTHENTICATION_FAILED" in run(address, {}, "-F", str(path), code=1)


def test_a_plaintext_client_on_a_tls_port_gets_a_hint_about_security(address):
    assert "the broker closed the connection: check security.protocol" in run(address, {}, code=1)


def test_processes_receive_the_security_properties(address, authority):
    arguments = ["--processes", "2", "--connections", "2", "--transaction", "3"]
    found = json.loads(run(address, proof(authority, sasl_mechanism="SCRAM-SHA-256"), *arguments))
    assert found["processes"] == 2
    assert found["errors"] == 0
    assert found["transactions"] > 0


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"sasl_password": "wrong"}, "ada by PLAIN: the broker answered SASL_AUTHENTICATION_FAILED"),
        ({"sasl_password": "wrong", "sasl_mechanism": "SCRAM-SHA-512"}, "SASL_AUTHENTICATION_FAILED"),
    ],
)
def test_a_wrong_password_gives_a_one_line_error(address, authority, changes, refusal):
    output = run(address, proof(authority, **changes), code=1)
    assert refusal in output
    assert len(output.splitlines()) == 1


def test_a_broker_with_an_untrusted_certificate_is_refused(address, authority, tmp_path):
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    output = run(address, proof(authority, ssl_ca_location=tmp_path / "other.pem"), code=1)
    assert "the TLS handshake with the broker failed" in output
    assert len(output.splitlines()) == 1


def test_a_broker_without_tls_gives_a_one_line_error(authority, tmp_path):
    with running([BrokerSettings("pipelined", tmp_path / "data", flush="os")]) as (broker,):
        output = run(f"{broker.host}:{broker.port}", proof(authority), code=1)
    assert len(output.splitlines()) == 1
    assert output.startswith("Error: ")


def test_an_unknown_property_is_a_usage_error():
    assert "did you mean sasl.username" in run("localhost:1", {"sasl.user": "x"}, code=2)
    result = CliRunner().invoke(load, ["localhost:1", "--set", "security.protocol"])
    assert result.exit_code == 2
    assert "expected NAME=VALUE" in result.output


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_transactions_with_keys_and_batches_are_committed(mode, tmp_path):
    settings = BrokerSettings(mode, tmp_path / "data", flush="os")
    arguments = ["--transaction", "4", "--connections", "3", "--in-flight", "8", "--batch", "5", "--keys", "9"]
    with running([settings]) as (broker,):
        found = json.loads(run(f"{broker.host}:{broker.port}", {}, *arguments))
        said = CliRunner().invoke(load, [f"{broker.host}:{broker.port}", "--seconds", "0.2", "--transaction", "1"])
    kinds = {kind: figures["requests"] for kind, figures in found["by_kind"].items()}
    assert kinds == {"produce": 4 * found["transactions"], "end of transaction": found["transactions"]}
    assert found["transactions"] > 0
    assert (found["errors"], found["order_violations"]) == (0, 0)
    assert found["records_per_s"] == pytest.approx(20 * found["transactions_per_s"], rel=0.01)
    assert " transactions/s" in said.output


@pytest.mark.parametrize(
    "arguments", [["--read-share", "0.5"], ["--rate", "10"], ["--think-time", "5ms"], ["--acks", "1"]]
)
def test_options_that_contradict_transactions_give_a_one_line_error(arguments):
    output = run("localhost:1", {}, "--transaction", "2", *arguments, code=1)
    assert len(output.splitlines()) == 1
