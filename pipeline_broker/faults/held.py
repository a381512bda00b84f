"""Responses and queues that fault rules hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from stages.request import Final, Request

__all__ = ["Held", "HeldAnswer"]

NEVER_MS = 2**63


@attrs.define(eq=False)
class HeldAnswer:
    """A response that is held until `due_ms`, and until the rules that pause it are released.

    Attributes:
        request: completed with `result` later.
        due_ms: the earliest time of the response.
        delays: the numbers of the rules that delay the response.
        pauses: the numbers of the rules that still pause the response.
    """

    request: Request
    result: Final
    due_ms: int
    delays: frozenset[int]
    pauses: set[int]


class Held:
    """All responses and queues that the rules of a broker hold.

    Each of them continues exactly once: after its delay and the release of all its rules, or when the broker ends.
    Removing a rule ends its pauses and delays. Closing the connection drops a response. The order of responses is not
    kept here: an open slot holds back the later responses of its connection.

    Args:
        wake_timer: called when `next_deadline_ms` becomes earlier.
    """

    def __init__(self, wake_timer: Callable[[], None]) -> None:
        self._wake_timer = wake_timer
        self._answers: list[HeldAnswer] = []
        self._queues: dict[int, list[Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._answers) + sum(map(len, self._queues.values()))

    @property
    def answers(self) -> Sequence[HeldAnswer]:
        return tuple(self._answers)

    @property
    def queues(self) -> Mapping[int, int]:
        return {number: len(waiting) for number, waiting in self._queues.items()}

    def count(self, number: int) -> int:
        answers = sum(number in answer.delays or number in answer.pauses for answer in self._answers)
        return answers + len(self._queues.get(number, ()))

    def hold_answer(
        self, request: Request, result: Final, due_ms: int, delays: Iterable[int], pauses: Iterable[int]
    ) -> None:
        """Hold a response, and wake the timer if this response has the earliest deadline.

        Args:
            request: completed with `result` later.
            due_ms: the earliest time of the response.
            delays: the numbers of the rules that delay the response.
            pauses: the numbers of the rules that pause the response.
        """
        earlier = self.next_deadline_ms()
        self._answers.append(HeldAnswer(request, result, due_ms, frozenset(delays), set(pauses)))
        # The timer sleeps until the earliest deadline that it knows.
        if earlier is None or due_ms < earlier:
            self._wake_timer()

    def hold_queue(self, number: int, resume: Callable[[], None]) -> None:
        """Hold a queue until the rule with this number is released or removed, then call `resume`."""
        self._queues.setdefault(number, []).append(resume)

    def next_deadline_ms(self) -> int | None:
        """Return the earliest time of a response that no rule pauses; None without such a response."""
        return min((answer.due_ms for answer in self._answers if not answer.pauses), default=None)

    def advance(self, now_ms: int) -> None:
        self._complete([answer for answer in self._answers if not answer.pauses and answer.due_ms <= now_ms])

    def release(self, number: int, now_ms: int) -> bool:
        """Release responses and queues that a rule pauses; return whether the rule held any.

        Responses that are delayed, or paused by another rule, stay held.
        """
        queues = self._queues.pop(number, [])
        released = [answer for answer in self._answers if number in answer.pauses]
        for answer in released:
            answer.pauses.discard(number)
        self.advance(now_ms)
        # A released response can have a delay left, which counts as a deadline only from now.
        if released:
            self._wake_timer()
        for resume in queues:
            resume()
        return bool(queues or released)

    def rule_removed(self, number: int, now_ms: int) -> None:
        """Release responses and queues that a rule pauses or delays. Responses that other rules pause stay held."""
        for answer in self._answers:
            if number in answer.delays:
                answer.due_ms = now_ms
        self.release(number, now_ms)
        self.advance(now_ms)

    def end(self) -> None:
        queues, self._queues = self._queues, {}
        self._complete(list(self._answers))
        for waiting in queues.values():
            for resume in waiting:
                resume()

    def connection_closed(self, session: Any) -> None:
        """Drop the responses of a connection. A queue that one of its requests holds stays held."""
        self._answers = [answer for answer in self._answers if answer.request.connection.session is not session]

    def _complete(self, answers: list[HeldAnswer]) -> None:
        # Remove them before they are completed, so that each is completed once.
        completed = set(answers)
        self._answers = [answer for answer in self._answers if answer not in completed]
        for answer in answers:
            answer.request.complete(answer.result)
