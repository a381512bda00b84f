"""Metrics, dashboard and schema registry with TLS and users, as an operator starts them."""

import base64
import http.client
import json
import re
import signal
import ssl

import pytest
import trustme

from tests.forks import run_command
from tests.node.test_file_renewal import wait_until

SECONDS_MAX = 30
PORTS = ["--metrics", "0", "--dashboard", "0", "--schema-registry", "0"]
LINE = re.compile(r"^(metrics|dashboard|schema registry) on https://(127\.0\.0\.1:\d+)(\S*)$", re.MULTILINE)
PATHS = {"metrics": "/metrics", "dashboard": "/api/broker", "schema registry": "/subjects"}


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def files(tmp_path, authority):
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "store.pem")
    (tmp_path / "users").write_text("ada:secret\n")
    (tmp_path / "users").chmod(0o600)
    return ["--http-certificate", str(tmp_path / "store.pem"), "--http-users", str(tmp_path / "users")]


def ask(authority, address, path, user="ada:secret", method="GET", body=None):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    connection = http.client.HTTPSConnection(address, timeout=SECONDS_MAX, context=context)
    headers = {} if user is None else {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    answered = response.read().decode()
    connection.close()
    return response.status, answered


def test_every_port_is_served_by_tls_and_to_users_only(broker_process, authority, files, tmp_path):
    broker = broker_process(arguments=[*PORTS, *files])
    addresses = {name: address for name, address, _ in LINE.findall(broker.stderr)}
    assert addresses.keys() == PATHS.keys()
    assert "token" not in broker.stderr
    for name, address in addresses.items():
        assert ask(authority, address, PATHS[name])[0] == 200, name
        for user in (None, "ada:guess", "eve:secret"):
            assert ask(authority, address, PATHS[name], user)[0] == 401, name
        plain = http.client.HTTPConnection(address, timeout=SECONDS_MAX)
        plain.request("GET", PATHS[name])
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            plain.getresponse()
        plain.close()
    refused = [line.partition("refused ")[2] for line in broker.stderr.splitlines() if "refused the user" in line]
    for name in ("ada", "eve"):
        line = f'the user "{name}" from 127.0.0.1: unknown, or another password'
        assert refused.count(line) == len(PATHS), refused
    for path in ("/healthz", "/readyz"):
        assert ask(authority, addresses["metrics"], path, None) == (200, "ok\n")

    (tmp_path / "users").write_text("eve:secret\n")
    broker.process.send_signal(signal.SIGHUP)
    wait_until(lambda: ask(authority, addresses["metrics"], "/metrics", "eve:secret")[0] == 200)
    assert ask(authority, addresses["metrics"], "/metrics")[0] == 401


def test_roles_and_rules_apply_to_dashboard_and_registry(broker_process, authority, files, tmp_path):
    (tmp_path / "users").write_text("ada:secret\neve:secret\n[read-only]\nbob:secret\n")
    settings = ["authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"]
    settings += ["super.users=User:ada;User:bob"]
    broker = broker_process(arguments=[*PORTS, *files], settings=settings)
    addresses = {name: address for name, address, _ in LINE.findall(broker.stderr)}
    read_only = "the user bob is read-only, so it cannot change anything"
    change = {"path": "/config", "method": "PUT", "body": {"compatibility": "FULL"}}
    registry = addresses["schema registry"]
    for user, path, said in (
        ("ada", "/config", "BACKWARD"),
        ("bob", "/config", "BACKWARD"),
        ("eve", "/config", "User:eve needs Read on the topic _schemas"),
    ):
        assert said in ask(authority, registry, path, f"{user}:secret")[1]
    for user, status, said in (
        ("bob", 403, read_only),
        ("eve", 403, "User:eve needs Write on the topic _schemas"),
        ("ada", 200, "FULL"),
    ):
        found = ask(authority, registry, user=f"{user}:secret", **change)
        assert (found[0], said in found[1]) == (status, True), found
    shown = ask(authority, addresses["dashboard"], "/api/configuration", "eve:secret")
    assert shown == (403, '{"error":"User:eve needs DescribeConfigs on the cluster"}')
    assert ask(authority, addresses["dashboard"], "/api/configuration", "bob:secret")[0] == 200
    assert ask(authority, addresses["metrics"], "/metrics", "eve:secret")[0] == 200
    assert 'PUT "/config" by User:ada from 127.0.0.1: done' in broker.stderr


def test_a_renewed_certificate_may_have_other_names(broker_process, authority, files, tmp_path):
    broker = broker_process(arguments=["--metrics", "0", *files])
    ((_, address, _),) = LINE.findall(broker.stderr)
    other = trustme.CA()
    other.issue_cert("127.0.0.1", common_name="another").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "store.pem"
    )
    broker.process.send_signal(signal.SIGHUP)

    def is_renewed():
        try:
            return ask(other, address, "/healthz")[0] == 200
        except ssl.SSLError:
            return False

    wait_until(is_renewed)


def test_a_damaged_file_of_the_certificate_is_refused_with_the_name_of_its_option(broker_process, files, tmp_path):
    broker = broker_process(arguments=["--metrics", "0", *files])
    (tmp_path / "store.pem").write_text("")
    broker.process.send_signal(signal.SIGHUP)
    refusal = f"--http-certificate: {tmp_path}/store.pem must hold one private key and its certificates in PEM form"
    wait_until(lambda: f"certificate of the HTTP ports: the previous files stay in use: {refusal}" in broker.stderr)


def test_the_metrics_of_all_brokers_of_a_machine_are_secured_too(broker_process, authority, files):
    broker = broker_process(arguments=["--brokers", "2", "--metrics", "0", *files])
    address = {name: address for name, address, _ in LINE.findall(broker.stderr)}["metrics"]
    status, text = ask(authority, address, "/metrics")
    assert status == 200
    assert set(re.findall(r'broker="(\d)"', text)) == {"1", "2"}
    assert ask(authority, address, "/metrics", None)[0] == 401


def test_a_cluster_logs_the_files_of_its_http_ports_once(broker_process, files, tmp_path):
    arguments = ["--brokers", "2", "--metrics", "0", "--dashboard", "0", *files]
    broker = broker_process(arguments=arguments)
    (tmp_path / "store.pem").write_text("")
    broker.process.send_signal(signal.SIGHUP)
    refusal = "certificate of the HTTP ports: the previous files stay in use"
    wait_until(lambda: refusal in broker.stderr)
    broker.stop()
    assert broker.stderr.count(refusal) == 1


def test_users_without_tls_are_allowed_on_the_loopback_address(broker_process, files):
    broker = broker_process(arguments=["--metrics", "0", *files[2:]])
    (address,) = re.findall(r"^metrics on http://(\S+)/metrics$", broker.stderr, re.MULTILINE)
    connection = http.client.HTTPConnection(address, timeout=SECONDS_MAX)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    assert response.status == 401
    assert json.loads(response.read()) == {"error": "the request has no user: send a name and a password (HTTP Basic)"}
    connection.close()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--http-users", "users"], "--http-users needs --metrics, --dashboard or --schema-registry"),
        (["--http-certificate", "store.pem"], "--http-certificate needs --metrics, --dashboard or --schema-registry"),
        (
            ["--dashboard", "0.0.0.0:0", "--http-users", "users"],
            "--http-users needs --http-certificate: a network could see passwords sent to 0.0.0.0",
        ),
        (
            ["--dashboard", "0", "--dashboard-principal", "User:ada", "--http-users", "users"],
            "--dashboard-principal and --http-users contradict each other: each user is a principal. Omit one of them",
        ),
        (["--metrics", "0", "--http-users", "missing"], "--http-users: {}/missing: No such file or directory"),
        (
            ["--metrics", "0", "--http-certificate", "users"],
            "--http-certificate: {}/users must hold one private key and its certificates",
        ),
        (
            ["--brokers", "2", "--http-users", "users"],
            "--http-users needs --metrics, --dashboard or --schema-registry",
        ),
    ],
)
def test_half_of_a_configuration_is_refused_in_one_line(tmp_path, files, arguments, complaint):
    names = {"users", "store.pem", "missing"}
    placed = [str(tmp_path / each) if each in names else each for each in arguments]
    result = run_command("serve", "--port", "0", "--data", str(tmp_path / "data"), *placed)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {complaint.format(tmp_path)}")
    assert result.stderr.count("\n") == 1


def test_files_with_secrets_that_others_can_read_are_named_once_with_mode_and_command(broker_process, files, tmp_path):
    settings = tmp_path / "server.properties"
    settings.write_text("ssl.key.password=p\n")
    exposed = [settings, tmp_path / "store.pem", tmp_path / "users"]
    for each in exposed:
        each.chmod(0o644)
    broker = broker_process(arguments=["--metrics", "0", *files, "--config", str(settings)])
    broker.stop()
    said = [line.partition("other users ")[2] for line in broker.stderr.splitlines() if "other users may read" in line]
    assert sorted(said) == [f"may read {each} (mode 0644). Run chmod 600 {each}" for each in exposed]
