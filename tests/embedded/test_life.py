"""Start, misuse and end of an embedded broker."""

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
def test_it_serves_inside_the_with_statement_and_leaves_nothing_behind(mode):
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


def test_cancelling_an_awaited_call_cancels_it_in_the_broker():
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
        with pytest.raises(trio.TooSlowError):  # the calls in the scope end first
            trio.run(_with_timeout, in_trio, broker)


async def _with_timeout(work, broker):
    with trio.fail_after(20):
        await work(broker)
    raise trio.TooSlowError


def test_a_wait_that_would_block_an_event_loop_names_the_async_form():
    async def main(broker):
        for name in ("wait_records", "wait_assigned", "wait_fetching"):
            with pytest.raises(EmbeddedBrokerError, match=rf"^{name} would block this .*: await {name}_async instead$"):
                getattr(broker, name)("t")

    with EmbeddedBroker() as broker:
        asyncio.run(main(broker))
        trio.run(main, broker)


def test_awaiting_without_asyncio_or_trio_is_refused():
    broker = EmbeddedBroker()
    with pytest.raises(EmbeddedBrokerError, match=r"only in asyncio and Trio; use `with` elsewhere$"):
        broker.__aenter__().send(None)


def test_calls_before_the_start_and_after_the_end_are_refused():
    broker = EmbeddedBroker()
    for ask in (broker.topics, lambda: broker.bootstrap_servers, lambda: broker.wait_records("t")):
        with pytest.raises(EmbeddedBrokerError, match=r"^the broker was not started: use `with EmbeddedBroker"):
            ask()
    broker.close()
    with broker:
        with pytest.raises(EmbeddedBrokerError, match=r"^this broker was already started, .*create another$"):
            broker.start()
        assert broker.topics() == {}
    broker.close()
    with pytest.raises(EmbeddedBrokerError, match=r"^the broker is closed; start another one$"):
        broker.topics()
    with pytest.raises(EmbeddedBrokerError, match="already started"):
        broker.start()


def test_a_function_of_on_loop_that_calls_the_broker_raises_instead_of_deadlocking():
    with EmbeddedBroker() as broker:
        with pytest.raises(EmbeddedBrokerError, match="use the function's argument instead"):
            broker.on_loop(lambda _: broker.topics())
        with pytest.raises(EmbeddedBrokerError, match="use the function's argument instead"):
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
            assert str(error).startswith(f"the broker runs in process {parent}. This process is its fork"), error
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


def test_a_forked_child_gets_an_error_and_does_not_end_the_broker(tmp_path):
    result = run(FORKED, tmp_path)
    assert (result.returncode, result.stdout) == (0, "{}\n"), result.stderr


def test_a_program_that_does_not_close_the_broker_ends(tmp_path):
    result = run("from pipeline_broker import EmbeddedBroker; print(EmbeddedBroker().start().topics())", tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "{}\n", "")


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Broker'"):
        pipeline_broker.Broker  # noqa: B018 - the lookup is tested


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"mode": "fast"}, "mode 'fast' is unknown; use one of classic, pipelined"),
        ({"requests_max": -1}, "requests_max= needs a whole number from 0, not -1"),
        ({"flush": "never"}, "flush 'never' is unknown; use one of os, always"),
        (
            {"settings": {"num.partition": 3}},
            "settings: unknown property 'num.partition'; did you mean num.partitions?",
        ),
        ({"settings": {"num.partitions": 0}}, "settings: num.partitions"),
        ({"settings": {"listeners": "nonsense"}}, "settings: "),
    ],
)
def test_invalid_arguments_are_one_line_before_the_start(arguments, line):
    with pytest.raises(EmbeddedBrokerError) as caught:
        EmbeddedBroker(**arguments)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_taken_port_is_one_line():
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


def test_a_data_directory_is_reused_and_locked(tmp_path):
    with EmbeddedBroker(data=tmp_path / "data", flush="always") as broker:
        broker.produce("t", "kept")
        with pytest.raises(EmbeddedBrokerError, match=r"in use"):
            EmbeddedBroker(data=tmp_path / "data").start()
    with EmbeddedBroker(data=tmp_path / "data") as broker:
        assert [record.value for record in broker.records("t")] == [b"kept"]


def test_calls_to_a_broker_with_a_failed_disk_raise_the_cause(tmp_path):
    broker = EmbeddedBroker(data=tmp_path / "data").start()
    (tmp_path / "data").rename(tmp_path / "gone")
    with pytest.raises(EmbeddedBrokerError, match=r"the broker (failed|has ended)"):
        broker.wait_records("t", timeout=30)
    with pytest.raises(EmbeddedBrokerError, match=r"^the broker failed: the (data directory|log cannot be archived)"):
        broker.topics()
    broker.close()


def test_a_closed_broker_keeps_no_file_open(tmp_path):
    """Even before the garbage collector runs."""
    gc.disable()
    try:
        for _ in range(2):
            with EmbeddedBroker(data=tmp_path / "data") as broker:
                broker.produce("t", "one")
        assert [target for target in belongings().descriptors if str(tmp_path) in target] == []
    finally:
        gc.enable()


def test_the_error_of_a_wait_describes_the_actual_state():
    with EmbeddedBroker() as broker:
        broker.produce("t", "one")
        with pytest.raises(WaitTimeoutError, match=r"^the topic 't' has 1 of 2 records, after 0\.01 s$"):
            broker.wait_records("t", 2, timeout=0.01)
        with pytest.raises(TimeoutError, match=r"^the group 'g' does not exist, after 0\.01 s$"):
            broker.wait_assigned("g", timeout=0.01)
        with pytest.raises(TimeoutError, match=r"^no consumer fetches from 't', partitions \[0\], after 0\.01 s$"):
            broker.wait_fetching("t", timeout=0.01)
        with pytest.raises(
            TimeoutError, match=r"^no consumer fetches from 'u': the topic does not exist, after 0\.01 s$"
        ):
            broker.wait_fetching("u", timeout=0.01)
