"""ListTransactions: transactional ids that match filters (KIP-664), in several turns if there are many.

The response waits until the listed states are durable.
"""

from __future__ import annotations

from collections.abc import Callable

from pipeline_broker.apis.authorization import authorize, authorize_by_resource_type
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise, everything
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.patterns import InvalidPatternError, Pattern, compiled
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.transactions.states import TransactionState
from pipeline_broker.state.transactions.transaction import Transaction
from pipeline_broker.wire.messages.transactions.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from stages.request import Result

# Cost of one transactional id, about microseconds.
ID_COST = 3
# Least cost of matching one id with a regular expression, about microseconds.
PATTERN_COST = 10
# Instructions times characters that a match runs in a microsecond, in the worst case.
WORK_PER_COST = 100
STATES = {state.title: state for state in TransactionState}

State = ListTransactionsResponse.TransactionState


def handle(call: Call, request: ListTransactionsRequest) -> Stepwise[Result]:
    transactions = call.broker.transactions
    known_ids: list[Transaction] = []
    # A client without rights must not make the broker compile a pattern.
    if authorize_by_resource_type(call, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID):
        known_ids = yield from everything(transactions.all())
        try:
            pattern = compiled(request.transactional_id_pattern) if request.transactional_id_pattern else None
        except InvalidPatternError:
            return call.refuse(ErrorCode.INVALID_REGULAR_EXPRESSION)
        is_wanted = _filter(request, pattern, transactions.time(call.now_ms))
        size = 0 if pattern is None else pattern.size
    shown = []
    for known in known_ids:
        state = _state(call, known)
        if state is not None and is_wanted(known):
            shown.append(state)
        cost = 0 if state is None or not size else PATTERN_COST + size * len(known.transactional_id) // WORK_PER_COST
        if call.spend(ID_COST + cost):
            yield None
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in STATES],
        transaction_states=shown,
    )
    return transactions.answer_settled(None, (yield from call.send_in_steps(response)))


def _state(call: Call, known: Transaction) -> State | None:
    name = known.transactional_id
    if not authorize(call, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name, is_logged=False):
        return None
    return State(name, known.producer_id, known.state.title)


def _filter(request: ListTransactionsRequest, pattern: Pattern | None, now_ms: int) -> Callable[[Transaction], bool]:
    states = {STATES[name] for name in request.state_filters if name in STATES}
    producer_ids = set(request.producer_id_filters)

    def is_wanted(known: Transaction) -> bool:
        return (
            (not producer_ids or known.producer_id in producer_ids)
            and (not request.state_filters or known.state in states)
            and (request.duration_filter < 0 or now_ms - known.start_ms > request.duration_filter)
            and (pattern is None or pattern.matches(known.transactional_id))
        )

    return is_wanted
