"""A standby waits for the end of another broker, in virtual time."""

import contextlib

import pytest
import trio
import trio.testing

from pipeline_broker.node.standby import wait_for_lease
from pipeline_broker.objects.lease import Lease, LeaseTimes, Sight
from pipeline_broker.objects.store import Unavailable

SECONDS_MAX = 300
TIMES = LeaseTimes(2.0, 6.0)


class Over(Exception):
    """Nothing more will happen; a deadline would let virtual time jump while a thread reads the lease."""


class Scene:
    """A lease that an owner renews every two seconds until it dies, in a store with outages."""

    def __init__(self, dies_at, outages=(), given_back_at=float("inf")):
        self._dies_at, self._outages, self._given_back_at = dies_at, outages, given_back_at
        self.began = None

    def look(self):
        now = trio.from_thread.run_sync(trio.current_time) - self.began
        if now > SECONDS_MAX:
            raise Over
        if any(start <= now < end for start, end in self._outages):
            raise Unavailable("503")
        renewals = [
            second
            for second in range(0, int(min(now, self._dies_at)) + 1, 2)
            if not any(start <= second < end for start, end in self._outages)
        ]
        lease = Lease(bytes(16), len(renewals), now >= self._given_back_at)
        return Sight(lease.encode(), str(now))

    def run(self, times=TIMES):
        """Return the time of the claim, or None."""

        async def main():
            self.began = trio.current_time()
            with contextlib.suppress(Over):
                await wait_for_lease(self.look, times)
                return trio.current_time() - self.began

        return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


class Starved(LeaseTimes):
    """The times of a process that the machine runs now and then only."""

    look_seconds = 7.0


def test_it_waits_while_the_owner_renews_its_lease():
    assert Scene(dies_at=1000).run() is None


@pytest.mark.parametrize("dies_at", [0.5, 9, 31.9])
def test_it_takes_over_a_session_after_the_last_renewal(dies_at):
    assert 6 <= Scene(dies_at).run() - dies_at // 2 * 2 <= 7.5


def test_a_slow_read_of_the_lease_does_not_count_as_silence():
    """A read shows the state at its start, at best. The last one began 6.5 s after the first had ended."""

    class FarStore(Scene):
        def look(self):
            sight = super().look()
            trio.from_thread.run(trio.sleep, 1.5)
            return sight

    assert FarStore(dies_at=0.5).run() == 9.5


def test_it_takes_over_at_once_if_the_owner_gave_up_the_lease():
    assert Scene(dies_at=1000, given_back_at=20.2).run() - 20.2 <= 1


@pytest.mark.parametrize(
    ("scene", "reason"),
    [
        (Scene(dies_at=9), "the owner has not renewed its lease for 6.0 s"),
        (Scene(dies_at=1000, given_back_at=20.2), "the owner has given up its journal"),
    ],
)
def test_it_logs_why_it_takes_over(scene, reason, caplog):
    scene.run()
    assert [record.message.partition(":")[0] for record in caplog.records] == [reason]


def test_a_starved_standby_waits_longer_logs_that_and_takes_over(caplog):
    assert Scene(dies_at=0.5).run(Starved(*TIMES)) == 21
    assert Scene(dies_at=1000).run(Starved(*TIMES)) is None
    assert [record.message.rpartition(":")[2] for record in caplog.records] == [
        " this broker waits longer",
        " this broker takes over",
    ]


def test_an_outage_of_the_store_does_not_count_as_silence(caplog):
    assert Scene(dies_at=1000, outages=[(5, 60), (61, 80)]).run() is None
    assert [record.message.partition(",")[0] for record in caplog.records] == ["the store does not respond"] * 2


def test_after_an_outage_it_waits_for_a_session_again():
    assert 66 <= Scene(dies_at=5, outages=[(6, 60)]).run() <= 67.5
