"""A lease is kept by its owner, claimed by one of several standbys, and given back at shutdown."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.objects import lease_keeper
from pipeline_broker.objects.lease import Lease, LeaseTimes, Sight, Watch, lease_name
from pipeline_broker.objects.lease_keeper import LeaseKeeper, claim_lease, read_lease, take_lease
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.store import Unavailable
from tests.objects.faulty_store import FaultyStore

LOG = "wal/1"
WAIT_SECONDS_MAX = 20
TIMES = LeaseTimes(0.01, 0.1)
LONG = LeaseTimes(3600.0, 3600.0)
OWN, OTHER = Lease(b"own".ljust(16)), Lease(b"other".ljust(16))


class Outage:
    def __init__(self, store):
        self.store = store
        self.is_out = False
        self.asked = 0

    def __getattr__(self, name):
        self.asked += 1
        if self.is_out:
            raise Unavailable("503")
        return getattr(self.store, name)


def wait_until(is_so):
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.002)


def owner_of(store):
    lease = Lease.decode(read_lease(store, LOG).content)
    return lease and lease.nonce


def counter_of(store):
    return Lease.decode(read_lease(store, LOG).content).counter


@pytest.fixture
def keep():
    """Return a function that makes keepers, which are closed at the end."""
    kept = []

    def keep(store, lease, tag, times=TIMES):
        kept.append(LeaseKeeper(store, LOG, lease, tag, times, lease_keeper.time.monotonic()))
        return kept[-1]

    yield keep
    for keeper in kept:
        keeper.close(gives_back=False)


@given(st.integers(2, 5), st.booleans(), st.data())
def test_of_several_concurrent_claims_one_succeeds_whatever_happens_to_answers(claimers, was_there, data):
    store = MemoryStore()
    if was_there:
        store.create(lease_name(LOG), [OTHER.encode()])
    faulty = FaultyStore(store, lambda choices: data.draw(st.sampled_from(choices)))
    settled = SettledStore(faulty, lambda seconds, error: None)
    sight = read_lease(settled, LOG)
    leases = [Lease(bytes([number]) * 16) for number in range(claimers)]
    tags = [claim_lease(settled, LOG, lease, sight) for lease in leases]
    faulty.settle()
    (winner,) = [lease for lease, tag in zip(leases, tags, strict=True) if tag is not None]
    assert owner_of(store) == winner.nonce


def test_a_startup_claims_the_lease_from_any_owner():
    store = MemoryStore()
    for lease in (OWN, OTHER, Lease(b"third".ljust(16))):
        assert take_lease(store, LOG, lease) == read_lease(store, LOG).tag
        assert owner_of(store) == lease.nonce


def test_an_owner_renews_it_and_gives_it_back(keep):
    store = MemoryStore()
    keeper = keep(store, OWN, take_lease(store, LOG, OWN))
    wait_until(lambda: counter_of(store) > 3)
    assert not read_lease(store, LOG).is_free
    keeper.close(gives_back=True)
    assert read_lease(store, LOG).is_free
    assert owner_of(store) == OWN.nonce


def test_a_failed_owner_stops_renewing_it(keep):
    store = MemoryStore()
    keep(store, OWN, take_lease(store, LOG, OWN), LONG).close(gives_back=False)
    assert read_lease(store, LOG).content == OWN.encode()


def test_an_owner_does_not_give_back_what_another_one_has_claimed(keep):
    store = MemoryStore()
    keeper = keep(store, OWN, take_lease(store, LOG, OWN), LONG)
    take_lease(store, LOG, OTHER)
    keeper.close(gives_back=True)
    assert read_lease(store, LOG).content == OTHER.encode()


def test_an_owner_claims_the_lease_again_once_its_new_holder_stops_renewing(keep):
    store = MemoryStore()
    keep(store, OWN, take_lease(store, LOG, OWN))
    other = keep(store, OTHER, take_lease(store, LOG, OTHER), LeaseTimes(0.01, 60.0))
    end = time.monotonic() + 5 * TIMES.session_seconds
    while time.monotonic() < end:
        assert owner_of(store) == OTHER.nonce
        time.sleep(0.002)
    other.close(gives_back=False)
    wait_until(lambda: owner_of(store) == OWN.nonce)


def test_an_owner_renews_it_again_after_an_outage(keep):
    store = Outage(MemoryStore())
    keep(store, OWN, take_lease(store, LOG, OWN))
    wait_until(lambda: counter_of(store.store) > 1)
    store.is_out = True
    asked = store.asked
    wait_until(lambda: store.asked > asked + 2)
    before = counter_of(store.store)
    store.is_out = False
    wait_until(lambda: counter_of(store.store) > before + 2)
    assert owner_of(store) == OWN.nonce


def test_a_refused_request_is_repeated_no_later_than_the_next_renewal(keep, monkeypatch):
    """Otherwise a standby could claim the lease after a short outage."""
    pauses = []

    def pause_until(stopping):
        def pause(seconds, error):
            pauses.append(seconds)
            if stopping.wait(0.001):
                raise error

        return pause

    monkeypatch.setattr(lease_keeper, "pause_until", pause_until)
    store = Outage(MemoryStore())
    keep(store, OWN, take_lease(store, LOG, OWN))
    store.is_out = True
    wait_until(lambda: len(pauses) > 10)
    assert set(pauses) == {TIMES.renew_seconds}


def test_it_is_current_until_a_standby_may_claim_it_and_again_when_it_is_renewed(keep):
    hanging, asked, released = threading.Event(), threading.Event(), threading.Event()

    class Hanging(MemoryStore):
        def replace(self, name, parts, tag):
            if hanging.is_set():
                asked.set()
                released.wait()
            return super().replace(name, parts, tag)

    store = Hanging()
    keeper = keep(store, OWN, take_lease(store, LOG, OWN))
    assert keeper.state().is_current
    hanging.set()
    try:
        assert asked.wait(WAIT_SECONDS_MAX)
        wait_until(lambda: not keeper.state().is_current)
        assert keeper.state().is_held
        hanging.clear()
    finally:
        released.set()
    wait_until(lambda: keeper.state().is_current)
    take_lease(store, LOG, OTHER)
    wait_until(lambda: not keeper.state().is_held)
    assert not keeper.state().is_current


def test_its_age_counts_from_the_request(keep):
    asked, goes_on = threading.Event(), threading.Event()

    class Hanging(MemoryStore):
        def replace(self, name, parts, tag):
            asked.set()
            goes_on.wait(WAIT_SECONDS_MAX)
            return super().replace(name, parts, tag)

    store = Hanging()
    tag = take_lease(store, LOG, OWN)
    late = LeaseKeeper(store, LOG, OWN, tag, LONG, time.monotonic() - LONG.session_seconds)
    try:
        assert asked.wait(WAIT_SECONDS_MAX), "it is renewed at once"
        assert not late.state().is_current
        goes_on.set()
        wait_until(lambda: late.state().is_current)
    finally:
        late.close(gives_back=False)


def test_it_is_current_while_the_store_refuses_because_no_other_holder_is_known(keep):
    store = Outage(MemoryStore())
    keeper = keep(store, OWN, take_lease(store, LOG, OWN))
    store.is_out = True
    asked = store.asked
    wait_until(lambda: store.asked > asked + 2)
    wait_until(lambda: keeper.state().age_seconds > 2 * TIMES.session_seconds)
    assert keeper.state().is_current
    store.is_out = False
    wait_until(lambda: keeper.state().age_seconds < TIMES.session_seconds)
    assert keeper.state().is_current


def test_a_startup_with_a_refused_claim_has_a_current_lease_and_retries_the_claim(keep):
    """A predecessor suspended while it replaced the lease used to keep its successor from answering reads."""
    store = Outage(MemoryStore())
    take_lease(store, LOG, OTHER)
    store.is_out = True
    times = LeaseTimes(0.01, 3600.0)
    keeper = keep(store, OWN, None, times)
    asked = store.asked
    wait_until(lambda: store.asked > asked + 2)
    assert keeper.state().is_current
    assert not keeper.state().is_held
    store.is_out = False
    wait_until(lambda: owner_of(store.store) == OWN.nonce)
    wait_until(lambda: keeper.state().is_held)
    assert keeper.state().is_current
    take_lease(store, LOG, OTHER)
    wait_until(lambda: not keeper.state().is_current)


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def monotonic(self):
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(lease_keeper, "time", clock)
    return clock


def test_a_renewal_counts_from_its_request_however_slow_the_answer(keep, clock):
    """A standby counts from its first reading of the lease, which may be the moment of the request."""
    slow_seconds, times = 10.0, LeaseTimes(0.05, 60.0)
    ages, renewed = [], threading.Event()

    class Slow(MemoryStore):
        def replace(self, name, parts, tag):
            ages.append(keeper.state().age_seconds)
            if len(ages) > 3:
                renewed.set()
            clock.seconds += slow_seconds
            return super().replace(name, parts, tag)

    store = Slow()
    keeper = keep(store, OWN, store.create(lease_name(LOG), [OWN.encode()]), times)
    assert renewed.wait(WAIT_SECONDS_MAX)
    assert ages[:4] == [0.0] + [slow_seconds] * 3


def test_it_stays_current_when_it_is_renewed_after_an_outage(keep, clock):
    """The first grant after an outage counts from its first try. The next renewal is then overdue, and readers must not
    be rejected until it is granted.
    """
    refusals, sessions_each = 4, 0.75
    times = LeaseTimes(0.01, 60.0)
    seen, renewed = [], threading.Event()

    class Refusing(MemoryStore):
        def replace(self, name, parts, tag):
            seen.append(keeper.state().is_current)
            if len(seen) <= refusals:
                clock.seconds += sessions_each * times.session_seconds
                raise Unavailable("503")
            if len(seen) > refusals + 1:
                renewed.set()
            return super().replace(name, parts, tag)

    store = Refusing()
    tag = take_lease(store, LOG, OWN)
    beginning = clock.seconds
    keeper = keep(store, OWN, tag, times)
    clock.seconds += times.renew_seconds
    assert renewed.wait(WAIT_SECONDS_MAX)
    assert all(seen)
    assert clock.seconds > beginning + 2 * times.session_seconds


def test_an_owner_suspended_after_a_refusal_does_not_count_it_as_current(keep, clock):
    asked, refusals = threading.Semaphore(0), threading.Semaphore(0)

    class Refusing(MemoryStore):
        def replace(self, name, parts, tag):
            asked.release()
            assert refusals.acquire(timeout=WAIT_SECONDS_MAX)
            raise Unavailable("503")

    keeper = keep(Refusing(), OWN, take_lease(MemoryStore(), LOG, OWN), LeaseTimes(0.0, 3600.0))
    assert asked.acquire(timeout=WAIT_SECONDS_MAX)
    refusals.release()
    assert asked.acquire(timeout=WAIT_SECONDS_MAX)  # it asks again, so it knows of the refusal
    assert keeper.state().is_current
    clock.seconds += 2 * 3600.0
    refusals.release()
    assert asked.acquire(timeout=WAIT_SECONDS_MAX)
    assert not keeper.state().is_current
    refusals.release(1_000_000)  # until it is closed


def test_closing_does_not_wait_for_a_hanging_store(keep):
    hanging, released = threading.Event(), threading.Event()

    class Hanging(MemoryStore):
        def replace(self, name, parts, tag):
            hanging.set()
            released.wait()
            return super().replace(name, parts, tag)

    store = Hanging()
    keeper = keep(store, OWN, take_lease(store, LOG, OWN))
    assert hanging.wait(10)
    began = time.monotonic()
    keeper.close(gives_back=True)
    assert time.monotonic() - began < 5
    released.set()


def test_a_watch_sees_renewals_of_a_keeper(keep):
    store = MemoryStore()
    keeper = keep(store, OWN, take_lease(store, LOG, OWN))
    watch = Watch(TIMES.session_seconds)
    for step in range(3):
        counter = counter_of(store)
        wait_until(lambda counter=counter: counter_of(store) > counter)
        now = step * TIMES.session_seconds / 4
        watch = watch.see(read_lease(store, LOG), now, now)
        assert watch.since == now
    keeper.close(gives_back=True)
    assert isinstance(watch.see(read_lease(store, LOG), 1.0, 1.0).claimable, Sight)


def test_it_is_current_again_after_it_was_claimed_back(keep):
    store = MemoryStore()
    keeper = keep(store, OWN, take_lease(store, LOG, OWN))
    take_lease(store, LOG, OTHER)
    wait_until(lambda: owner_of(store) == OWN.nonce)
    wait_until(lambda: keeper.state().is_held and keeper.state().is_current)
