"""A start that must fail says why in one line on stderr and ends with 2; whoever was there before is not hurt."""

import socket
import struct
from contextlib import closing

import pytest

from tests.bad_input.raw_client import RawClient, batch_of, create_topic, produce_answers, produce_request
from tests.forks import run_command

END_SECONDS_MAX = 60.0


def mistake(*arguments):
    """The one line that the command line says to a mistake; in a process of its own, for it may serve."""
    result = run_command(*arguments, seconds_max=END_SECONDS_MAX)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line


def refused(data, *arguments, port=0):
    """The one line with which a start is refused."""
    arguments = ("serve", "--port", str(port), "--data", str(data), *arguments)
    result = run_command(*arguments, seconds_max=END_SECONDS_MAX)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def still_serves(broker):
    with RawClient(broker.port) as client:
        return produce_answers(client.ask(produce_request((0, batch_of(b"still here")), topic="here"), 9)) == [(0, 0)]


def journal_of(data):
    """The first segment with frames: a broker may have gone on in a second one, which was zero-filled ahead."""
    return next(path for path in sorted((data / "journal").iterdir()) if path.stat().st_size and used(path))


def used(path):
    return any(path.read_bytes()[4096:8192])


@pytest.fixture
def filled_directory(broker_process):
    """The data directory of a broker that stored something and was stopped."""
    broker = broker_process()
    create_topic(broker.port, "here")
    assert still_serves(broker)
    broker.stop()
    return broker.data


def test_a_limit_for_a_host_that_cannot_be_found(tmp_path):
    limit = "max.connections.per.ip.overrides=no.such.host.invalid:1"
    assert "'no.such.host.invalid' cannot be found" in refused(tmp_path / "data", "--set", limit)


def test_a_file_in_place_of_the_data_directory(tmp_path):
    (tmp_path / "data").write_text("mine")
    assert str(tmp_path / "data") in refused(tmp_path / "data")
    assert (tmp_path / "data").read_text() == "mine"


def test_a_file_above_the_data_directory(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert str(tmp_path / "file") in refused(tmp_path / "file" / "data")


def test_a_directory_that_may_not_be_written(tmp_path):
    """/proc is read-only to everybody, also to root, whom a mode would not stop."""
    line = refused("/proc/self/task/pipeline-broker-data")
    assert line.startswith("Error: ")
    assert "/proc/self/task/pipeline-broker-data" in line


def test_a_directory_with_a_file_where_the_journal_should_be(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "journal").write_text("mine")
    assert str(tmp_path / "data") in refused(tmp_path / "data")
    assert (tmp_path / "data" / "journal").read_text() == "mine"


def test_a_port_in_use(broker_process, tmp_path):
    """By another broker, or by anybody; nothing is written for a broker that does not start."""
    broker = broker_process()
    assert str(broker.port) in refused(tmp_path / "other", port=broker.port)
    assert not (tmp_path / "other").exists()
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        assert str(port) in refused(tmp_path / "other", port=port)


def test_an_address_that_is_not_ours(tmp_path):
    assert "192.0.2.1" in refused(tmp_path / "data", "--host", "192.0.2.1")
    assert "no.such.host.invalid" in refused(tmp_path / "data", "--host", "no.such.host.invalid")


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_a_second_broker_on_one_directory(broker_process, mode):
    """The first one continues; a kill leaves nothing of its lock. Case 33."""
    broker = broker_process(mode=mode)
    create_topic(broker.port, "here")
    assert str(broker.data) in refused(broker.data)
    assert still_serves(broker)
    broker.kill()
    assert still_serves(broker_process(mode=mode, data=broker.data))


def test_a_damaged_journal_is_not_served(filled_directory):
    """A byte that was durable has changed in front of others that are whole: refused, and nothing is repaired."""
    journal = journal_of(filled_directory)
    data = bytearray(journal.read_bytes())
    data[4096 + 60] ^= 0xFF
    journal.write_bytes(data)
    line = refused(filled_directory)
    assert str(filled_directory) in line
    assert journal.read_bytes() == data


def test_a_damaged_journal_head_is_not_served(filled_directory):
    journal = journal_of(filled_directory)
    data = bytearray(journal.read_bytes())
    struct.pack_into(">q", data, 0, 2**62)
    journal.write_bytes(data)
    assert str(filled_directory) in refused(filled_directory)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("num.io.threds=8", "num.io.threads"),
        ("message.max.byte=1", "message.max.bytes"),
        ("num.io.threads=many", "num.io.threads"),
        ("num.io.threads=-1", "num.io.threads"),
        ("socket.request.max.bytes=1e9", "socket.request.max.bytes"),
        ("auto.create.topics.enable=perhaps", "auto.create.topics.enable"),
        ("compression.type=brotli", "compression.type"),
        ("=1", "name=value"),
    ],
)
def test_a_setting_that_is_wrong_names_the_right_one(tmp_path, setting, expected):
    assert expected in mistake("serve", "--data", str(tmp_path / "data"), "--set", setting)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["serv"], "serve"),
        (["serve", "--prot", "1"], "--port"),
        (["serve", "--mode", "clasic"], "classic"),
        (["serve", "--port", "99999"], "65535"),
        (["serve", "--port", "-1"], "65535"),
        (["serve", "--commit-delay", "soon"], "10ms"),
        (["serve", "--commits-in-flight", "0"], "64"),
        (["serve", "--store-delay", "50ms"], "--store URL"),
        (["compare", "--out", "out", "--store-delay", "50ms"], "--store"),
        (["compare", "--out", "out", "--store", "memory://", "--with-kafka"], "another broker"),
        (["report", ".", "--put-price", "-1"], "--put-price"),
        (["serve", "surplus"], "surplus"),
    ],
)
def test_an_option_that_is_wrong_names_the_right_one(arguments, expected):
    assert expected in mistake(*arguments)


def test_settings_without_effect_are_accepted_with_one_warning_line(broker_process):
    names = ["log.cleaner.threads", "replica.fetch.max.bytes", "remote.log.reader.threads"]
    broker = broker_process(settings=[f"{name}=2000" for name in names])
    broker.stop()
    (warning,) = broker.stderr.splitlines()
    assert warning.endswith(f": {', '.join(names)} are accepted, but this broker does not act on them")
