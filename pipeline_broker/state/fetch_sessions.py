"""Fetch sessions: a consumer names its partitions once, and from then on only what changes; so does the broker.

    epoch  0   all partitions are named; a session is opened if there is room, the one named is closed
    epoch -1   all partitions are named; no session, the one named is closed
    epoch  n   the n-th incremental fetch of a session: partitions added, changed or forgotten; the rest as before

Sessions are bounded in number and in partitions. A session that finds no room gets the id 0, and its client goes on
with full fetches (KIP-227); one that grows beyond the room is closed, as if it had been evicted. A session of more than
UNKNOWN_PARTITIONS_MAX partitions that do not exist is not kept at all: such names cost a client nothing to make up.

Rules of this file: what a partition is asked for (`Request`) is the caller's; here only names, order and what was
told last are kept. An incremental answer lists partitions with records, with an error, or whose high watermark or log
start moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

import attrs

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.topic_rules import NAME_LENGTH_MAX
from pipeline_broker.wire.error import ErrorCode

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
"""Partitions in all sessions; each takes about 350 bytes."""
UNKNOWN_PARTITIONS_MAX = 1_000
"""Partitions that do not exist in a session when it is opened: a client may wait for topics, but not for any number."""
STALE_MS = 120_000
UNKNOWN_OFFSET = -1


def next_epoch(epoch: int) -> int:
    """The epoch after one; 0 is only ever the first."""
    if epoch < EPOCH_INITIAL:
        return EPOCH_FINAL
    return 1 if epoch == EPOCH_MAX else epoch + 1


class PartitionAnswer(NamedTuple, Generic[Key]):
    """What a fetch found in a partition, as far as it decides whether to tell; `must_list` for anything special.

    `is_unknown` says that there is no such partition.
    """

    key: Key
    high_watermark: int
    log_start_offset: int
    has_records: bool = False
    has_error: bool = False
    must_list: bool = False
    is_unknown: bool = False


class FetchAnswer(NamedTuple, Generic[Key]):
    """What to tell: an error of the whole answer, the session's id, and which partitions to list."""

    error: ErrorCode
    session_id: int
    listed: Collection[Key] = frozenset()


@attrs.define(eq=False)
class _Cached(Generic[Request]):
    """A partition in a session: what is asked for, and what was told last."""

    request: Request
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET

    def note(self, answer: PartitionAnswer[Key]) -> bool:
        """Remember an answer; whether it has to be told."""
        _, high_watermark, log_start_offset, has_records, has_error, must_list, _ = answer
        changed = self.high_watermark != high_watermark or self.log_start_offset != log_start_offset
        # after an error the partition is told again even if nothing moved
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
    """One fetch: which partitions to read, in order, or why none; then `FetchSessions.answer`, once.

    Attributes:
        names: those of topics that the session's fetches have found by their ids; the caller adds to them, and may
            so tell a topic that is gone from one that never was.
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
    """The sessions of all connections.

    Args:
        random: makes ids that are unlikely to be met again after a restart.
        slots: sessions at a time.
        partitions_max: partitions of all sessions together.
        stale_ms: how long a session must be unused, or how old it must be, to give way to another.
        size_of: as how many partitions a key counts: more than 1 for one that takes more memory than others.

    Attributes:
        evicted: sessions that were closed to make room.
        partitions: partitions in all sessions, as `size_of` counts them.
    """

    def __init__(
        self,
        random: Random,
        slots: int = SLOTS,
        partitions_max: int = PARTITIONS_MAX,
        stale_ms: int = STALE_MS,
        size_of: Callable[[Key], int] = lambda key: 1,  # noqa: ARG005 - the caller passes it by position
    ) -> None:
        self.slots = slots
        self.partitions_max = partitions_max
        self.partitions = 0
        self._stale_ms = stale_ms
        self._size_of = size_of
        self._random = random
        self._sessions: dict[int, _Session[Key, Request]] = {}  # the one not used for longest first
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def keys_of(self, session_id: int) -> tuple[Key, ...]:
        """The partitions that a session reads; none where there is no such session."""
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
        """Take a fetch request into its session."""
        if epoch in {EPOCH_INITIAL, EPOCH_FINAL}:
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
        """Decide what to tell of what was found."""
        found = {answer.key: answer for answer in answers}
        if context.error is not ErrorCode.NONE:
            return FetchAnswer(context.error, NO_SESSION)
        if context.opens_session:
            return FetchAnswer(ErrorCode.NONE, self._open(context, found, now_ms), found.keys())
        session = context.session
        if session is None:
            return FetchAnswer(ErrorCode.NONE, NO_SESSION, found.keys())
        if session.epoch != context.epoch:
            return FetchAnswer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id)
        listed = set()
        for key, answer in found.items():
            cached = session.partitions[key]
            if cached.note(answer):
                listed.add(key)
                if answer.has_records:  # the others come first next time
                    session.partitions[key] = session.partitions.pop(key)
        return FetchAnswer(ErrorCode.NONE, session.session_id, listed)

    def skip(self, context: FetchContext[Key, Request]) -> ErrorCode:
        """A fetch is answered without partitions: what was found is told next time. The error of the whole answer."""
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
        """Open a session on what a full fetch was told; 0 when there is no room for it."""
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
        """Close sessions that may give way, no more than must, or none where that would not make room.

        As in Kafka (FetchSessionCache.tryEvict) those give way that are stale, the one unused for longest first, then
        old ones that are not larger, the smallest first.

        Args:
            size: of the session that needs room.
            added: partitions that it needs room for.
            now_ms: the time.
            spared: that session, where it exists; otherwise a slot is needed, too.
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
    """The sessions of a broker; a key is a topic's name and id, one of which may be empty, and a partition.

    A name that is too long for any topic counts as often as it has the length of one.
    """
    return FetchSessions(
        random,
        config.max_incremental_fetch_session_cache_slots,
        config.pipeline_fetch_session_partitions,
        size_of=lambda key: 1 + len(key[0]) // (NAME_LENGTH_MAX + 1),
    )
