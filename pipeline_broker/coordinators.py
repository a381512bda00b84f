"""The group coordinator at work: its records go to `__consumer_offsets`, its answers to the requests that wait.

Rules of this room: as of `broker`, whose part it is. What state returned is carried out here and nowhere else. An
answer that may be given at once is not held back by records that are on their way; where it must be, the handler asks
for it with `answer_when_durable`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.wire.error import ErrorCode
from stages.request import PARKED, Close, Parked, Pending, Request, Send

if TYPE_CHECKING:
    from pipeline_broker.config.settings import BrokerConfig
    from pipeline_broker.log.entry import JournalEntry
    from pipeline_broker.log.log_manager import LogManager
    from pipeline_broker.state.classic_groups.coordinator import GroupCoordinator
    from pipeline_broker.state.classic_groups.messages import GroupSettings
    from pipeline_broker.state.outcome import Outcome, Write

__all__ = ["OFFSETS_TOPIC", "Groups", "WaitingMember", "group_settings"]

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"

Submit = Callable[[Sequence["JournalEntry"], Callable[[], None]], None]


@attrs.frozen(eq=False)
class WaitingMember:
    """The token of a join or a sync: its request, and how the result is written."""

    request: Request
    encode: Callable[[Any], Send]


def group_settings(config: BrokerConfig) -> GroupSettings:
    """The configuration as the coordinator wants it."""
    from pipeline_broker.state.classic_groups.messages import GroupSettings  # noqa: PLC0415 - see Groups.coordinator

    return GroupSettings(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        session_timeout_ms_min=config.group_min_session_timeout_ms,
        session_timeout_ms_max=config.group_max_session_timeout_ms,
        group_size_max=config.group_max_size,
        offset_metadata_size_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )


class Groups:
    """The groups of a broker.

    Args:
        config: what it acts on.
        logs: where the partitions of `__consumer_offsets` are.
        wake_timer: called when `next_deadline_ms` has become earlier.

    Attributes:
        submit: commits entries that no request waits for, then calls back; set by the server.
    """

    def __init__(self, config: BrokerConfig, logs: LogManager, wake_timer: Callable[[], None]) -> None:
        self._config = config
        self._logs = logs
        self._now_ms = 0
        self._announced_ms: int | None = None
        self._coordinator: GroupCoordinator | None = None
        self._is_loaded = False
        self.submit: Submit = _not_serving
        self._wake_timer = wake_timer

    @property
    def coordinator(self) -> GroupCoordinator:
        """Decides; handlers ask it and hand what it returns to `carry_out` or `answer_when_durable`.

        It is made for the first record or request: a broker without groups starts without it.
        """
        if self._coordinator is None:
            from pipeline_broker.state.classic_groups.coordinator import (  # noqa: PLC0415 - see above
                GroupCoordinator,
            )

            self._coordinator = GroupCoordinator(group_settings(self._config))
            if self._is_loaded:
                self._begin(self._coordinator)
        return self._coordinator

    @property
    def is_ready(self) -> bool:
        """Whether there is a place for records; clients make one by asking for their coordinator."""
        return self._logs.find(OFFSETS_TOPIC, 0) is not None

    def time(self, now_ms: int) -> int:
        """The time as the coordinator may see it: a wall clock that was set back stands still for a while."""
        self._now_ms = max(self._now_ms, now_ms)
        return self._now_ms

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record; raises CorruptStateRecordError."""
        self.coordinator.replay(key, value)

    def loaded(self, now_ms: int) -> None:
        """All records are replayed."""
        self.time(now_ms)
        self._is_loaded = True
        if self._coordinator is not None:
            self._begin(self._coordinator)

    def _begin(self, coordinator: GroupCoordinator) -> None:
        outcome = coordinator.loaded(self._now_ms)
        assert not outcome.writes, "nobody has joined yet, so nothing has changed"
        self._announce(coordinator)

    def unload(self, now_ms: int) -> None:
        """The records are gone: so are the groups."""
        self.time(now_ms)
        if self._coordinator is not None:
            gone, self._coordinator = self._coordinator, None
            self._answer(gone.unload(self._now_ms))

    def topic_deleted(self, topic: str, now_ms: int) -> None:
        """What was committed for a topic goes with it."""
        if self._coordinator is not None:
            self.carry_out(self._coordinator.forget_topic(topic), now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do."""
        self._announced_ms = None if self._coordinator is None else self._coordinator.next_deadline_ms()
        return self._announced_ms

    def advance(self, now_ms: int) -> None:
        """Do what is due."""
        self.time(now_ms)
        if self._coordinator is not None:
            self.carry_out(self._coordinator.advance(self._now_ms), now_ms)

    def carry_out(self, outcome: Outcome, now_ms: int, own: WaitingMember | None = None) -> Send | Close | Parked:
        """Give the answers, and commit the records behind them.

        Returns:
            the result for the request of `own`: its answer, or that it is parked.
        """
        for write in outcome.writes:
            entry = self._append(write, now_ms)
            if entry is not None:
                self.submit([entry], self._applies(write))
        result = self._answer(outcome, own)
        self._announce(self.coordinator)
        return result

    def answer_when_durable(self, outcome: Outcome, now_ms: int, answer: Send) -> Pending | Send:
        """Give the answers to others, and this one when the records are durable."""
        self._answer(outcome)
        entries, applies = [], []
        for write in outcome.writes:
            entry = self._append(write, now_ms)
            if entry is not None:
                entries.append(entry)
                applies.append(self._applies(write))
        self._announce(self.coordinator)
        if not entries:
            return answer

        def apply() -> None:
            for step in applies:
                step()

        return Pending(entries, answer, apply)

    def _applies(self, write: Write) -> Callable[[], None]:
        """What makes a write come true, in the coordinator that decided it."""
        coordinator = self.coordinator

        def apply() -> None:
            outcome = coordinator.durable(write, self._now_ms)
            if coordinator is self._coordinator:
                self.carry_out(outcome, self._now_ms)

        return apply

    def _append(self, write: Write, now_ms: int) -> JournalEntry | None:
        """Append the records of a write; None when there is no place for them, which the coordinator is told."""
        logs = self._logs.partitions(OFFSETS_TOPIC)
        if not logs:
            outcome = self.coordinator.failed(write, ErrorCode.NOT_LEADER_OR_FOLLOWER, self._now_ms)
            self.carry_out(outcome, now_ms)
            return None
        from pipeline_broker.state.group_records import partition_for  # noqa: PLC0415 - see Groups.coordinator

        log = logs[partition_for(write.subject, len(logs))]
        batch = build_batch([NewRecord(record.value, record.key, now_ms) for record in write.records])
        entry = log.append(read_header(batch), batch, now_ms).entry
        assert entry is not None, "no producer, so no duplicate"
        return entry

    def _answer(self, outcome: Outcome, own: WaitingMember | None = None) -> Send | Close | Parked:
        result: Send | Close | Parked = PARKED
        for completion in outcome.completions:
            waiting = completion.token
            assert isinstance(waiting, WaitingMember)
            answer = _encode(waiting, completion.result)
            if waiting is own:
                result = answer
            else:
                waiting.request.complete(answer)
        return result

    def _announce(self, coordinator: GroupCoordinator) -> None:
        next_ms = coordinator.next_deadline_ms()
        if next_ms is not None and (self._announced_ms is None or next_ms < self._announced_ms):
            self._announced_ms = next_ms
            self._wake_timer()


def _encode(waiting: WaitingMember, result: object) -> Send | Close:
    """The answer; one that cannot be written is one client's misfortune."""
    try:
        return waiting.encode(result)
    except Exception as error:
        logger.exception("the answer to a member could not be written")
        return Close(f"answer failed: {error!r}")


def _not_serving(entries: Sequence[JournalEntry], on_durable: Callable[[], None]) -> None:
    raise AssertionError(f"{len(entries)} entries before the server runs, for {on_durable}")
