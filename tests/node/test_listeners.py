"""A broker process with several listeners."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apis.wire_client import WireClient
from tests.forks import run_command
from tests.free_ports import free_port
from tests.node.listener_clients import advertised_to, ports_of
from tests.required import absent

ROOT = Path(__file__).parents[2]
THREE = "listeners=IN://127.0.0.1:0,OUT://127.0.0.1:0,HIDDEN://127.0.0.1:0"
MAP = "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT,HIDDEN:PLAINTEXT"
SECURE = "listener.security.protocol.map=SAFE:{}"


def refusal_of(tmp_path, *settings, arguments=()):
    command = ["serve", "--data", str(tmp_path / "data"), *arguments]
    for setting in settings:
        command += ["--set", setting]
    result = run_command(*command)
    assert (result.returncode, result.stdout) == (2, "")
    assert not (tmp_path / "data").exists()
    (line,) = result.stderr.splitlines()
    return line


def test_each_listener_advertises_its_address_and_the_ready_line_names_the_first_and_stderr_the_others(broker_process):
    advertised = "advertised.listeners=IN://127.0.0.1:0,OUT://broker.example:7"
    broker = broker_process(settings=[THREE, MAP, advertised])
    with WireClient(broker.host, broker.port) as client:
        ports = ports_of(client)
    assert list(ports) == ["IN", "OUT", "HIDDEN"]
    assert ports["IN"] == broker.port
    assert advertised_to("127.0.0.1", ports["IN"]) == [("127.0.0.1", ports["IN"])]
    assert advertised_to("127.0.0.1", ports["OUT"]) == [("broker.example", 7)]
    assert advertised_to("127.0.0.1", ports["HIDDEN"]) == []
    assert broker.stderr.splitlines() == [
        f"also listening on 127.0.0.1:{ports['OUT']} for OUT (PLAINTEXT)",
        f"also listening on 127.0.0.1:{ports['HIDDEN']} for HIDDEN (PLAINTEXT)",
    ]


@pytest.mark.parametrize(
    ("listener", "host", "told"),
    [("PLAINTEXT://[::1]:0", "[::1]", "::1"), ("PLAINTEXT://:0", "0.0.0.0", "127.0.0.1")],
)
def test_a_listener_may_have_an_ipv6_address_or_any_address(broker_process, listener, host, told):
    broker = broker_process(settings=[f"listeners={listener}"])
    assert broker.host == host
    assert advertised_to(told, broker.port) == [(told, broker.port)]


@pytest.mark.parametrize("host", ["", "[::]"])
def test_a_listener_on_every_address_counts_each_client_by_its_own(broker_process, host):
    if not socket.has_dualstack_ipv6():
        absent("needs a system with IPv4 and IPv6")
    limits = "max.connections.per.ip.overrides=127.0.0.1:1,::1:2"
    broker = broker_process(settings=[f"listeners=PLAINTEXT://{host}:0", limits])
    with WireClient("127.0.0.1", broker.port), WireClient("::1", broker.port):
        assert advertised_to("::1", broker.port)
        with pytest.raises((AssertionError, ConnectionError)):
            advertised_to("127.0.0.1", broker.port)


def test_a_plaintext_broker_imports_no_tls_and_sasl():
    code = "import sys, pipeline_broker.node.process; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    heavy = {"cryptography", "jwt", *(f"pipeline_broker.{name}" for name in ("security.tls", "security.offer"))}
    assert heavy & set(loaded.split()) == set()


def test_the_command_line_moves_the_first_listener_of_a_file(broker_process, tmp_path):
    (tmp_path / "file.properties").write_text("listeners=PLAINTEXT://127.0.0.1:1\n")
    broker = broker_process(arguments=["--config", str(tmp_path / "file.properties")])
    assert broker.port > 1


def test_listeners_on_the_command_line_override_host_and_port(broker_process):
    port = free_port()
    broker = broker_process(settings=[f"listeners=PLAINTEXT://127.0.0.1:{port}"], arguments=["--host", "127.9.9.9"])
    assert (broker.host, broker.port) == ("127.0.0.1", port)


@pytest.mark.parametrize(
    ("settings", "arguments", "remedy"),
    [
        (["listeners=IN://127.0.0.1:0,OUT://127.0.0.1:TAKEN", MAP], [], "address for OUT in listeners"),
        (["listeners=PLAINTEXT://127.0.0.1:TAKEN"], [], "address for PLAINTEXT in listeners"),
        ([], ["--port", "TAKEN"], "--port"),
        ([], ["--config", "FILE", "--host", "192.0.2.1"], "--host"),
        ([], ["--config", "FILE"], "address for OUT in listeners"),
        ([], ["--host", "no.such.host.invalid"], "--host"),
    ],
)
def test_an_unavailable_address_is_one_line_that_names_its_setting(tmp_path, settings, arguments, remedy):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        file = tmp_path / "server.properties"
        file.write_text(f"listeners=IN://127.0.0.1:0,OUT://127.0.0.1:{port}\n{MAP}\n")
        texts = {"TAKEN": port, "FILE": str(file)}
        given = [each.replace("TAKEN", port) for each in settings]
        line = refusal_of(tmp_path, *given, arguments=[texts.get(each, each) for each in arguments])
    assert line.startswith("Error: cannot listen on ")
    assert line.endswith(f"; choose another {remedy}")


@pytest.mark.parametrize(
    ("protocol", "settings", "message"),
    [
        ("SSL", (), "set ssl.keystore.type=PEM"),
        ("SSL", ("ssl.keystore.type=PEM",), "ssl.keystore"),
        ("SSL", ("ssl.keystore.type=PEM", "listener.name.safe.ssl.keystore.location=/nowhere/k.pem"), "/nowhere/k.pem"),
        ("SASL_PLAINTEXT", (), "Kafka's default, GSSAPI, is not offered"),
        ("SASL_PLAINTEXT", ("sasl.enabled.mechanisms=PLAIN",), "PLAIN needs users. Set listener.name.safe.plain."),
        (
            "SASL_PLAINTEXT",
            ("sasl.enabled.mechanisms=PLAIN", "listener.name.safe.plain.sasl.jaas.config=nonsense"),
            "listener.name.safe.plain.sasl.jaas.config: ",
        ),
    ],
)
def test_an_invalid_listener_is_one_line(tmp_path, protocol, settings, message):
    line = refusal_of(tmp_path, "listeners=SAFE://127.0.0.1:0", SECURE.format(protocol), *settings)
    assert "listener SAFE" in line
    assert message in line


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # by kafka-python, at import
@pytest.mark.clients
def test_real_clients_exchange_records_over_different_listeners(broker_process):
    import confluent_kafka
    import kafka

    broker = broker_process(settings=[THREE, MAP])
    with WireClient(broker.host, broker.port) as client:
        ports = ports_of(client)
    producer = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{ports['OUT']}"})
    for number in range(10):
        producer.produce("t", b"%d" % number)
    assert producer.flush(30) == 0
    consumer = kafka.KafkaConsumer(
        "t", bootstrap_servers=f"127.0.0.1:{ports['IN']}", auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    assert [next(consumer).value for _ in range(10)] == [b"%d" % number for number in range(10)]
    consumer.close()
