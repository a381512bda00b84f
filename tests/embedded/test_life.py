"""An embedded broker begins, is misused, and ends."""

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

import pipeline_broker
from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError, WaitTimeoutError
from tests.belongings import belongings

ROOT = Path(__file__).parents[2]
MODES = ("classic", "pipelined")


def answers(broker):
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as client:
        client.sendall(bytes.fromhex("0000000a00120000 00000001 ffff"))  # ApiVersions 0
        return client.recv(4) != b""


def broker_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith(("embedded-broker", "committer"))]


@pytest.mark.parametrize("mode", MODES)
def test_it_serves_inside_the_statement_and_leaves_nothing_behind(mode):
    before = broker_threads()
    with EmbeddedBroker(mode=mode) as broker:
        assert answers(broker)
        assert mode in repr(broker)
        address = broker.addresses["PLAINTEXT"]
    assert broker_threads() == before
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(address, timeout=5)


def test_several_serve_side_by_side_each_with_topics_of_its_own():
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        one.create_topic("a")
        assert (one.topics(), other.topics()) == ({"a": 1}, {})
        assert one.bootstrap_servers != other.bootstrap_servers


def test_it_is_used_from_asyncio():
    async def main():
        async with EmbeddedBroker() as broker:
            asyncio.get_running_loop().call_later(0.01, broker.produce, "t", "value")
            (record,) = await broker.wait_records_async("t")
            return record.value

    assert asyncio.run(main()) == b"value"


def test_it_is_used_from_trio():
    async def main():
        async with EmbeddedBroker() as broker, trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, broker.produce, "t", "value")
            (record,) = await broker.wait_records_async("t")
            return record.value

    assert trio.run(main) == b"value"


def test_who_stops_waiting_in_asyncio_or_trio_stops_it_in_the_broker():
    def waiting(broker):
        return broker.on_loop(lambda _: len(broker._core._changes))

    async def in_asyncio(broker):
        task = asyncio.create_task(broker.wait_records_async("t", timeout=60))
        while not waiting(broker):
            await asyncio.sleep(0.001)
        task.cancel()
        while waiting(broker):
            await asyncio.sleep(0.001)

    async def in_trio(broker):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.wait_records_async, "t")
            while not waiting(broker):
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
        while waiting(broker):
            await trio.sleep(0.001)

    with EmbeddedBroker() as broker:
        asyncio.run(asyncio.wait_for(in_asyncio(broker), 20))
        with pytest.raises(trio.TooSlowError):  # what is within the scope is done before
            trio.run(_with_timeout, in_trio, broker)


async def _with_timeout(work, broker):
    with trio.fail_after(20):
        await work(broker)
    raise trio.TooSlowError


def test_a_wait_that_would_block_an_event_loop_is_refused_with_the_way_out():
    async def main(broker):
        for name in ("wait_records", "wait_assigned", "wait_fetching"):
            with pytest.raises(EmbeddedBrokerError, match=rf"^{name} would block this .*: await {name}_async instead$"):
                getattr(broker, name)("t")

    with EmbeddedBroker() as broker:
        asyncio.run(main(broker))
        trio.run(main, broker)


def test_awaiting_where_no_loop_runs_is_refused():
    broker = EmbeddedBroker()
    with pytest.raises(EmbeddedBrokerError, match=r"from asyncio and from Trio only; elsewhere use `with`$"):
        broker.__aenter__().send(None)


def test_what_is_asked_before_the_start_or_behind_the_end_is_refused_in_one_line():
    broker = EmbeddedBroker()
    for ask in (broker.topics, lambda: broker.bootstrap_servers, lambda: broker.wait_records("t")):
        with pytest.raises(EmbeddedBrokerError, match=r"^the broker was not started: use `with EmbeddedBroker"):
            ask()
    broker.close()
    with broker:
        with pytest.raises(EmbeddedBrokerError, match=r"^this broker was started already; .*make another one$"):
            broker.start()
        assert broker.topics() == {}
    broker.close()
    with pytest.raises(EmbeddedBrokerError, match=r"^the broker is closed; start another one$"):
        broker.topics()
    with pytest.raises(EmbeddedBrokerError, match="started already"):
        broker.start()


def test_a_function_on_the_loop_that_asks_the_broker_is_told_so_instead_of_waiting_for_itself():
    with EmbeddedBroker() as broker:
        with pytest.raises(EmbeddedBrokerError, match="has the running broker as its argument"):
            broker.on_loop(lambda _: broker.topics())
        with pytest.raises(EmbeddedBrokerError, match="has the running broker as its argument"):
            broker.on_loop(lambda _: broker.close())
        assert broker.on_loop(lambda running: running.broker.config.node_id) == 1


FORKED = """
import os, sys, warnings
from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError
warnings.simplefilter("ignore")
with EmbeddedBroker() as broker:
    parent = os.getpid()
    child = os.fork()
    if not child:
        try:
            broker.topics()
        except EmbeddedBrokerError as error:
            assert str(error).startswith(f"the broker runs in process {parent}: this fork"), error
            assert broker.bootstrap_servers
            broker.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    print(broker.topics())
"""


def run(program, folder):
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_forked_child_is_told_where_the_broker_runs_and_does_not_end_it(tmp_path):
    result = run(FORKED, tmp_path)
    assert (result.returncode, result.stdout) == (0, "{}\n"), result.stderr


def test_a_program_that_forgets_to_close_it_ends_all_the_same(tmp_path):
    result = run("from pipeline_broker import EmbeddedBroker; print(EmbeddedBroker().start().topics())", tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "{}\n", "")


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Broker'"):
        pipeline_broker.Broker  # noqa: B018 - to look it up is what is tested


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"mode": "fast"}, "mode 'fast' is neither of classic, pipelined"),
        ({"requests_max": -1}, "requests_max -1 is less than 0"),
        ({"flush": "never"}, "flush 'never' is neither of os, always"),
        (
            {"settings": {"num.partition": 3}},
            "settings: unknown property 'num.partition'; did you mean num.partitions?",
        ),
        ({"settings": {"num.partitions": 0}}, "settings: num.partitions"),
        ({"settings": {"listeners": "nonsense"}}, "settings: "),
    ],
)
def test_what_is_not_possible_is_said_in_one_line_before_anything_starts(arguments, line):
    with pytest.raises(EmbeddedBrokerError) as caught:
        EmbeddedBroker(**arguments)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_port_that_is_taken_is_said_in_one_line():
    with EmbeddedBroker() as broker:
        settings = {"listeners": f"PLAINTEXT://{broker.bootstrap_servers}"}
        with pytest.raises(EmbeddedBrokerError, match=r"^cannot listen on .* for PLAINTEXT in listeners$"):
            EmbeddedBroker(settings=settings).start()


def test_settings_have_kafkas_names_and_a_setting_without_effect_is_a_warning(caplog):
    settings = {"auto.create.topics.enable": False, "num.partitions": 4, "num.replica.fetchers": 2}
    with EmbeddedBroker(settings=settings) as broker:
        broker.create_topic("a", configs={"retention.ms": 1, "preallocate": False})
        assert broker.topics() == {"a": 4}
        with pytest.raises(EmbeddedBrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            broker.produce("b", "value")
    assert "num.replica.fetchers" in caplog.text


def test_a_data_directory_is_found_again_and_is_nobody_elses_meanwhile(tmp_path):
    with EmbeddedBroker(data=tmp_path / "data", flush="always") as broker:
        broker.produce("t", "kept")
        with pytest.raises(EmbeddedBrokerError, match=r"in use"):
            EmbeddedBroker(data=tmp_path / "data").start()
    with EmbeddedBroker(data=tmp_path / "data") as broker:
        assert [record.value for record in broker.records("t")] == [b"kept"]


def test_a_broker_whose_disk_fails_says_so_to_whoever_asks(tmp_path):
    broker = EmbeddedBroker(data=tmp_path / "data").start()
    (tmp_path / "data").rename(tmp_path / "gone")
    with pytest.raises(EmbeddedBrokerError, match=r"the broker (failed|has ended)"):
        broker.wait_records("t", timeout=30)
    with pytest.raises(EmbeddedBrokerError, match=r"^the broker failed: the (data directory|log cannot be archived)"):
        broker.topics()
    broker.close()


def test_a_broker_that_was_closed_keeps_no_file_open(tmp_path):
    """Whether or not the garbage collector has come by."""
    gc.disable()
    try:
        for _ in range(2):
            with EmbeddedBroker(data=tmp_path / "data") as broker:
                broker.produce("t", "one")
        assert [target for target in belongings().descriptors if str(tmp_path) in target] == []
    finally:
        gc.enable()


def test_a_wait_ends_with_what_was_there_instead():
    with EmbeddedBroker() as broker:
        broker.produce("t", "one")
        with pytest.raises(WaitTimeoutError, match=r"^the topic 't' has 1 of 2 records, after 0\.01 s$"):
            broker.wait_records("t", 2, timeout=0.01)
        with pytest.raises(TimeoutError, match=r"^there is no group 'g', after 0\.01 s$"):
            broker.wait_assigned("g", timeout=0.01)
        with pytest.raises(TimeoutError, match=r"^no consumer fetches from 't', partitions \[0\], after 0\.01 s$"):
            broker.wait_fetching("t", timeout=0.01)
        with pytest.raises(
            TimeoutError, match=r"^no consumer fetches from 'u': there is no such topic, after 0\.01 s$"
        ):
            broker.wait_fetching("u", timeout=0.01)
