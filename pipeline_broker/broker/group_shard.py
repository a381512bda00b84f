"""The coordinator of the groups in one partition of `__consumer_offsets`: appends their records, answers their members.

Counterpart in Kafka: `GroupCoordinatorShard`, `CoordinatorRuntime`; `state` decides, `broker` appends and answers.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import Appended
from pipeline_broker.broker.coordinator import append_records
from pipeline_broker.broker.latest_time import LatestTime
from pipeline_broker.broker.ports import Submit, do_nothing
from pipeline_broker.log.errors import LogError
from stages.request import Close, Final, Parked, Pending, Request, Send

if TYPE_CHECKING:
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.state.groups.commits import CommitRequest
    from pipeline_broker.state.groups.coordinator import GroupCoordinator
    from pipeline_broker.state.groups.records import GroupRecord
    from pipeline_broker.state.outcome import Outcome, Write

__all__ = ["GroupShard", "WaitingMember"]

logger = logging.getLogger(__name__)

# The parts of a request that a group keeps are charged to `pipeline.group.bytes`. With its frame, waiting members would
# fill the memory for requests: 12 JoinGroups of 10 MB stopped all other requests.
PARKED_WITHOUT_FRAME = Parked(needs_frame=False)
# Members that are answered in the turn of the decision: about 1 ms of work. More get turns of their own.
ANSWERED_AT_ONCE_MAX = 32


@attrs.frozen(eq=False)
class WaitingMember:
    """The token of a parked join or sync: its request, and the encoder of the result."""

    request: Request
    encode: Callable[[Any], Send]


class GroupShard:
    """The consumer, share and classic groups of one partition of `__consumer_offsets`.

    Only `carry_out` and `answer_when_durable` carry out an `Outcome`. A handler calls `answer_when_durable` if its
    answer depends on the records of the outcome. Any other answer is sent at once. After a yield a handler must check
    `is_unloaded` or call `Groups.coordinator_of` again.

    Args:
        log: the partition.
        coordinator: the state machine of its groups.
        time: clock of all groups.
        submit: commits entries that no request waits for.
        announce: called with the next deadline after each change.

    Attributes:
        log: the partition.
        is_unloaded: True once `unload` was called; no answer of the coordinator counts any more.
        coordinator: handlers pass its outcomes to `carry_out` or `answer_when_durable`.
    """

    def __init__(
        self,
        log: PartitionLog,
        coordinator: GroupCoordinator,
        time: LatestTime,
        submit: Submit,
        announce: Callable[[int | None], None],
    ) -> None:
        self.coordinator = coordinator
        self.log = log
        self.time = time
        self._submit = submit
        self._announce = announce
        self.is_unloaded = False

    def is_joining_long(self, group_id: str) -> bool:
        group = self.coordinator.registry.get(group_id)
        return group is not None and group.is_joining_long

    def replay(self, producer_id: int, change: GroupRecord, *, is_transactional: bool) -> None:
        if is_transactional:
            # Offsets of a transaction stay invisible until its marker is replayed.
            self.coordinator.replay_held(producer_id, change)
        else:
            self.coordinator.replay(change)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.coordinator.end_transaction(producer_id, committed=is_commit)

    def commit_in_transaction(
        self, request: CommitRequest, producer: tuple[int, int], now_ms: int
    ) -> tuple[tuple[ErrorCode, ...], JournalEntry | None, Callable[[], None]]:
        """Append offsets that become visible when a transaction commits.

        Args:
            request: the commit, as part of a transaction.
            producer: producer id and epoch.
            now_ms: wall clock.

        Returns:
            an error for each partition; the entry to commit, None if no offset is stored; and the function to call once
            the entry is durable.

        Raises:
            LogError: the producer is fenced; no offset is stored.
        """
        forgotten = self.coordinator.forget_before(request)
        # If the topic was created again, old offsets may still wait for deletion. Their tombstones must precede the new
        # offsets.
        if forgotten.writes:
            self.carry_out(forgotten, now_ms)
        result = self.coordinator.commit(request, self.time(now_ms))
        self._announce(self.coordinator.next_deadline_ms())
        write = result.write
        if write is None:
            return result.errors, None, do_nothing
        try:
            entry = append_records(self.log, write.body or write.records, now_ms, producer)
        except LogError:
            self.coordinator.failed(write, ErrorCode.INVALID_PRODUCER_EPOCH, self.time.now_ms)
            raise
        return result.errors, entry, self._applies(write)

    def unload(self) -> None:
        """Answer all parked requests with NOT_COORDINATOR: the topic was deleted, or another broker coordinates."""
        self.is_unloaded = True
        self._answer(self.coordinator.unload(self.time.now_ms))

    def advance(self, now_ms: int) -> None:
        self.carry_out(self.coordinator.advance(self.time.now_ms), now_ms)

    def carry_out(self, outcome: Outcome, now_ms: int, own: WaitingMember | None = None) -> Send | Close | Parked:
        """Answer waiting members, and commit the records of an outcome.

        Args:
            own: the member whose request is being handled.

        Returns:
            the result for the request of `own`: its answer, `Close` if the answer cannot be encoded, or `Parked` if the
            outcome does not answer it.
        """
        for write in outcome.writes:
            entry = self._append(write, now_ms)
            if entry is not None:
                self._submit([entry], self._applies(write))
        # At once: these answers do not depend on the records, see `answer_when_durable`.
        result = self._answer(outcome, own)
        self._announce(self.coordinator.next_deadline_ms())
        return result

    def answer_when_durable(self, outcome: Outcome, now_ms: int, answer: Final) -> Pending | Final:
        """Answer waiting members at once, and the request itself once the records of the outcome are durable.

        Returns:
            `answer` itself if no record is appended.
        """
        appended = Appended()
        self.append(outcome, appended, now_ms)
        return Pending(appended.entries, answer, appended.durable) if appended.entries else answer

    def append(self, outcome: Outcome, appended: Appended, now_ms: int) -> None:
        """Answer waiting members at once, and add the records of the outcome to `appended`."""
        self._answer(outcome)
        for write in outcome.writes:
            entry = self._append(write, now_ms)
            if entry is not None:
                appended.add(entry, self._applies(write))
        self._announce(self.coordinator.next_deadline_ms())

    def _applies(self, write: Write) -> Callable[[], None]:
        def apply() -> None:
            outcome = self.coordinator.durable(write, self.time.now_ms)
            # The records may have been unloaded since: the outcome then belongs to groups that no longer exist.
            if not self.is_unloaded:
                self.carry_out(outcome, self.time.now_ms)

        return apply

    def _append(self, write: Write, now_ms: int) -> JournalEntry | None:
        if not self.is_unloaded:
            return append_records(self.log, write.body or write.records, now_ms)
        # Members retry and look for the new coordinator.
        self._answer(self.coordinator.failed(write, ErrorCode.NOT_LEADER_OR_FOLLOWER, self.time.now_ms))
        return None

    def _answer(self, outcome: Outcome, own: WaitingMember | None = None) -> Send | Close | Parked:
        result: Send | Close | Parked = PARKED_WITHOUT_FRAME
        # A large group is answered in turns, because its assignments take long to encode.
        are_few = len(outcome.completions) <= ANSWERED_AT_ONCE_MAX
        for completion in outcome.completions:
            waiting = completion.token
            assert isinstance(waiting, WaitingMember)
            if waiting is own:
                result = _encode(waiting, completion.result)
            elif are_few:
                waiting.request.complete(_encode(waiting, completion.result))
            else:
                waiting.request.connection.call_back(
                    waiting.request, functools.partial(_encode, waiting, completion.result)
                )
        return result


def _encode(waiting: WaitingMember, result: object) -> Send | Close:
    try:
        return waiting.encode(result)
    except Exception as error:  # it closes the connection of one client; the other members get their answers
        logger.exception("cannot encode the response to a group member")
        return Close(f"the response to a group member cannot be encoded: {error!r}")
