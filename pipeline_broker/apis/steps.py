"""Work in steps: what handlers of large requests do so that others have their turns.

Rules of this room: a handler whose work grows with its request, or with what the broker holds, is a generator. It
charges what it does by `Call.spend` and yields when that says so; `stages.unfinished` goes on with it after others had
their turns. Between two yields it is alone, as every handler is; at a yield the state of the broker may have
changed, and nothing may be appended that is not submitted: yield a `Pending` for that.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, TypeVar

from pipeline_broker.apis.call import Call
from pipeline_broker.broker.metadata_log import Change
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.state.metadata_records import Topic
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
    "in_a_turn_of_its_own",
    "in_steps",
    "made_logs",
    "paced",
    "submitted",
    "wait_for_place",
]

Item = TypeVar("Item")
Made = TypeVar("Made")
Value = TypeVar("Value")

Stepwise = Generator[Pending | Parked | Waiting | None, Any, Value]
"""Work that yields as `stages.request.Unfinished` says, and returns a value."""

ELEMENT_COST: Final = 10
"""What it costs to answer for one element of a request, where nothing else is known: about 10 microseconds."""


CHANGE_COST: Final = 300
"""What it costs to decide about a topic, its partitions or a resource, and to apply that when it is durable."""

PARTITION_COST: Final = 50
"""What it costs to make or delete one."""

LOG_COST: Final = 5
"""Of that, what it costs to make its log."""

LOGS_AT_ONCE_MAX: Final = 400
"""Logs that are made when the record of their topic is durable; more are made before it is written."""

SUBSCRIBED_AT_ONCE_MAX: Final = 100
"""Topic names of a heartbeat that is decided beside others; one with more, or with a pattern, has its own turn."""

TURNS_WITHOUT_PLACE = 2
"""After how many turns a request needs a place among the large ones: 4,000 elements, about 1 MB of each."""


def in_steps(
    call: Call, items: Iterable[Item], make: Callable[[Item], Made], cost: int = ELEMENT_COST
) -> Stepwise[list[Made]]:
    """Make something of each item, while others have their turns.

    Args:
        call: what is charged.
        items: a sequence that nothing changes meanwhile.
        make: makes it; it must append nothing.
        cost: of making one, about microseconds.
    """
    made = []
    for item in items:
        made.append(make(item))
        if call.spend(cost):
            yield None
    return made


def in_a_turn_of_its_own(decide: Callable[[], Result]) -> Stepwise[Result]:
    """Decide at once, when others had their turns: for what takes longer than a turn and is one change of a state."""
    yield None
    return decide()


def submitted(call: Call, changes: list[Change]) -> Pending | None:
    """What to yield between two changes of metadata: those that were decided become durable first.

    Args:
        changes: what was decided; empty afterwards.
    """
    pending = call.broker.commit_metadata(changes, call.now_ms, NO_OP)
    changes.clear()
    return pending if isinstance(pending, Pending) else None


def commit_changes(call: Call, changes: list[Change], response: Any) -> Stepwise[Result]:
    """Answer when the last changes are durable.

    Args:
        changes: what was decided and not submitted yet.
        response: the answer to the request.
    """
    if call.cost < TURN_COST:  # little was done, so the response is small
        answer = _sent(call, response)
        if isinstance(answer, Send):
            return call.broker.commit_metadata(changes, call.now_ms, answer)
        yield submitted(call, changes)  # else nobody could change these topics again; only the answer is lost
        raise answer
    yield submitted(call, changes)
    return (yield from call.send_in_steps(response))


def _sent(call: Call, response: Any) -> Send | Exception:
    """The answer, or why there is none."""
    try:
        return call.send(response)
    except Exception as problem:  # noqa: BLE001 - it is raised again
        return problem


def made_logs(call: Call, changes: list[Change], topic: Topic, first: int = 0) -> Stepwise[list[PartitionLog]]:
    """Make the logs of very many partitions in turns, before the record that they come with is decided.

    Args:
        call: what is charged.
        changes: what was decided and not submitted yet.
        topic: as it is to be.
        first: the first partition that it has not.

    Returns:
        the logs, for `Broker.topic_durable`; none where there are so few that they can be made then.
    """
    logs: list[PartitionLog] = []
    if topic.partitions - first > LOGS_AT_ONCE_MAX:
        make = call.broker.log_maker(topic)
        for partition in range(first, topic.partitions):
            logs.append(make(partition))
            if call.is_turn_over(LOG_COST):
                yield submitted(call, changes)
    return logs


def wait_for_place(call: Call, line: WaitingLine) -> Stepwise[None]:
    """Go on when the call has a place; to be followed by `line.leave(call)`, also where the steps are closed."""
    if not line.enter(call):
        yield Waiting(functools.partial(line.wait, call))


def paced(steps: Stepwise[Value], call: Call) -> Stepwise[Value]:
    """The same steps, of which only so many requests at a time take many turns.

    What is done between two steps counts as no time of the client. Whoever has a place for a long batch needs no other
    one, else two could wait for each other.
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
            if turn >= TURNS_WITHOUT_PLACE and first is None and call not in broker.long_batches:
                first = next(wait_for_place(call, broker.large_requests), None)
            if quota is not None:
                quota.pause()
            try:
                resume, argument = steps.send, (yield first)
            except GeneratorExit:
                steps.close()
                raise
            except Exception as error:  # noqa: BLE001 - it is raised in the steps
                resume, argument = steps.throw, error
            if quota is not None:
                quota.resume()
        raise AssertionError("they end")
    finally:
        broker.large_requests.leave(call)
