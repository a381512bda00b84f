"""Handlers that work in steps, so that a large request does not block others.

A handler whose work grows with its request, or with the broker's state, is a generator. It charges its work with
`Call.spend` and yields when that returns True. `stages.unfinished` resumes it after other requests had their turns.
Between two yields nothing else runs. After a yield the broker's state may have changed. Whatever was appended must be
submitted before a yield: yield its `Pending`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import Any, Final, TypeVar

from pipeline_broker.apis.call import Call
from pipeline_broker.base.steps import THINGS_PER_STEP, Steps
from pipeline_broker.broker.metadata_log import Change
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.placed_partitions import PlacedPartitions
from pipeline_broker.state.topic_rules import UNSET
from pipeline_broker.state.waiting_line import WaitingLine
from stages.request import NO_OP, TURN_COST, Parked, Pending, Result, Send, Waiting

__all__ = [
    "CHANGE_COST",
    "ELEMENT_COST",
    "LOGS_AT_ONCE_MAX",
    "PARTITION_COST",
    "SUBSCRIBED_AT_ONCE_MAX",
    "Stepwise",
    "commit_changes",
    "create_logs",
    "everything",
    "in_own_turn",
    "in_steps",
    "paced",
    "pending_changes",
    "place_partitions",
    "wait_for_place",
]

Item = TypeVar("Item")
Made = TypeVar("Made")
Value = TypeVar("Value")

Stepwise = Generator[Pending | Parked | Waiting | None, Any, Value]
"""A generator that yields like `stages.request.Unfinished` and returns a value."""

ELEMENT_COST: Final = 10
"""Default cost of answering one element of a request: about 10 microseconds."""


CHANGE_COST: Final = 300
"""Cost of deciding about a topic, its partitions or a resource, and of applying the durable change, about
microseconds.
"""

PARTITION_COST: Final = 50
"""Cost of creating or deleting one partition, about microseconds."""

# The part of PARTITION_COST that creates the log, and those that choose a leader and encode its record.
LOG_COST: Final = 5
LEADER_COST: Final = 5

LOGS_AT_ONCE_MAX: Final = 400
"""Partitions whose leaders are chosen when their topic is decided, and whose logs are created when its record is
durable. Larger topics do both in turns before.
"""
assert LOG_COST + 2 * LEADER_COST <= PARTITION_COST
assert LOGS_AT_ONCE_MAX * LOG_COST <= TURN_COST, "these logs are created in one turn"

SUBSCRIBED_AT_ONCE_MAX: Final = 100
"""Topic names of a heartbeat that shares a turn. A heartbeat with more names, or with a pattern, has its own turn."""

# Items that a request for everything of a kind answers in the turn in which it arrives.
EVERYTHING_AT_ONCE_MAX: Final = 100

# Turns after which a request waits in `Broker.large_requests`: about 4,000 elements, or 1 MB for each request.
TURNS_WITHOUT_PLACE = 2


def in_steps(
    call: Call, items: Iterable[Item], make: Callable[[Item], Made], cost: int = ELEMENT_COST
) -> Stepwise[list[Made]]:
    """Map `make` over items, yielding when a turn is used up.

    Args:
        call: charged for the work.
        items: must not change between the steps.
        make: must append nothing.
        cost: cost of one item, about microseconds.

    Raises:
        ResponseTooLargeError: the request would cost more than REQUEST_COST_MAX.
    """
    made = []
    for item in items:
        made.append(make(item))
        if call.spend(cost):
            yield None
    return made


def everything(items: Collection[Item]) -> Stepwise[list[Item]]:
    # All topics, for example. The next requests of the queue are handled between this turn and that of the work.
    if len(items) > EVERYTHING_AT_ONCE_MAX:
        yield None
    return list(items)


def in_own_turn(decide: Callable[[], Result]) -> Stepwise[Result]:
    """Call `decide` in a turn of its own, for a single change of state that takes longer than a turn."""
    yield None
    return decide()


def pending_changes(call: Call, changes: list[Change]) -> Pending | None:
    """Submit changes of metadata and clear the list.

    Returns:
        the `Pending` to yield, which applies the changes once they are durable; None if `changes` is empty.
    """
    pending = call.broker.commit_metadata(changes, call.now_ms, NO_OP)
    changes.clear()
    return pending if isinstance(pending, Pending) else None


def commit_changes(call: Call, changes: list[Change], response: Any) -> Stepwise[Result]:
    """Submit the last changes, and return a result that sends the response once they are durable.

    Changes are submitted even if the response cannot be encoded.

    Args:
        changes: decided and not submitted yet.

    Raises:
        ResponseTooLargeError: the response has more than RESPONSE_BYTES_MAX bytes.
    """
    if call.cost < TURN_COST:  # little work, so the response is small
        answer = _sent(call, response)
        if isinstance(answer, Send):
            return call.broker.commit_metadata(changes, call.now_ms, answer)
        # The decided changes must be submitted although encoding the response failed. Otherwise these topics would stay
        # locked against further changes.
        yield pending_changes(call, changes)
        raise answer
    yield pending_changes(call, changes)
    return (yield from call.send_in_steps(response))


def _sent(call: Call, response: Any) -> Send | Exception:
    try:
        return call.send(response)
    except Exception as problem:  # noqa: BLE001 - the caller raises it
        return problem


def place_partitions(
    call: Call,
    changes: list[Change],
    name: str,
    after: Topic | None,
    assignments: Sequence[Sequence[int]] = (),
    wanted: int = UNSET,
) -> Stepwise[PlacedPartitions | None]:
    """Choose the brokers of a large topic's partitions in turns, before its change is decided.

    Args:
        call: charged for the work.
        changes: decided and not submitted yet; submitted between the turns.
        after: the topic after the change; None to delete it.
        assignments: replicas of each new partition; empty to choose them.
        wanted: replication factor of a new topic; UNSET for its default.

    Returns:
        the partitions, for the change of the topic; None for up to LOGS_AT_ONCE_MAX partitions, which the change itself
        places.
    """
    topics = call.broker.topics
    topic = topics.latest(name) if after is None else after
    if topic is None or topic.partitions <= LOGS_AT_ONCE_MAX:
        return None
    placed = yield from _in_turns(call, changes, topics.place(name, after, assignments, wanted))
    yield from _in_turns(call, changes, placed.encode(call.now_ms))
    return placed


def _in_turns(call: Call, changes: list[Change], steps: Steps[Value]) -> Stepwise[Value]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: Value = end.value
            return value
        if call.is_turn_over(LEADER_COST * THINGS_PER_STEP):
            yield pending_changes(call, changes)


def create_logs(
    call: Call, changes: list[Change], topic: Topic, placed: PlacedPartitions | None
) -> Stepwise[list[PartitionLog]]:
    """Create the logs of a large topic in turns, before its change is decided.

    Args:
        topic: with its new partition count.
        placed: from `place_partitions`, as are the other arguments.

    Returns:
        the logs, for `Broker.topic_durable`, which creates the others.
    """
    if placed is None:
        return []
    logs = []
    make = call.broker.log_maker(topic)
    for partition in placed.led_by(call.broker.leadership.broker_id):
        logs.append(make(partition))
        if call.is_turn_over(LOG_COST):
            yield pending_changes(call, changes)
    return logs


def wait_for_place(call: Call, line: WaitingLine) -> Stepwise[None]:
    """Wait until the call is among the limited number of calls that the line lets run.

    Call `line.leave(call)` afterwards, even if the steps are closed.
    """
    if not line.enter(call):
        yield Waiting(functools.partial(line.wait, call))


def paced(steps: Stepwise[Value], call: Call) -> Stepwise[Value]:
    """Run steps and return their value. Only a few requests at a time may take many turns (`Broker.large_requests`).

    The client's quota is not charged for the time between steps.
    """
    broker, quota = call.broker, call.quota
    resume: Callable[[Any], Any] = steps.send
    argument: Any = None
    try:
        for turn in itertools.count(1):
            try:
                first = resume(argument)
            except StopIteration as end:
                value: Value = end.value
                return value
            # A call in the line of long batches does not wait here. Otherwise two calls could wait for each other.
            if turn >= TURNS_WITHOUT_PLACE and first is None and call not in broker.long_batches:
                first = next(wait_for_place(call, broker.large_requests), None)
            if quota is not None:
                quota.pause()
            try:
                resume, argument = steps.send, (yield first)
            except GeneratorExit:
                steps.close()
                raise
            except Exception as error:  # noqa: BLE001 - re-raised in the steps
                resume, argument = steps.throw, error
            if quota is not None:
                quota.resume()
        raise AssertionError("steps always end")
    finally:
        broker.large_requests.leave(call)
