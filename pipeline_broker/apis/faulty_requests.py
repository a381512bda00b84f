"""Fault rules for requests: applies the effects that `pipeline_broker.faults` selects."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

from pipeline_broker.apis.faulty_answers import FaultyAnswer
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.faults import effects
from pipeline_broker.faults.effects import Call, Disconnect, Effect, Error, Pause
from pipeline_broker.faults.subject import Subject
from pipeline_broker.wire.header import read_request_header
from pipeline_broker.wire.primitives import DecodeError
from stages.request import Close, QueueHeldError, Request, Result

if TYPE_CHECKING:
    from pipeline_broker.apis.dispatch import Dispatcher
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.faults.faults import Faults
    from pipeline_broker.faults.rule import Rule

__all__ = ["FaultyRequests"]

# Size of the API key, the first field of every request.
KEY_BYTES = 2
# A rule that matches a request, and its effect. For a `Call` rule, the effect is the one that its function returned.
Met: TypeAlias = "tuple[Rule, Effect]"


class FaultyRequests:
    """A dispatcher with fault rules around it.

    A request is judged once, before it starts. It then starts in its turn, or holds its queue. Effects on the response
    apply when the response is complete. So requests, log and responses keep the order of a broker without rules
    (docs/evidence/invariants.md). Malformed requests and APIs that are not served match no rule.

    Args:
        dispatcher: handles the requests, and builds error responses.
        broker: resolves topic ids and fetch sessions.
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
        """Handle a request without judging it. Resume a request that was paused by a rule that has been removed.

        Raises:
            QueueHeldError: another rule that matched the paused request holds its queue.
        """
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
        answering: list[Met] = []
        # The first effect that answers or ends the request wins; later rules do not apply.
        for index, (rule, effect) in enumerate(met):
            if rule.is_removed:
                continue
            found = self._call(request, rule, effect.function(subject)) if isinstance(effect, Call) else effect
            if isinstance(found, Pause) and found.stage == effects.QUEUE:
                self._paused[request] = subject, [*answering, *met[index + 1 :]]
                raise QueueHeldError(functools.partial(self._faults.held.hold_queue, rule.number))
            if isinstance(found, Pause) and found.stage == effects.COMMIT:
                assert self._faults.disk is not None, "a rule with this effect needs a disk"
                self._faults.disk.hold_commits(rule.number)
                continue
            decided = self._decided(request, found, rule)
            if decided is not None:
                self._answer_with(request, answering)
                return decided
            if isinstance(found, Effect):
                answering.append((rule, found))
        self._answer_with(request, answering)
        return self._dispatcher.handle(request)

    def _decided(self, request: Request, effect: Effect | Result | None, rule: Rule) -> Result | None:
        if isinstance(effect, Error) and effect.when == effects.BEFORE:
            return self._dispatcher.refuse(request, ErrorCode[effect.code])
        if isinstance(effect, Disconnect) and effect.when == effects.BEFORE:
            self._dispatcher.drop(request)
            return Close(f"fault rule {rule.number}")
        return effect if isinstance(effect, Result) else None

    def _call(self, request: Request, rule: Rule, returned: Any) -> Effect | Result | None:
        # A function returns None, an effect, or the response itself.
        if isinstance(returned, Effect):
            self._faults.check(rule.condition, returned)
            return returned
        if returned is None:
            return None
        self._dispatcher.drop(request)
        return self._dispatcher.read(request)[0].send(returned)

    def _answer_with(self, request: Request, answering: list[Met]) -> None:
        if answering:
            request.before_answer = FaultyAnswer(self._dispatcher, self._faults, self._broker, answering)
