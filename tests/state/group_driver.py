"""A driver of a GroupCoordinator, in place of a broker: it keeps the clock, the responses and the journal."""

from __future__ import annotations

from itertools import count

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.classic.messages import (
    HeartbeatRequest,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    MemberProtocol,
    SyncRequest,
    SyncResult,
)
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.outcome import Outcome, StateRecord, Write
from pipeline_broker.state.placed_partitions import OneBroker
from pipeline_broker.state.topics import TopicCatalogue
from tests.state.replaying import replay_group

START_MS = 1_700_000_000_000
RANGE = (MemberProtocol("range", b"range-metadata"),)
OTHER = (MemberProtocol("range", b"other-metadata"),)


@attrs.define
class Driver:
    """A coordinator with its journal; with `hold` its writes wait for `settle`, else they are durable at once."""

    settings: BrokerConfig = attrs.Factory(BrokerConfig)
    hold: bool = False
    now_ms: int = START_MS
    answers: dict[str, object] = attrs.Factory(dict)
    pending: list[Write] = attrs.Factory(list)
    journal: list[StateRecord] = attrs.Factory(list)
    coordinator: GroupCoordinator = attrs.field(init=False)
    fresh: count = attrs.Factory(count)
    topics: TopicCatalogue = attrs.Factory(lambda: TopicCatalogue(1, OneBroker(0)))

    def __attrs_post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Replay the durable records into a new coordinator."""
        self.pending.clear()
        self.coordinator = GroupCoordinator(self.settings, self.topics)
        for record in self.journal:
            replay_group(self.coordinator, record)
        self.take(self.coordinator.loaded(self.now_ms))

    def take(self, outcome: Outcome) -> None:
        for completion in outcome.completions:
            assert completion.token not in self.answers, "answered twice"
            self.answers[completion.token] = completion.result
        self.pending += outcome.writes
        if not self.hold:
            self.settle()

    def settle(self, error: ErrorCode | None = None) -> None:
        """Make all appended records durable, or let them fail."""
        while self.pending:
            write = self.pending.pop(0)
            if error is None:
                self.journal += write.records
                self.take(self.coordinator.durable(write, self.now_ms))
            else:
                self.take(self.coordinator.failed(write, error, self.now_ms))

    def tick(self, delay_ms: int) -> None:
        """Advance the clock, stopping at every deadline."""
        end_ms = self.now_ms + delay_ms
        while (deadline_ms := self.coordinator.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.take(self.coordinator.advance(self.now_ms))
        self.now_ms = end_ms

    def join(self, token: str, member_id: str = "", **more: object) -> JoinResult | None:
        request = JoinRequest(
            **{
                "group_id": "g",
                "client_id": "client",
                "client_host": "/127.0.0.1",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 30_000,
                "protocol_type": "consumer",
                "protocols": RANGE,
                "fresh_id": str(next(self.fresh)),
                "member_id_required": False,
            }
            | {"member_id": member_id}
            | more,
        )
        self.take(self.coordinator.join(request, token, self.now_ms))
        return self.answers.get(token)

    def sync(self, token: str, member_id: str, generation_id: int, **more: object) -> SyncResult | None:
        values = {"group_id": "g"} | more
        request = SyncRequest(member_id=member_id, generation_id=generation_id, **values)
        self.take(self.coordinator.sync(request, token, self.now_ms))
        return self.answers.get(token)

    def heartbeat(self, member_id: str, generation_id: int, **more: object) -> ErrorCode:
        values = {"group_id": "g"} | more
        request = HeartbeatRequest(member_id=member_id, generation_id=generation_id, **values)
        return self.coordinator.heartbeat(request, self.now_ms)

    def leave(self, *who: LeavingMember, group_id: str = "g") -> LeaveResult:
        result, outcome = self.coordinator.leave(group_id, who, self.now_ms)
        self.take(outcome)
        return result

    def delete(self, group_id: str = "g") -> ErrorCode:
        errors, outcome = self.coordinator.delete([group_id], self.now_ms)
        self.take(outcome)
        return errors[group_id]

    @property
    def state(self) -> str:
        return self.coordinator.describe("g").state

    def stable(self, members: int = 2) -> list[str]:
        """Create a stable group of `members` members, the leader first. Their assignments are their numbers."""
        tokens = [f"setup-join-{next(self.fresh)}" for _ in range(members)]
        for token in tokens:
            self.join(token)
        self.tick(self.settings.group_initial_rebalance_delay_ms * 2)
        joined = [self.answers[token] for token in tokens]
        leader = joined[0].leader
        ids = sorted((result.member_id for result in joined), key=lambda member_id: member_id != leader)
        assignments = {member_id: str(index).encode() for index, member_id in enumerate(ids)}
        for member_id in reversed(ids):
            token = f"setup-sync-{next(self.fresh)}"
            more = {"assignments": assignments} if member_id == leader else {}
            self.sync(token, member_id, joined[0].generation_id, **more)
        return ids


def in_state(state: str) -> tuple[Driver, list[str], int]:
    """Return a driver with group `g` in a state, the ids of its members (the leader first) and its generation."""
    driver = Driver()
    ids = driver.stable(2)
    generation = 1
    if state == "PreparingRebalance":
        driver.join("rejoin", ids[0])
    elif state == "CompletingRebalance":
        driver.join("rejoin-0", ids[0])
        driver.join("rejoin-1", ids[1])
        generation = 2
    elif state in {"Empty", "Dead"}:
        driver.leave(*(LeavingMember(member_id) for member_id in ids))
        generation = 2
        if state == "Dead":
            driver.hold = True
            assert driver.delete() is ErrorCode.NONE
    assert driver.state == state
    return driver, ids, generation
