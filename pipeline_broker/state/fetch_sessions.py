"""Fetch sessions: a consumer names its partitions once, and from then on only what changes; so does the broker.

    epoch  0   all partitions are named; a session is opened if there is room, the one named is closed
    epoch -1   all partitions are named; no session, the one named is closed
    epoch  n   the n-th incremental fetch of a session: partitions added, changed or forgotten; the rest as before

Rules of this file: what a partition is asked for (`Request`) is the caller's; here only names, order and what was
told last are kept. An incremental answer lists partitions with records, with an error, or whose high watermark or log
start moved.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from random import Random
from typing import Generic, TypeVar

import attrs

from pipeline_broker.wire.error import ErrorCode

__all__ = ["FetchAnswer", "FetchContext", "FetchSessions", "PartitionAnswer", "next_epoch"]

Key = TypeVar("Key", bound=Hashable)
Request = TypeVar("Request")

NO_SESSION = 0
EPOCH_INITIAL = 0
EPOCH_FINAL = -1
EPOCH_MAX = 2**31 - 1
SLOTS = 1_000
STALE_MS = 120_000
UNKNOWN_OFFSET = -1


def next_epoch(epoch: int) -> int:
    """The epoch after one; 0 is only ever the first."""
    if epoch < EPOCH_INITIAL:
        return EPOCH_FINAL
    return 1 if epoch == EPOCH_MAX else epoch + 1


@attrs.frozen
class PartitionAnswer(Generic[Key]):
    """What a fetch found in a partition, as far as it decides whether to tell; `must_tell` for anything special."""

    key: Key
    high_watermark: int
    log_start_offset: int
    has_records: bool = False
    has_error: bool = False
    must_tell: bool = False


@attrs.frozen
class FetchAnswer(Generic[Key]):
    """What to tell: an error of the whole answer, the session's id, and which partitions to list."""

    error: ErrorCode
    session_id: int
    listed: frozenset[Key] = frozenset()


@attrs.define(eq=False)
class _Cached(Generic[Request]):
    """A partition in a session: what is asked for, and what was told last."""

    request: Request
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET

    def note(self, answer: PartitionAnswer[Key]) -> bool:
        """Remember an answer; whether it has to be told."""
        told = (self.high_watermark, self.log_start_offset)
        # after an error the partition is told again even if nothing moved
        self.high_watermark = UNKNOWN_OFFSET if answer.has_error else answer.high_watermark
        self.log_start_offset = answer.log_start_offset
        changed = told != (answer.high_watermark, answer.log_start_offset)
        return changed or answer.has_records or answer.has_error or answer.must_tell


@attrs.define(eq=False)
class _Session(Generic[Key, Request]):
    session_id: int
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    partitions: dict[Key, _Cached[Request]]
    names: dict[bytes, str]
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
    """The sessions of all connections; `random` makes ids that are unlikely to be met again after a restart.

    Attributes:
        evicted: sessions that were closed to make room.
    """

    def __init__(self, random: Random, slots: int = SLOTS, stale_ms: int = STALE_MS) -> None:
        self.slots = slots
        self.stale_ms = stale_ms
        self._random = random
        self._sessions: dict[int, _Session[Key, Request]] = {}  # the one not used for longest first
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """Partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

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
            self._sessions.pop(session_id, None)
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
            return FetchAnswer(ErrorCode.NONE, self._open(context, found, now_ms), frozenset(found))
        session = context.session
        if session is None:
            return FetchAnswer(ErrorCode.NONE, NO_SESSION, frozenset(found))
        if session.epoch != context.epoch:
            return FetchAnswer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id)
        listed = set()
        for key, answer in found.items():
            cached = session.partitions[key]
            if cached.note(answer):
                listed.add(key)
                if answer.has_records:  # the others come first next time
                    session.partitions[key] = session.partitions.pop(key)
        return FetchAnswer(ErrorCode.NONE, session.session_id, frozenset(listed))

    def skip(self, context: FetchContext[Key, Request]) -> ErrorCode:
        """A fetch is answered without partitions: what was found is told next time. The error of the whole answer."""
        session = context.session
        if context.error is ErrorCode.NONE and session is not None and session.epoch != context.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return context.error

    def _continue(
        self,
        session: _Session[Key, Request],
        partitions: Mapping[Key, Request],
        forgotten: Iterable[Key],
        now_ms: int,
    ) -> FetchContext[Key, Request]:
        for key, request in partitions.items():
            if key in session.partitions:
                session.partitions[key].request = request
            else:
                session.partitions[key] = _Cached(request)
        for key in forgotten:
            session.partitions.pop(key, None)
        session.epoch = next_epoch(session.epoch)
        if not session.partitions:
            del self._sessions[session.session_id]
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
        if len(self._sessions) >= self.slots and not self._evict(len(context.partitions), now_ms):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randrange(1, EPOCH_MAX + 1)
        partitions = {key: _Cached(request) for key, request in context.partitions.items()}
        for key, answer in found.items():
            partitions[key].note(answer)
        self._sessions[session_id] = _Session(
            session_id, context.uses_topic_ids, now_ms, now_ms, partitions, context.names
        )
        return session_id

    def _evict(self, size: int, now_ms: int) -> bool:
        """Close a session that is stale, or an old one that is worth less: not larger than the one to come."""
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.last_used_ms > self.stale_ms:
            self._close(stalest)
            return True
        old = (session for session in self._sessions.values() if now_ms - session.created_ms > self.stale_ms)
        least = min(old, key=lambda session: len(session.partitions), default=None)
        if least is None or len(least.partitions) > size:
            return False
        self._close(least)
        return True

    def _close(self, session: _Session[Key, Request]) -> None:
        del self._sessions[session.session_id]
        self.evicted += 1
