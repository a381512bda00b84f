"""A lease read, claimed, and kept for as long as a log is owned.

Rules of this file: a thread keeps the lease, also while its owner reads what it took over. An owner whose lease another
one has claimed goes on, because it is the fence that ends it; should no fence come, it claims the lease again when that
stands still, as a standby would. A store that does not answer is waited for: one that refuses what a start claims is
asked again, because its owner is the one that the fence has made it.
"""

import threading
import time
from contextlib import suppress
from typing import NamedTuple

from pipeline_broker.objects.lease import LEASE_BYTES_MAX, Lease, LeaseTimes, Sight, Watch, lease_name
from pipeline_broker.objects.settled_store import SettledStore, pause_until
from pipeline_broker.objects.store import Changed, Exists, Missing, ObjectStore, ObjectStoreError

__all__ = ["LeaseKeeper", "LeaseState", "claim_lease", "read_lease", "take_lease"]

CLOSE_SECONDS_MAX = 1.0
"""How long an end waits for the lease to be given back."""
CLAIMS_MAX = 20


class LeaseState(NamedTuple):
    """How a lease stands.

    Attributes:
        is_held: it is the owner's own, as far as the owner knows.
        age_seconds: since it was asked for last, and granted.
        is_current: it is held, and no standby can have claimed it yet; or the store has refused a request that was sent
            less than a session ago, so that nobody can be known to have done so: then an owner serves on with what it
            has, as a leader of Kafka's does that has lost its controller. One that is another's never is.
    """

    is_held: bool
    age_seconds: float
    is_current: bool


def read_lease(store: ObjectStore, log: str) -> Sight:
    """A look at the lease of a log; raises ObjectStoreError where the store does not answer."""
    try:
        part = store.read(lease_name(log), 0, LEASE_BYTES_MAX)
    except Missing:
        return Sight()
    return Sight(bytes(part.data), part.tag)


def claim_lease(store: ObjectStore, log: str, lease: Lease, sight: Sight) -> str | None:
    """Replace a lease that was seen; returns the tag of the own one, None where another one was faster.

    Args:
        store: settled.

    Raises:
        ObjectStoreError: the store does not answer.
    """
    name, content = lease_name(log), lease.encode()
    try:
        return store.create(name, [content]) if sight.tag is None else store.replace(name, [content], sight.tag)
    except (Exists, Changed):
        return None


def take_lease(store: ObjectStore, log: str, lease: Lease) -> str | None:
    """Claim a lease from any owner; None where others are always faster; otherwise as `claim_lease`."""
    for _ in range(CLAIMS_MAX):
        tag = claim_lease(store, log, lease, read_lease(store, log))
        if tag is not None:
            return tag
    return None


class LeaseKeeper:
    """Keeps a lease from the beginning on, in a thread of its own, until it is closed.

    Args:
        store: not settled.
        log: whose lease it is.
        lease: that was written last.
        tag: of that; None where the store refused it, and the lease is still to be claimed from whoever has it.
        times: how often it is renewed, and when that of another one may be claimed.
        asked_at: by `time.monotonic`, when the store was asked for it; a process that stands still meanwhile gets the
            answer when the lease is another one's already.
    """

    def __init__(
        self, store: ObjectStore, log: str, lease: Lease, tag: str | None, times: LeaseTimes, asked_at: float
    ) -> None:
        self._log, self._lease, self._tag, self._times = log, lease, tag, times
        self._is_anothers = False
        self._stopping = threading.Event()
        self._gives_back = True
        self._asked_at = self._tried_at = self._refused_at = asked_at  # granted, sent last, refused
        self._unsettled = store
        self._pause_until_stopped = pause_until(self._stopping)
        self._store = SettledStore(store, self._pause)
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def state(self) -> LeaseState:
        """How it stands; any thread may ask."""
        is_held, now = self._tag is not None, time.monotonic()
        is_current = not self._is_anothers and now - max(self._asked_at, self._refused_at) < self._times.session_seconds
        return LeaseState(is_held, now - self._asked_at, is_current)

    def close(self, *, gives_back: bool) -> None:
        """End; waits a second at most.

        Args:
            gives_back: the log is not written any more, and a standby may go on with it at once.
        """
        self._gives_back = gives_back
        self._stopping.set()
        self._thread.join(CLOSE_SECONDS_MAX)

    def _pause(self, seconds: float, error: ObjectStoreError) -> None:
        """Also of a look at a lease that is another's, which makes nothing current."""
        self._refused_at = self._tried_at
        self._pause_until_stopped(min(seconds, self._times.renew_seconds), error)
        self._tried_at = time.monotonic()

    def _claim(self, sight: Sight) -> None:
        self._lease, asked_at = self._lease.renewed(), time.monotonic()
        self._tried_at = asked_at
        tag = claim_lease(self._store, self._log, self._lease, sight)
        self._is_anothers = tag is None
        self._tag = tag
        self._asked_at = asked_at  # an earlier try than the last one may be that which the store has done

    def _run(self) -> None:
        with suppress(ObjectStoreError):  # the store gives up only when this is closed
            while self._tag is None and not self._stopping.is_set():
                self._claim(read_lease(self._store, self._log))
            while not self._stopping.is_set():
                if self._tag is None:
                    self._claim_when_still()
                else:
                    self._renew()
        if self._tag is not None and self._gives_back:
            with suppress(ObjectStoreError):
                claim_lease(self._unsettled, self._log, self._lease.given_back(), Sight(tag=self._tag))

    def _renew(self) -> None:
        """Until another one has the lease; at once behind an outage, because it counts from when it was asked for."""
        while self._tag is not None:
            due_in_seconds = self._asked_at + self._times.renew_seconds - time.monotonic()
            if self._stopping.wait(max(0.0, due_in_seconds)):
                return
            self._claim(Sight(tag=self._tag))

    def _claim_when_still(self) -> None:
        """Until this one has it again."""
        watch = Watch(self._times.session_seconds)
        while not self._stopping.wait(self._times.look_seconds):
            asked_at = time.monotonic()
            watch = watch.see(read_lease(self._store, self._log), asked_at, time.monotonic())
            sight = watch.claimable
            if sight is not None:
                self._claim(sight)
                return
