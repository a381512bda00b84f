"""Answers that rules hold back, and queues that they hold: who waits for what.

Rules of this room: see `names.py`. Whoever is held goes on exactly once: when its time is over and every rule that
holds it was released, when such a rule goes, when its connection closes, or when the broker ends. The order of the
answers is not kept here: a slot that is open holds back those behind it.
"""

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
    """An answer that is held back until `due_ms`, and by pauses until they are released.

    Attributes:
        request: whose it is.
        due_ms: not before that.
        delays: numbers of the rules that say so.
        pauses: numbers of the rules that must be released before.
    """

    request: Request
    result: Final
    due_ms: int
    delays: frozenset[int]
    pauses: set[int]


class Held:
    """All that is held.

    Args:
        wake_timer: called when `next_deadline_ms` has become earlier.
    """

    def __init__(self, wake_timer: Callable[[], None]) -> None:
        self._wake_timer = wake_timer
        self._answers: list[HeldAnswer] = []
        self._queues: dict[int, list[Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._answers) + sum(map(len, self._queues.values()))

    @property
    def answers(self) -> Sequence[HeldAnswer]:
        """The answers that are held back."""
        return tuple(self._answers)

    @property
    def queues(self) -> Mapping[int, int]:
        """How many queues stand still, by the number of the rule that holds them."""
        return {number: len(waiting) for number, waiting in self._queues.items()}

    def count(self, number: int) -> int:
        """How many a rule holds."""
        answers = sum(number in answer.delays or number in answer.pauses for answer in self._answers)
        return answers + len(self._queues.get(number, ()))

    def hold_answer(
        self, request: Request, result: Final, due_ms: int, delays: Iterable[int], pauses: Iterable[int]
    ) -> None:
        """Hold an answer back.

        Args:
            request: whose it is; completed later.
            result: what it is completed with.
            due_ms: not before that.
            delays: numbers of the rules that say so.
            pauses: numbers of the rules that must be released before.
        """
        earlier = self.next_deadline_ms()
        self._answers.append(HeldAnswer(request, result, due_ms, frozenset(delays), set(pauses)))
        if earlier is None or due_ms < earlier:
            self._wake_timer()

    def hold_queue(self, number: int, go_on: Callable[[], None]) -> None:
        """A queue stands still until a rule is released."""
        self._queues.setdefault(number, []).append(go_on)

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do."""
        return min((answer.due_ms for answer in self._answers if not answer.pauses), default=None)

    def advance(self, now_ms: int) -> None:
        """Give the answers whose time has come."""
        self._give([answer for answer in self._answers if not answer.pauses and answer.due_ms <= now_ms])

    def release(self, number: int, now_ms: int) -> bool:
        """Let go on who waits for a rule; whether it held anybody."""
        queues = self._queues.pop(number, [])
        released = [answer for answer in self._answers if number in answer.pauses]
        for answer in released:
            answer.pauses.discard(number)
        self.advance(now_ms)
        if released:
            self._wake_timer()
        for go_on in queues:
            go_on()
        return bool(queues or released)

    def rule_gone(self, number: int, now_ms: int) -> None:
        """The same, and answers that the rule delays are given now."""
        for answer in self._answers:
            if number in answer.delays:
                answer.due_ms = now_ms
        self.release(number, now_ms)
        self.advance(now_ms)

    def end(self) -> None:
        """Let everybody go on now."""
        queues, self._queues = self._queues, {}
        self._give(list(self._answers))
        for waiting in queues.values():
            for go_on in waiting:
                go_on()

    def connection_closed(self, session: Any) -> None:
        """Forget the answers of a connection; a queue that one of its requests holds stays as it is."""
        self._answers = [answer for answer in self._answers if answer.request.connection.session is not session]

    def _give(self, answers: list[HeldAnswer]) -> None:
        gone = set(answers)
        self._answers = [answer for answer in self._answers if answer not in gone]
        for answer in answers:
            answer.request.complete(answer.result)
