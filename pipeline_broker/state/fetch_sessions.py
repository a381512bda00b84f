"""Incremental fetch sessions (KIP-227): consumer and broker send only changes between two fetches.

The epoch of a request selects its kind:

    epoch  0   full fetch of all named partitions; closes the named session, then opens one if capacity allows
    epoch -1   full fetch of all named partitions; closes the named session
    epoch  n   n-th incremental fetch of a session: names added, changed and forgotten partitions

Counterpart in Kafka: `FetchSession`, `FetchSessionCache`; the number of partitions is bounded too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.topic_rules import NAME_LENGTH_MAX

__all__ = [
    "PARTITIONS_MAX",
    "FetchAnswer",
    "FetchContext",
    "FetchSessions",
    "PartitionAnswer",
    "fetch_sessions_of",
    "next_epoch",
]

Key = TypeVar("Key", bound=Hashable)
Request = TypeVar("Request")

NO_SESSION = 0
EPOCH_INITIAL = 0
EPOCH_FINAL = -1
EPOCH_MAX = 2**31 - 1
SLOTS = 1_000
PARTITIONS_MAX = 100_000
"""Default limit of partitions in all sessions; each takes about 350 bytes."""
# Unknown partitions in a new session. A client may wait for topics, but inventing names costs it nothing.
UNKNOWN_PARTITIONS_MAX = 1_000
STALE_MS = 120_000
UNKNOWN_OFFSET = -1


def next_epoch(epoch: int) -> int:
    if epoch < EPOCH_INITIAL:
        return EPOCH_FINAL
    # The count restarts at 1, because 0 only ever opens a session.
    return 1 if epoch == EPOCH_MAX else epoch + 1


class PartitionAnswer(NamedTuple, Generic[Key]):
    """The result of a fetch in one partition, as far as it decides whether the response lists the partition.

    Attributes:
        must_list: list the partition in any case.
        is_unknown: the partition does not exist.
    """

    key: Key
    high_watermark: int
    log_start_offset: int
    has_records: bool = False
    has_error: bool = False
    must_list: bool = False
    is_unknown: bool = False


class FetchAnswer(NamedTuple, Generic[Key]):
    """The error of the whole response, the session id, and the partitions to list."""

    error: ErrorCode
    session_id: int
    listed: Collection[Key] = frozenset()


@attrs.define(eq=False)
class _Cached(Generic[Request]):
    request: Request
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET

    def note(self, answer: PartitionAnswer[Key]) -> bool:
        """Remember an answer; return whether the response must list the partition."""
        _, high_watermark, log_start_offset, has_records, has_error, must_list, _ = answer
        changed = self.high_watermark != high_watermark or self.log_start_offset != log_start_offset
        # After an error the next response lists the partition, even if its offsets stay the same.
        self.high_watermark = UNKNOWN_OFFSET if has_error else high_watermark
        self.log_start_offset = log_start_offset
        return changed or has_records or has_error or must_list


@attrs.define(eq=False)
class _Session(Generic[Key, Request]):
    session_id: int
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    partitions: dict[Key, _Cached[Request]]
    names: dict[bytes, str]
    size: int
    epoch: int = 1


@attrs.define(eq=False)
class FetchContext(Generic[Key, Request]):
    """One fetch: the partitions to read in order, or an error. The caller passes it to `FetchSessions.answer` once.

    Attributes:
        names: names by topic id that earlier fetches of the session found. The caller adds to them; they distinguish a
            deleted topic from an unknown one.
    """

    error: ErrorCode
    session_id: int
    partitions: dict[Key, Request]
    opens_session: bool = False
    uses_topic_ids: bool = False
    session: _Session[Key, Request] | None = None
    epoch: int = EPOCH_FINAL
    names: dict[bytes, str] = attrs.Factory(dict)


class FetchSessions(Generic[Key, Request]):
    """The fetch sessions of all connections, bounded in number and in partitions.

    The caller chooses the type `Request` of a partition's request. A session stores it with the order of partitions and
    the offsets that the client knows. A client whose session does not fit gets the session id 0 and continues with full
    fetches. A session that grows beyond the capacity is closed, as if it had been evicted. A session with more than
    UNKNOWN_PARTITIONS_MAX unknown partitions is never opened.

    Args:
        random: makes session ids that are unlikely to occur again after a restart.
        slots: maximum number of sessions.
        partitions_max: maximum number of partitions of all sessions together.
        stale_ms: time after which an unused session may be evicted, and an old one by a larger one.
        size_of: the number of partitions that a key counts as; more than 1 for keys that take more memory.

    Attributes:
        evicted: number of sessions that were closed to make capacity for others.
        partitions: partitions in all sessions, as `size_of` counts them.
    """

    def __init__(
        self,
        random: Random,
        slots: int = SLOTS,
        partitions_max: int = PARTITIONS_MAX,
        stale_ms: int = STALE_MS,
        size_of: Callable[[Key], int] = lambda _: 1,
    ) -> None:
        self.slots = slots
        self.partitions_max = partitions_max
        self.partitions = 0
        self._stale_ms = stale_ms
        self._size_of = size_of
        self._random = random
        self._sessions: dict[int, _Session[Key, Request]] = {}  # least recently used first
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def keys_of(self, session_id: int) -> tuple[Key, ...]:
        session = self._sessions.get(session_id)
        return () if session is None else tuple(session.partitions)

    def begin(
        self,
        session_id: int,
        epoch: int,
        partitions: Mapping[Key, Request],
        forgotten: Iterable[Key],
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext[Key, Request]:
        """Apply a fetch request to its session and return the partitions to read.

        The context has an error if the session is unknown or too large, the epoch is not the next one, or
        `uses_topic_ids` has changed.

        Args:
            session_id, epoch: as in the request.
            partitions: named partitions with their requests.
            forgotten: partitions to remove from the session.
            uses_topic_ids: whether the request names topics by id. It must stay the same in a session.
            now_ms: current time.
        """
        if epoch in {EPOCH_INITIAL, EPOCH_FINAL}:
            # Both kinds of full fetch end the session that the client names.
            self._forget(session_id)
            return FetchContext(
                ErrorCode.NONE,
                NO_SESSION,
                dict(partitions),
                opens_session=epoch == EPOCH_INITIAL,
                uses_topic_ids=uses_topic_ids,
            )
        session = self._sessions.get(session_id)
        if session is None:
            return FetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION, {})
        if session.epoch != epoch:
            return FetchContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH, NO_SESSION, {})
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, NO_SESSION, {})
        return self._continue(session, partitions, forgotten, now_ms)

    def answer(
        self,
        context: FetchContext[Key, Request],
        answers: Iterable[PartitionAnswer[Key]],
        now_ms: int,
    ) -> FetchAnswer[Key]:
        """Choose the partitions that the response lists; open a session if the context asks for one and it fits.

        A full response lists all partitions. An incremental response lists a partition with records, an error or
        `must_list`, or with a changed high watermark or log start offset. If the next request of the session has
        already arrived, the response is an error.
        """
        found = {answer.key: answer for answer in answers}
        if context.error is not ErrorCode.NONE:
            return FetchAnswer(context.error, NO_SESSION)
        if context.opens_session:
            return FetchAnswer(ErrorCode.NONE, self._open(context, found, now_ms), found.keys())
        session = context.session
        if session is None:
            return FetchAnswer(ErrorCode.NONE, NO_SESSION, found.keys())
        # The session's next request arrived while this fetch was parked.
        if session.epoch != context.epoch:
            return FetchAnswer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id)
        listed = set()
        for key, answer in found.items():
            cached = session.partitions[key]
            if cached.note(answer):
                listed.add(key)
                if answer.has_records:  # the next fetch reads the other partitions first
                    session.partitions[key] = session.partitions.pop(key)
        return FetchAnswer(ErrorCode.NONE, session.session_id, listed)

    def skip(self, context: FetchContext[Key, Request]) -> ErrorCode:
        """Return the error of a response without partitions; the next response reports the results."""
        session = context.session
        if session is not None and session.epoch != context.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return context.error

    def _continue(
        self,
        session: _Session[Key, Request],
        partitions: Mapping[Key, Request],
        forgotten: Iterable[Key],
        now_ms: int,
    ) -> FetchContext[Key, Request]:
        added = self._sum(key for key in partitions if key not in session.partitions)
        if added > self._room and not self._evict(session.size + added, added, now_ms, spared=session):
            # The client then opens a new session, as after an eviction.
            self._close(session)
            return FetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION, {})
        for key, request in partitions.items():
            if key in session.partitions:
                session.partitions[key].request = request
            else:
                session.partitions[key] = _Cached(request)
        removed = self._sum(key for key in forgotten if session.partitions.pop(key, None) is not None)
        session.size += added - removed
        self.partitions += added - removed
        session.epoch = next_epoch(session.epoch)
        if not session.partitions:
            self._forget(session.session_id)
            return FetchContext(ErrorCode.NONE, NO_SESSION, dict(partitions))
        session.last_used_ms = now_ms
        # Keep the least recently used session first.
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return FetchContext(
            ErrorCode.NONE,
            session.session_id,
            {key: cached.request for key, cached in session.partitions.items()},
            uses_topic_ids=session.uses_topic_ids,
            session=session,
            epoch=session.epoch,
            names=session.names,
        )

    def _open(
        self,
        context: FetchContext[Key, Request],
        found: Mapping[Key, PartitionAnswer[Key]],
        now_ms: int,
    ) -> int:
        """Open a session for a full fetch and return its id.

        Returns 0 if the capacity does not suffice or too many partitions are unknown.
        """
        if sum(answer.is_unknown for answer in found.values()) > UNKNOWN_PARTITIONS_MAX:
            return NO_SESSION
        size = self._sum(context.partitions)
        has_room = len(self._sessions) < self.slots and size <= self._room
        if not has_room and not self._evict(size, size, now_ms):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randrange(1, EPOCH_MAX + 1)
        partitions: dict[Key, _Cached[Request]] = {}
        for key, request in context.partitions.items():
            cached = partitions[key] = _Cached(request)
            if key in found:
                cached.note(found[key])
        self._sessions[session_id] = _Session(
            session_id, context.uses_topic_ids, now_ms, now_ms, partitions, context.names, size
        )
        self.partitions += size
        return session_id

    @property
    def _room(self) -> int:
        return self.partitions_max - self.partitions

    def _sum(self, keys: Iterable[Key]) -> int:
        return sum(map(self._size_of, keys))

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= session.size

    def _evict(self, size: int, added: int, now_ms: int, spared: _Session[Key, Request] | None = None) -> bool:
        """Close sessions to make capacity for another; return False, without closing any, if that cannot suffice.

        As in Kafka (FetchSessionCache.tryEvict), stale sessions are closed first, the least recently used one before
        others. Old sessions that are not larger follow, the smallest first. No more are closed than necessary.

        Args:
            size: size of the session that needs capacity.
            added: number of partitions that it adds.
            now_ms: current time.
            spared: the session that needs capacity, if it exists already; a new one needs a slot, too.
        """
        if added > self.partitions_max:
            return False
        others = [session for session in self._sessions.values() if session is not spared]
        is_stale = {session: now_ms - session.last_used_ms > self._stale_ms for session in others}
        candidates = [session for session in others if is_stale[session]]
        candidates += sorted(
            (
                session
                for session in others
                if not is_stale[session] and now_ms - session.created_ms > self._stale_ms and session.size <= size
            ),
            key=lambda session: session.size,
        )
        victims = []
        room, slots = self._room, self.slots - len(self._sessions) + (spared is not None)
        for session in candidates:
            if room >= added and slots > 0:
                break
            victims.append(session)
            room, slots = room + session.size, slots + 1
        if room < added or slots <= 0:
            return False
        for session in victims:
            self._close(session)
        return True

    def _close(self, session: _Session[Key, Request]) -> None:
        self._forget(session.session_id)
        self.evicted += 1


def fetch_sessions_of(config: BrokerConfig, random: Random) -> FetchSessions[tuple[str, bytes, int], Any]:
    """Create the sessions of a broker; their keys are topic name, topic id and partition, with name or id empty."""
    return FetchSessions(
        random,
        config.max_incremental_fetch_session_cache_slots,
        config.pipeline_fetch_session_partitions,
        # Names of unknown topics may be longer than NAME_LENGTH_MAX, so they count by their memory.
        size_of=lambda key: 1 + len(key[0]) // (NAME_LENGTH_MAX + 1),
    )
