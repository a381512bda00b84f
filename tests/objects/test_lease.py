"""A lease is claimed if its owner gave it back or wrote nothing for a whole session, and for no other reason."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.objects.lease import LEASE_BYTES_MAX, Lease, LeaseTimes, Sight, Watch

SESSION = 6.0
nonces = st.binary(min_size=16, max_size=16)
leases = st.builds(Lease, nonces, st.integers(0, 2**64 - 2), st.booleans())


def sight_of(lease):
    return Sight(lease.encode(), "tag")


@given(leases)
def test_a_lease_is_read_as_it_was_written(lease):
    data = lease.encode()
    assert Lease.decode(data) == lease
    assert len(data) <= LEASE_BYTES_MAX


@given(leases, st.data())
def test_damaged_cut_or_longer_bytes_are_not_a_lease(lease, data):
    content = lease.encode()
    at = data.draw(st.integers(0, len(content) - 1))
    damaged = bytearray(content)
    damaged[at] ^= data.draw(st.integers(1, 255))
    for other in (bytes(damaged), content[:at], content + b"."):
        assert Lease.decode(other) is None
        assert not Sight(other, "tag").is_free


@given(nonces, st.lists(st.booleans(), max_size=20))
def test_no_content_repeats(nonce, ends):
    lease, seen = Lease(nonce), set()
    for is_end in (False, *ends):
        seen.add(lease.encode())
        lease = lease.given_back() if is_end else lease.renewed()
    assert len(seen) == len(ends) + 1
    assert lease.encode() not in seen


def test_a_lease_given_back_is_claimed_at_the_first_poll():
    lease = Lease(bytes(16))
    assert Watch(SESSION).see(sight_of(lease), 0.0, 0.1).claimable is None
    free = sight_of(lease.given_back())
    assert Watch(SESSION).see(free, 0.0, 0.1).claimable == free


def test_a_missing_or_malformed_lease_counts_as_not_renewed():
    for sight in (Sight(), Sight(b"something else", "tag")):
        watch, now = Watch(SESSION).see(sight, 0.0, 0.0), 0.0
        while watch.claimable is None:
            now += 0.5
            watch = watch.see(sight, now, now)
        assert now == SESSION
        assert watch.claimable == sight


looks = st.lists(
    st.tuples(
        st.sampled_from((0.1, 0.5, 1.0, 1.9, 2.1, 7.0)),  # pause before it
        st.sampled_from((0.0, 0.1, 1.0, 3.0, 9.0)),  # how long it takes
        st.sampled_from((0.0, 0.5, 1.0)),  # at which part of that the store looked
    ),
    max_size=40,
)


@given(looks, st.lists(st.floats(0, 100), max_size=12).map(sorted))
def test_however_slow_polls_are_only_a_silent_session_makes_an_owner_suspected(looks, writings):
    """Of the time for which the standby itself was suspended, a third of a session counts."""
    watch, now, counted = Watch(SESSION), 0.0, 0.0
    for pause, latency, part in looks:
        asked_at = now + pause
        seen_at = asked_at + latency * part
        counter = sum(written <= seen_at for written in writings)
        now = asked_at + latency
        before, watch = watch, watch.see(sight_of(Lease(bytes(16), counter)), asked_at, now)
        is_new = before.sight != watch.sight
        counted += min(pause, SESSION / 3)
        if watch.claimable is not None:
            assert not is_new
            assert counted >= SESSION - 1e-6
            assert not any(watch.since < written <= asked_at for written in writings)
        counted = 0.0 if is_new else counted + latency


@given(st.floats(0.1, 60))
def test_a_standby_with_hardly_any_cpu_still_suspects_a_dead_owner(pause):
    """A standby that ran once a second, with a session of 1.5 s, used to restart its measurement forever."""
    watch, now = Watch(SESSION).see(Sight(), 0.0, 0.0), 0.0
    while watch.claimable is None:
        now += pause
        watch = watch.see(Sight(), now, now)
    assert SESSION <= now <= max(SESSION, 3 * pause) + pause


def test_an_owner_suspended_together_with_the_standby_has_time_to_renew():
    lease = Lease(bytes(16))
    watch = Watch(SESSION).see(sight_of(lease), 0.0, 0.0).see(sight_of(lease), 1.9, 1.9)
    watch = watch.see(sight_of(lease), 100.0, 100.0)
    assert watch.claimable is None
    watch = watch.see(sight_of(lease), 101.9, 101.9)
    assert watch.claimable is None
    assert watch.see(sight_of(lease.renewed()), 103.7, 103.7).claimable is None
    assert watch.see(sight_of(lease), 103.7, 103.7).claimable == sight_of(lease)


def test_a_long_outage_restarts_the_measurement():
    watch = Watch(SESSION).see(Sight(), 0.0, 0.0)
    assert watch.miss(1.9) is watch
    assert watch.miss(2.0) == Watch(SESSION)


@given(st.floats(0, 0.5), st.floats(0, 20))
def test_a_dead_owner_is_suspected_after_a_session_and_two_polls(latency, died_at):
    watch, now = Watch(SESSION), 0.0
    while watch.claimable is None:
        counter = int(min(now, died_at) / 2)
        watch = watch.see(sight_of(Lease(bytes(16), counter)), now, now + latency)
        now += latency + 0.5
    last_renewal = int(died_at / 2) * 2
    assert last_renewal + SESSION <= now <= last_renewal + SESSION + 4 * (0.5 + latency)


@given(st.integers(-1, 100_000), st.integers(-1, 100_000))
def test_a_session_has_several_renewals_and_many_polls_whatever_the_settings(heartbeat_ms, session_ms):
    times = LeaseTimes.of(heartbeat_ms, session_ms)
    assert 0 < times.renew_seconds <= times.session_seconds / 3
    assert 0 < times.look_seconds <= times.session_seconds / 12
    assert LeaseTimes.of(2000, 6000) == (2.0, 6.0)
