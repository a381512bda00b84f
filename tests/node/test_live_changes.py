"""A server follows its configuration at run time; control plane and privileged listeners."""

import attrs
import pytest
import trio
import trio.testing

from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.settings import config_with, parse_settings
from pipeline_broker.node.listeners import BrokerListeners
from pipeline_broker.node.live_changes import LiveChanges
from pipeline_broker.node.options import limits_of, mode_of
from pipeline_broker.quotas.entities import entity_of
from stages.request import Close, Send
from stages.socket_server import SocketServer
from stages.testing.memory_storage import MemoryStorage
from tests.apis.desk import Desk

SECONDS_MAX = 20
LISTENERS = (
    "listeners=PLAINTEXT://127.0.0.1:0,MORE://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT",
)


class Scene:
    """A broker in memory with real sockets."""

    def __init__(self, nursery, mode, settings, application):
        self.broker = Desk("listeners=PLAINTEXT://127.0.0.1:0", *settings).broker  # of two with one name the later wins
        config = self.broker.config
        self.listeners = BrokerListeners(config)
        application = Dispatcher(self.broker) if application is None else application
        self.server = SocketServer(mode_of(mode, config), application, MemoryStorage(), limits=limits_of(config))
        self.changes = LiveChanges(self.server.mode, self.listeners)
        self.changes.connect(self.broker, self.server)
        self.nursery = nursery

    async def start(self):
        await self.nursery.start(self.server.run, list(self.listeners))
        self.nursery.start_soon(self.changes.run)

    async def change(self, **changed):
        """Apply the change of a client, with `_` for `.`."""
        texts = {name.replace("_", "."): text for name, text in changed.items()}
        self.changes.follow(config_with(self.broker.config, texts))
        await trio.testing.wait_all_tasks_blocked()

    def processors(self):
        return {each.name: each.processors for each in self.server.statistics().listeners}


def run(test, *settings, mode="pipelined", application=None):
    async def main():
        with trio.fail_after(SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                scene = Scene(nursery, mode, settings, application)
                await scene.start()
                await test(scene)
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_processors_follow_num_network_threads_of_broker_and_listener():
    async def test(scene):
        assert scene.processors() == {"PLAINTEXT": 3, "MORE": 2}
        await scene.change(num_network_threads="5")
        assert scene.processors() == {"PLAINTEXT": 5, "MORE": 2}
        await scene.change(num_network_threads="5", listener_name_more_num_network_threads="4")
        assert scene.processors() == {"PLAINTEXT": 5, "MORE": 4}
        await scene.change(num_network_threads="2")
        assert scene.processors() == {"PLAINTEXT": 2, "MORE": 2}

    run(test, *LISTENERS, "listener.name.more.num.network.threads=2")


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_handlers_follow_and_each_change_is_applied_once(mode):
    """Behaviour 103: a dynamic number of threads resizes its pool to exactly that number."""

    async def test(scene):
        for count in (4, 8, 8, 16):
            await scene.change(num_io_threads=str(count))
            statistics = scene.server.statistics()
            assert statistics.handlers.handlers == count
            assert len(statistics.queues) == (1 if mode == "classic" else count)

    run(test, mode=mode)


def test_queues_follow_pipeline_queues_rather_than_the_handlers():
    async def test(scene):
        await scene.change(num_io_threads="16")
        assert len(scene.server.statistics().queues) == 2
        await scene.change(num_io_threads="16", pipeline_queues="5")
        assert len(scene.server.statistics().queues) == 5

    run(test, "pipeline.queues=2")


@pytest.mark.parametrize(
    ("mode", "settings", "asked", "is_refused"),
    [
        ("pipelined", (), "3", False),
        ("pipelined", (), "0", True),
        ("pipelined", ("pipeline.queues=4",), "0", True),
        ("pipelined", ("pipeline.queues=0",), "4", True),
        ("classic", (), "4", True),
        ("classic", (), "0", False),
        ("classic", ("pipeline.queues=4",), "6", False),
    ],
)
def test_queues_are_resized_but_not_rearranged(mode, settings, asked, is_refused):
    async def test(scene):
        after = config_with(scene.broker.config, {"pipeline.queues": asked})
        if not is_refused:
            scene.changes.check(after, ["pipeline.queues"])
            return
        with pytest.raises(ConfigError, match="a running broker cannot change between"):
            scene.changes.check(after, ["pipeline.queues"])

    run(test, *settings, mode=mode)


@pytest.mark.parametrize(
    ("mode", "setting", "changed", "queues"),
    [
        ("classic", None, "4", 0),
        ("pipelined", None, "4", 4),
        ("pipelined", "0", "4", 0),
        ("classic", "2", "4", 4),
        ("pipelined", None, "0", 8),
        ("classic", "2", "0", 2),
    ],
)
def test_a_stored_number_of_queues_does_not_change_the_mode(mode, setting, changed, queues):
    config, _ = parse_settings([] if setting is None else [("pipeline.queues", setting)])
    assert mode_of(mode, config_with(config, {"pipeline.queues": changed})).queues == queues


def test_a_stored_number_of_queues_can_be_reset():
    async def test(scene):
        await scene.change(pipeline_queues="4")
        taken_back = config_with(scene.broker.config, {})
        scene.changes.check(taken_back, ["pipeline.queues"])
        await scene.change()
        assert len(scene.server.statistics().queues) == 1

    run(test, mode="classic")


def test_threads_for_blocking_work_follow():
    async def test(scene):
        works = scene.server.handlers._blocking_works
        assert works.total_tokens == 10
        await scene.change(background_threads="7")
        assert works.total_tokens == 7

    run(test)


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_changes_that_become_durable_after_the_end_of_the_server_are_not_applied(mode):
    """Commits in progress at shutdown become visible afterwards. None of them may fail because a change cannot be
    applied.
    """

    async def test(scene):
        scene.server.stop()
        while scene.server.statistics().handlers.handlers:
            await trio.lowlevel.checkpoint()
        await scene.change(
            num_io_threads="16",
            num_network_threads="5",
            background_threads="7",
            max_connections="5",
            listeners="PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT,OTHER:PLAINTEXT",
        )
        assert scene.processors()["PLAINTEXT"] == 3
        assert scene.server.statistics().handlers.handlers == 0

    run(test, *LISTENERS, mode=mode)


def test_the_bound_of_unsent_responses_follows():
    async def test(scene):
        assert scene.server._response_budget.bytes_max == 1000
        await scene.change(pipeline_unsent_response_bytes="2000")
        assert scene.server._response_budget.bytes_max == 2000

    run(test, "pipeline.unsent.response.bytes=1000")


def test_the_bound_of_partial_requests_follows():
    async def test(scene):
        await scene.change(pipeline_partial_request_bytes="2000")
        assert scene.server.statistics().partial_frames.bytes_max == 2000

    run(test, "pipeline.partial.request.bytes=1000")


def test_limits_follow_and_client_quotas_are_kept():
    async def test(scene):
        quotas = scene.server.quotas
        quotas.limits = attrs.evolve(quotas.limits, creation_rate_max_per_ip=9, creation_rate_max_by_ip={"10.0.0.1": 8})
        await scene.change(max_connections="5", listener_name_more_max_connections="4", quota_window_num="2")
        limits = quotas.limits
        assert (limits.connections_max, limits.connections_max_by_listener) == (5, {"MORE": 4})
        assert (limits.creation_rate_max_per_ip, limits.creation_rate_max_by_ip) == (9, {"10.0.0.1": 8})

    run(test, *LISTENERS)


def test_stored_connection_rates_of_addresses_apply_from_the_startup():
    broker = Desk("listeners=PLAINTEXT://127.0.0.1:0").broker
    for address, rate in (("10.0.0.1", 2.0), (None, 3.0)):
        entity = entity_of([("ip", address)])
        broker.quotas.durable(broker.quotas.catalogue.alter({entity: {"connection_creation_rate": rate}}))
    server = SocketServer(mode_of("pipelined", broker.config), Dispatcher(broker), MemoryStorage())
    LiveChanges(server.mode, None).connect(broker, server)
    limits = server.quotas.limits
    assert (limits.creation_rate_max_per_ip, limits.creation_rate_max_by_ip) == (3.0, {"10.0.0.1": 2.0})


def test_limits_of_single_hosts_are_limits_of_their_addresses(caplog):
    config, _ = parse_settings([("max.connections.per.ip.overrides", "localhost:5,10.0.0.1:6,no.such.host.invalid:7")])
    limits = limits_of(config).quotas.connections_max_by_ip
    assert (limits["127.0.0.1"], limits["10.0.0.1"]) == (5, 6)
    assert set(limits.values()) == {5, 6}
    assert "the limit of no.such.host.invalid is ignored" in caplog.text


class Witness:
    """An application that keeps the session of each request."""

    def __init__(self):
        self.sessions = []

    def handle(self, request):
        self.sessions.append(request.connection.session)
        return Send(b"")

    def failed(self, request, error):
        return Close(str(error))

    def connection_closed(self, session):
        pass


def test_requests_by_the_brokers_own_listener_are_privileged_and_no_others():
    """Behaviour 55."""
    witness = Witness()

    async def test(scene):
        for name, (host, port) in scene.listeners.addresses.items():
            stream = await trio.open_tcp_stream(host, port)
            await stream.send_all(b"\0\0\0\1x")
            assert await stream.receive_some(4) == bytes(4), name
            await stream.aclose()
        sessions = [
            (session.listener, session.is_privileged, session.security_protocol) for session in witness.sessions
        ]
        assert sessions == [("PLAINTEXT", False, "PLAINTEXT"), ("MORE", True, "PLAINTEXT")]
        assert scene.server.quotas.limits.protected_listener == "MORE"

    run(test, *LISTENERS, "inter.broker.listener.name=MORE", application=witness)


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_the_control_plane_has_one_processor_and_one_handler_of_its_own(mode):
    async def test(scene):
        assert scene.processors() == {"PLAINTEXT": 3, "MORE": 1}
        assert scene.server.statistics().control_plane.handlers.handlers == 1
        await scene.change(num_network_threads="6", num_io_threads="4")
        assert scene.processors() == {"PLAINTEXT": 6, "MORE": 1}
        assert scene.server.statistics().control_plane.handlers.handlers == 1

    run(test, *LISTENERS, "control.plane.listener.name=MORE", mode=mode)


def test_a_change_during_another_one_is_applied_after_it():
    async def test(scene):
        one = {"listeners": "PLAINTEXT://127.0.0.1:0", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}
        scene.changes.follow(config_with(scene.broker.config, one))
        while scene.server.statistics().listeners[-1].name == "MORE" and not scene.server._listeners["MORE"].is_ending:
            await trio.lowlevel.checkpoint()
        await scene.change(**{name.replace(".", "_"): text for name, text in one.items()}, num_network_threads="5")
        assert scene.processors() == {"PLAINTEXT": 5}

    run(test, *LISTENERS)


def test_a_listener_added_at_run_time_advertises_its_bound_address():
    async def test(scene):
        listeners, protocols = (each.split("=", 1)[1] for each in LISTENERS)
        await scene.change(listeners=listeners, listener_security_protocol_map=protocols)
        assert scene.changes.advertised("MORE") == scene.listeners.addresses["MORE"]

    run(test)


def test_an_unavailable_address_does_not_affect_other_listeners(caplog):
    names = ["PLAINTEXT", "ONE", "TWO"]

    async def test(scene):
        taken = scene.listeners.addresses["PLAINTEXT"][1]
        await scene.change(
            listeners=f"PLAINTEXT://127.0.0.1:0,ONE://127.0.0.1:{taken},TWO://127.0.0.1:0",
            listener_security_protocol_map=",".join(f"{name}:PLAINTEXT" for name in names),
        )
        assert list(scene.processors()) == ["PLAINTEXT", "TWO"]

    run(test)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["the listener ONE is not served"]


def test_a_removed_listener_keeps_its_socket_until_its_server_has_removed_it():
    async def test(scene):
        order = []
        remove, forget = scene.server.remove_listener, scene.listeners.forget

        async def remove_listener(name):
            await remove(name)
            order.append(("removed", name))

        scene.server.remove_listener = remove_listener
        scene.listeners.forget = lambda name: (order.append(("forgotten", name)), forget(name))
        await scene.change(listeners="PLAINTEXT://127.0.0.1:0", listener_security_protocol_map="PLAINTEXT:PLAINTEXT")
        assert order == [("removed", "MORE"), ("forgotten", "MORE")]

    run(test, *LISTENERS)
