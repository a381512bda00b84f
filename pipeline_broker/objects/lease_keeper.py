"""The keeper of a lease: a thread that renews it for as long as this broker owns the log."""

import threading
import time
from contextlib import suppress
from typing import NamedTuple

from pipeline_broker.objects.lease import LEASE_BYTES_MAX, Lease, LeaseTimes, Sight, Watch, lease_name
from pipeline_broker.objects.settled_store import SettledStore, pause_until
from pipeline_broker.objects.store import Changed, Exists, Missing, ObjectStore, ObjectStoreError

__all__ = ["LeaseKeeper", "LeaseState", "claim_lease", "read_lease", "take_lease"]

CLOSE_SECONDS_MAX = 1.0  # limit for giving the lease back at shutdown
CLAIMS_MAX = 20


class LeaseState(NamedTuple):
    """The state of a lease, as its keeper knows it.

    Attributes:
        is_held: the lease is this owner's, as far as it knows.
        age_seconds: time since the last granted request was sent.
        is_current: no standby can have claimed the lease yet. Also True if the store has refused a request sent less
            than a session ago, because no claim can be known then. The owner then keeps serving, like a Kafka leader
            that has lost its controller. Always False for a lease that is another broker's.
    """

    is_held: bool
    age_seconds: float
    is_current: bool


def read_lease(store: ObjectStore, log: str) -> Sight:
    """Return the lease of a log; an empty Sight if the lease is missing.

    Raises:
        ObjectStoreError: the store does not answer.
    """
    try:
        part = store.read(lease_name(log), 0, LEASE_BYTES_MAX)
    except Missing:
        return Sight()
    return Sight(bytes(part.data), part.tag)


def claim_lease(store: ObjectStore, log: str, lease: Lease, sight: Sight) -> str | None:
    """Replace a lease that was read; return the new tag, or None if another broker was faster.

    Args:
        store: settled.
        log: name of the log.
        lease: the new content.
        sight: the lease as it was read.

    Raises:
        ObjectStoreError: the store does not answer.
    """
    name, content = lease_name(log), lease.encode()
    try:
        return store.create(name, [content]) if sight.tag is None else store.replace(name, [content], sight.tag)
    except (Exists, Changed):
        return None


def take_lease(store: ObjectStore, log: str, lease: Lease) -> str | None:
    """Claim the lease from the broker that has it; return the new tag.

    Returns None if other brokers were faster in each of CLAIMS_MAX tries.

    Raises:
        ObjectStoreError: the store does not answer.
    """
    for _ in range(CLAIMS_MAX):
        tag = claim_lease(store, log, lease, read_lease(store, log))
        if tag is not None:
            return tag
    return None


class LeaseKeeper:
    """A thread that keeps a lease from construction until `close`.

    The thread also runs while the owner still reads the log that it took over. An owner whose lease was claimed
    continues, because only a fence ends its ownership. If no fence appears, the keeper claims the lease again once the
    lease stands still, like a standby. While the store does not answer, the keeper repeats its request.

    Args:
        store: not settled.
        log: name of the log.
        lease: the lease that was written last.
        tag: tag of the lease; None if the store refused the claim at startup. Then the keeper claims the lease from any
            broker that has it: the fence has already made this broker the owner.
        times: renewal interval, and the silence after which another broker's lease may be claimed.
        asked_at: time.monotonic() when the lease was requested. The age counts from the request, not the answer: a
            suspended process may get the answer after another broker has claimed the lease.
    """

    def __init__(
        self, store: ObjectStore, log: str, lease: Lease, tag: str | None, times: LeaseTimes, asked_at: float
    ) -> None:
        self._log, self._lease, self._tag, self._times = log, lease, tag, times
        self._is_anothers = False
        self._stopping = threading.Event()
        self._gives_back = True
        # Send times of the last granted request, of the last request, and of the last refused one.
        self._asked_at = self._tried_at = self._refused_at = asked_at
        self._unsettled = store
        self._pause_until_stopped = pause_until(self._stopping)
        self._store = SettledStore(store, self._pause)
        # A daemon: a hanging store must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def state(self) -> LeaseState:
        is_held, now = self._tag is not None, time.monotonic()
        is_current = not self._is_anothers and now - max(self._asked_at, self._refused_at) < self._times.session_seconds
        return LeaseState(is_held, now - self._asked_at, is_current)

    def close(self, *, gives_back: bool) -> None:
        """End the thread, and wait for it for at most a second.

        Args:
            gives_back: True if the log is no longer written, so that a standby may take over at once.
        """
        self._gives_back = gives_back
        self._stopping.set()
        self._thread.join(CLOSE_SECONDS_MAX)

    def _pause(self, seconds: float, error: ObjectStoreError) -> None:
        # Failed reads of another broker's lease count here, too. `is_current` is False then in any case.
        self._refused_at = self._tried_at
        # Never longer than a renewal interval: with the full backoff, a standby could claim the lease after a short
        # outage.
        self._pause_until_stopped(min(seconds, self._times.renew_seconds), error)
        self._tried_at = time.monotonic()

    def _claim(self, sight: Sight) -> None:
        self._lease, asked_at = self._lease.renewed(), time.monotonic()
        self._tried_at = asked_at
        tag = claim_lease(self._store, self._log, self._lease, sight)
        self._is_anothers = tag is None
        self._tag = tag
        # The time of the first try, not of the last: any of the repeated requests may be the one that was applied.
        self._asked_at = asked_at

    def _run(self) -> None:
        with suppress(ObjectStoreError):  # the settled store gives up only after `close`
            while self._tag is None and not self._stopping.is_set():
                self._claim(read_lease(self._store, self._log))
            while not self._stopping.is_set():
                if self._tag is None:
                    self._claim_when_still()
                else:
                    self._renew()
        if self._tag is not None and self._gives_back:
            with suppress(ObjectStoreError):
                # One try without retries, because shutdown does not wait for a hanging store.
                claim_lease(self._unsettled, self._log, self._lease.given_back(), Sight(tag=self._tag))

    def _renew(self) -> None:
        while self._tag is not None:
            # Negative after an outage, because the interval counts from the last request: then the lease is renewed at
            # once.
            due_in_seconds = self._asked_at + self._times.renew_seconds - time.monotonic()
            if self._stopping.wait(max(0.0, due_in_seconds)):
                return
            self._claim(Sight(tag=self._tag))

    def _claim_when_still(self) -> None:
        # Like a standby: another owner that renews the lease keeps it.
        watch = Watch(self._times.session_seconds)
        while not self._stopping.wait(self._times.look_seconds):
            asked_at = time.monotonic()
            watch = watch.see(read_lease(self._store, self._log), asked_at, time.monotonic())
            sight = watch.claimable
            if sight is not None:
                self._claim(sight)
                return
