"""Creation rates of connections, through the calls of acceptors, over two windows of one second."""

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stages.connection_quotas import Admit, ConnectionQuotaLimits, ConnectionQuotas, Refuse, Throttle

LISTENERS = ("EXTERNAL", "ADMIN", "REPLICATION")


class Acceptors:
    """Acceptors of several listeners, which ask for one connection after the other and record the verdicts."""

    def __init__(self, **limits):
        self.freed = trio.lowlevel.ParkingLot()
        fields = {"windows": 2, "protected_listener": "REPLICATION", **limits}
        self.quotas = ConnectionQuotas(ConnectionQuotaLimits(**fields), self.freed.unpark_all)
        for listener in LISTENERS:
            self.quotas.add_listener(listener)
        self.blocked = dict.fromkeys(LISTENERS, 0.0)
        self.verdicts = {listener: [] for listener in LISTENERS}
        self.admitted_at = {listener: [] for listener in LISTENERS}

    def change(self, **limits):
        self.quotas.limits = attrs.evolve(self.quotas.limits, **limits)

    def count(self, listener, verdict):
        return self.verdicts[listener].count(verdict)

    async def offer(self, listener, count, gap, ip=None):
        """Offer connections one after the other, however long each waits."""
        quotas = self.quotas
        for number in range(count):
            arrived = trio.current_time()
            until = arrived + quotas.arrive(listener, arrived)
            while trio.current_time() < until or not quotas.has_slot(listener):
                with trio.move_on_at(until) if trio.current_time() < until else trio.CancelScope():
                    await self.freed.park()
            now = trio.current_time()
            self.blocked[listener] += now - arrived
            verdict = quotas.enter(listener, ip or f"198.51.100.{number % 250}", now, arrived)
            self.verdicts[listener].append(type(verdict))
            if isinstance(verdict, Admit):
                self.admitted_at[listener].append(now)
            if isinstance(verdict, Refuse):
                quotas.release(listener, ip)
            await trio.sleep(gap)

    async def offer_to_all(self, count, gap):
        async with trio.open_nursery() as nursery:
            for listener in LISTENERS:
                nursery.start_soon(self.offer, listener, count, gap)

    def rate(self, listener, skip=0):
        """Return the connections per second from the index `first`."""
        times = self.admitted_at[listener][skip:]
        return (len(times) - 1) / (times[-1] - times[0])


def run(test, **limits):
    async def main():
        with trio.fail_after(3600):
            await test(Acceptors(**limits))

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"creation_rate_max": 125.0}, id="behaviour 84, the server"),
        pytest.param({"creation_rate_max_by_listener": dict.fromkeys(LISTENERS, 40.0)}, id="behaviour 86, listeners"),
        pytest.param({"creation_rate_max_per_ip": 60.0}, id="behaviour 88, an address"),
    ],
)
def test_below_the_limit_nobody_waits(limits):
    """Behaviours 84, 86 and 88: connections that come more slowly than they may are neither delayed nor throttled."""

    async def test(acceptors):
        await acceptors.offer_to_all(200, 1 / 30)
        assert acceptors.blocked == dict.fromkeys(LISTENERS, 0.0)
        for listener in LISTENERS:
            assert acceptors.verdicts[listener] == [Admit] * 200
            assert abs(acceptors.quotas.statistics(trio.current_time(), listener).creation_rate - 30) <= 2

    run(test, **limits)


def test_above_the_servers_rate_all_but_the_protected_listener_wait_and_all_get_in():
    """Behaviour 85: above the server's rate all listeners wait but the protected one, and everybody gets in."""

    async def test(acceptors):
        await acceptors.offer_to_all(400, 1 / 40)
        assert acceptors.blocked["REPLICATION"] == 0.0
        assert abs(acceptors.rate("REPLICATION") - 40) < 1
        for listener in ("EXTERNAL", "ADMIN"):
            assert acceptors.blocked[listener] > 1
            assert acceptors.verdicts[listener] == [Admit] * 400
        both = acceptors.rate("EXTERNAL", 100) + acceptors.rate("ADMIN", 100)
        assert abs(both - 60) <= 9
        assert acceptors.quotas.statistics(trio.current_time()).throttled_seconds > 0

    run(test, creation_rate_max=60.0)


def test_above_a_listeners_rate_it_is_held_to_it():
    """Behaviour 87: within 7 of 30 per second, and the throttle is measured."""

    async def test(acceptors):
        await acceptors.offer_to_all(400, 1 / 50)
        for listener in LISTENERS:
            assert abs(acceptors.rate(listener) - 30) <= 7
            assert acceptors.verdicts[listener] == [Admit] * 400
            assert acceptors.quotas.statistics(trio.current_time(), listener).throttled_seconds > 0

    run(test, creation_rate_max_by_listener=dict.fromkeys(LISTENERS, 30.0))


def test_an_address_above_its_rate_is_throttled_and_blocks_nobody():
    """Behaviour 89: held to its rate by throttling; the acceptor does not wait; only its listener counts it."""

    async def test(acceptors):
        await acceptors.offer("EXTERNAL", 1000, 1 / 100, ip="192.0.2.9")
        assert acceptors.blocked["EXTERNAL"] == 0.0
        assert acceptors.count("EXTERNAL", Throttle) > 500
        assert abs(acceptors.rate("EXTERNAL", 25) - 25) <= 1
        now = trio.current_time()
        assert abs(acceptors.quotas.creation_rate_of_ip("192.0.2.9", now) - 25) <= 1.5
        assert acceptors.quotas.statistics(now, "EXTERNAL").ip_throttled == acceptors.count("EXTERNAL", Throttle)
        assert acceptors.quotas.statistics(now, "EXTERNAL").ip_throttled_seconds > 0
        assert acceptors.quotas.statistics(now, "ADMIN").ip_throttled == 0

    run(test, creation_rate_max_per_ip=25.0)


def test_with_both_limits_the_listener_waits_and_an_address_is_throttled():
    """Behaviour 90: of two addresses on one listener at most the one that is too fast is throttled."""

    async def test(acceptors):
        verdicts = {}
        async with trio.open_nursery() as nursery:
            for ip, gap in (("192.0.2.1", 1 / 20), ("192.0.2.2", 1 / 4)):
                acceptors.verdicts["EXTERNAL"] = []

                async def offer(ip=ip, gap=gap):
                    one = Acceptors()
                    one.quotas, one.freed = acceptors.quotas, acceptors.freed
                    await one.offer("EXTERNAL", int(10 / gap), gap, ip=ip)
                    verdicts[ip] = one.verdicts["EXTERNAL"]
                    acceptors.blocked["EXTERNAL"] += one.blocked["EXTERNAL"]

                nursery.start_soon(offer)
        assert acceptors.blocked["EXTERNAL"] > 0
        assert Throttle in verdicts["192.0.2.1"]
        assert verdicts["192.0.2.2"] == [Admit] * 40

    run(test, creation_rate_max_per_ip=8.0, creation_rate_max_by_listener={"EXTERNAL": 10.0})


def test_a_throttled_connection_is_taken_out_of_all_rates():
    """Behaviour 91: after the rejection the rates of address, listener and server are what they were before."""

    async def test(acceptors):
        quotas = acceptors.quotas
        acceptors.change(creation_rate_max_by_ip={"192.0.2.7": 0.5})
        quotas.arrive("EXTERNAL", 0.0)
        assert isinstance(quotas.enter("EXTERNAL", "192.0.2.7", 1.4, 0.0), Throttle)
        assert quotas.creation_rate_of_ip("192.0.2.7", 1.4) == 0.0
        assert quotas.statistics(1.4).creation_rate == 0.0
        assert quotas.statistics(1.4, "EXTERNAL").creation_rate == 0.0
        assert quotas.total == 0

    run(test)


def test_a_listeners_rate_changes_while_it_is_served():
    """Behaviour 93: none, then 10 per second."""

    async def test(acceptors):
        await acceptors.offer("EXTERNAL", 100, 1 / 30)
        assert acceptors.blocked["EXTERNAL"] == 0.0
        acceptors.change(creation_rate_max_by_listener={"EXTERNAL": 10.0})
        await acceptors.offer("EXTERNAL", 100, 1 / 30)
        assert abs(acceptors.rate("EXTERNAL", 130) - 10) <= 1
        acceptors.change(creation_rate_max_by_listener={})
        await acceptors.offer("EXTERNAL", 100, 1 / 30)
        assert abs(acceptors.rate("EXTERNAL", 200) - 30) <= 1

    run(test)


def test_the_servers_rate_changes_while_it_serves():
    """Behaviour 94: a new rate of the server takes effect."""

    async def test(acceptors):
        await acceptors.offer("ADMIN", 60, 1 / 30)
        assert acceptors.blocked["ADMIN"] == 0.0
        acceptors.change(creation_rate_max=12.0)
        await acceptors.offer("ADMIN", 100, 1 / 30)
        assert abs(acceptors.rate("ADMIN", 90) - 12) <= 1.5

    run(test)


def test_of_the_limits_of_an_address_its_own_wins_and_changes_count_at_once():
    """Behaviour 95: default, override, and what holds once the override is gone."""

    async def test(acceptors):
        limits = ConnectionQuotaLimits(creation_rate_max_per_ip=5.0, creation_rate_max_by_ip={"192.0.2.1": 8.0})
        assert limits.rate_max_of_ip("192.0.2.1") == 8.0
        assert limits.rate_max_of_ip("192.0.2.2") == 5.0
        for rate, fields in (
            (8.0, {"creation_rate_max_per_ip": 5.0, "creation_rate_max_by_ip": {"192.0.2.1": 8.0}}),
            (5.0, {"creation_rate_max_by_ip": {}}),
            (20.0, {"creation_rate_max_per_ip": 20.0}),
        ):
            acceptors.change(**fields)
            began = len(acceptors.admitted_at["EXTERNAL"])
            await acceptors.offer("EXTERNAL", 600, 1 / 60, ip="192.0.2.1")
            assert abs(acceptors.rate("EXTERNAL", began + 20) - rate) <= rate * 0.2

    run(test)


def test_what_gets_in_follows_each_change_of_the_quota():
    """Behaviour 96: no quota, 30, 50, and none again, each for some seconds."""

    async def test(acceptors):
        admitted = []
        for limit in (None, 30.0, 50.0, None):
            acceptors.change(creation_rate_max_by_ip={} if limit is None else {"192.0.2.1": limit})
            before = acceptors.count("EXTERNAL", Admit)
            await acceptors.offer("EXTERNAL", 500, 1 / 100, ip="192.0.2.1")
            admitted.append(acceptors.count("EXTERNAL", Admit) - before)
        assert admitted[0] == admitted[3] == 500
        assert abs(admitted[1] - 30 * 5) <= 32
        assert abs(admitted[2] - 50 * 5) <= 52

    run(test)


def test_a_rate_and_then_a_count_hold_back():
    """Behaviour 97: the rate holds until the listener is full, and then everybody waits for a slot."""

    async def test(acceptors):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(acceptors.offer, "EXTERNAL", 300, 1 / 100)
            await trio.sleep(60)
            assert acceptors.count("EXTERNAL", Admit) == 80
            assert abs(acceptors.rate("EXTERNAL", 12) - 10) <= 1.5
            acceptors.quotas.release("EXTERNAL", "198.51.100.0")
            await wait_all_tasks_blocked()
            assert acceptors.count("EXTERNAL", Admit) == 81
            nursery.cancel_scope.cancel()

    run(test, creation_rate_max_by_listener={"EXTERNAL": 10.0}, connections_max_by_listener={"EXTERNAL": 80})
