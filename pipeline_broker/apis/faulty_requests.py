"""Requests that meet fault rules: what the rules of `pipeline_broker.faults` say is carried out here.

Rules of this file: a request is judged once, before it is started, and starts in its turn or holds its queue; what
happens to its answer happens when the answer is complete, in whatever way the handler gives it. So the order of
requests, of the log and of the answers is that of a broker without rules (docs/invariants.md). A request that cannot be
understood, or is not served, meets no rule.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

from pipeline_broker.apis.faulty_answers import FaultyAnswer
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.faults import effects
from pipeline_broker.faults.effects import Call, Disconnect, Effect, Error, Pause
from pipeline_broker.faults.subject import Subject
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.header import read_request_header
from pipeline_broker.wire.primitives import DecodeError
from stages.request import Close, QueueHeldError, Request, Result

if TYPE_CHECKING:
    from pipeline_broker.apis.dispatch import Dispatcher
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.rule import Rule

__all__ = ["FaultyRequests"]

KEY_BYTES = 2
"""Of the API key, with which every request begins."""
Met: TypeAlias = "tuple[Rule, Effect]"
"""A rule that strikes a request, and what it does: what a function said stands for the call of it."""


class FaultyRequests:
    """See the rules of the file.

    Args:
        dispatcher: handles what is handled.
        broker: tells what topic ids and fetch sessions stand for.
    """

    def __init__(self, dispatcher: Dispatcher, broker: Broker, faults: Faults) -> None:
        self._dispatcher = dispatcher
        self._broker = broker
        self._faults = faults
        self._paused: dict[Request, tuple[Subject, list[Met]]] = {}

    def handle(self, request: Request) -> Result:
        if int.from_bytes(request.frame[:KEY_BYTES], "big") not in self._faults.keys:
            return self.handle_unjudged(request)
        paused = self._paused.pop(request, None)
        if paused is not None:
            return self._carry_out(request, *paused)
        try:
            subject = self._subject(request)
            struck = [] if subject is None else self._faults.judge(subject)
        except DecodeError:
            return self._dispatcher.handle(request)  # which closes the connection
        if subject is None or not struck:
            return self._dispatcher.handle(request)
        return self._carry_out(request, subject, [(rule, rule.effect) for rule in struck])

    def handle_unjudged(self, request: Request) -> Result:
        """The same where no rule is about its API: a rule that is gone may have held it."""
        paused = self._paused.pop(request, None) if self._paused else None
        return self._dispatcher.handle(request) if paused is None else self._carry_out(request, *paused)

    def _subject(self, request: Request) -> Subject | None:
        header, _ = read_request_header(request.frame)
        served = SERVED.get(header.api_key)
        if served is None or header.api_version not in served.versions:
            return None
        request.api, request.version, request.correlation_id = (
            header.api_key,
            header.api_version,
            header.correlation_id,
        )
        return Subject(
            header.api_key,
            header.api_version,
            header.client_id,
            request.connection.index,
            lambda: self._dispatcher.read(request)[1],
            self._broker.topic_name,
            self._broker.fetch_sessions.keys_of,
        )

    def _carry_out(self, request: Request, subject: Subject, met: list[Met]) -> Result:
        """Do what the rules say, in their order; the first effect that answers or ends the request decides."""
        answering: list[Met] = []
        for place, (rule, effect) in enumerate(met):
            if rule.is_removed:
                continue
            found = self._call(request, rule, effect.function(subject)) if isinstance(effect, Call) else effect
            if isinstance(found, Pause) and found.stage == effects.QUEUE:
                self._paused[request] = subject, [*answering, *met[place + 1 :]]
                raise QueueHeldError(functools.partial(self._faults.held.hold_queue, rule.number))
            if isinstance(found, Pause) and found.stage == effects.COMMIT:
                assert self._faults.disk is not None, "no rule can be made otherwise"
                self._faults.disk.hold_commits(rule.number)
                continue
            decided = self._decided(request, found, rule)
            if decided is not None:
                self._answer_with(request, answering, subject)
                return decided
            if isinstance(found, Effect):
                answering.append((rule, found))
        self._answer_with(request, answering, subject)
        return self._dispatcher.handle(request)

    def _decided(self, request: Request, effect: Effect | Result | None, rule: Rule) -> Result | None:
        """The result in place of handling the request; None where it is handled."""
        if isinstance(effect, Error) and effect.when == effects.BEFORE:
            return self._dispatcher.refuse(request, ErrorCode[effect.code])
        if isinstance(effect, Disconnect) and effect.when == effects.BEFORE:
            self._dispatcher.drop(request)
            return Close(f"fault rule {rule.number}")
        return effect if isinstance(effect, Result) else None

    def _call(self, request: Request, rule: Rule, said: Any) -> Effect | Result | None:
        """What a function said: nothing, an effect, or the answer."""
        if isinstance(said, Effect):
            self._faults.check(rule.condition, said)
            return said
        if said is None:
            return None
        self._dispatcher.drop(request)
        return self._dispatcher.read(request)[0].send(said)

    def _answer_with(self, request: Request, answering: list[Met], subject: Subject) -> None:
        if answering:
            request.before_answer = FaultyAnswer(self._dispatcher, self._faults, self._broker, answering, subject)
