"""Asking all sides one request, and how often requests are drawn."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.registry import ApiKey
from tests.differential.data_requests import Ask
from tests.differential.masks import differences, masked
from tests.differential.oracle import Side, Sides

EXAMPLES = int(os.environ.get("EXAMPLES", "3"))
"""Requests per API and version."""
RIGHTS_FIRST = {
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.LIST_TRANSACTIONS,
}
WITHOUT_RIGHTS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
TRANSACTIONAL_ID = 5
MAKE_GROUPS = {ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.JOIN_GROUP}


def drawn(factor: int = 1) -> Callable[[Any], Any]:
    """Draw a test's requests, others in each run: `DRAWN_SEED` of the run's first lines draws them once more.

    What the brokers hold grows from example to example: one cannot be repeated alone, so it is not shrunk.
    """
    how = settings(
        max_examples=EXAMPLES * factor,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(int(os.environ["DRAWN_SEED"]))(how(test))


def compare(
    sides: Sides,
    api: int,
    ask: Ask,
    remember: Callable[[Side, Any], None] | None = None,
    settling: Sides | None = None,
) -> list[str]:
    """Ask all; returns what differs.

    Args:
        sides: who is asked.
        api: of the request.
        ask: the request.
        remember: keeps what a side has told, for requests that follow.
        settling: who sees all that the request changes, if not those who ask.
    """
    answers = [side.ask(ask.build(side), ask.version) for side in sides.all]
    if remember is not None:
        for side, answer in zip(sides.all, answers, strict=True):
            remember(side, answer)
    sides.asked += 1
    sides.seen.add((api, ask.version))
    seeing = settling or sides
    if ask.changes_topics:
        seeing.settle()
    if api in MAKE_GROUPS:
        seeing.settle_groups()
    for changes, read in (
        (ask.changes_quotas, Side.quotas),
        (ask.changes_acls, Side.acls),
        (ask.changes_users, Side.users),
        (ask.changes_settings, Side.settings),
    ):
        if changes:
            seeing.settle_what(read)
    return differing(sides, api, ask, answers, are_guests=settling is not None)


def differing(sides: Sides, api: int, ask: Ask, answers: list[Any], *, are_guests: bool = False) -> list[str]:
    """Return the differences in the answers of all sides; guests may lack rights, and all if a rule says so."""
    name = SERVED[api].name
    of_kafka, *ours = answers
    if api == ApiKey.LIST_TRANSACTIONS:
        are_guests = are_guests or any(kind == TRANSACTIONAL_ID for (kind, *_), _ in sides.kafka.acls())
    found = []
    for side, answer in zip(sides.ours, ours, strict=True):
        kafka = masked(
            sides.all[0], name, refused_first(of_kafka, answer) if are_guests and api in RIGHTS_FIRST else of_kafka
        )
        texts = differences(kafka, masked(side, name, answer))
        found += [f"{name} {ask!r} ({side.name}) {text}" for text in texts]
    return found


def refused_first(of_kafka: Any, ours: Any) -> Any:
    """Kafka's answer, with our refusals of a client without rights in place of what Kafka finds wrong before it asks.

    Kafka looks at some values, names and patterns first, and this broker at the rights.
    """
    if isinstance(of_kafka, list) and isinstance(ours, list):
        return [refused_first(each, _counterpart(each, position, ours)) for position, each in enumerate(of_kafka)]
    if not (isinstance(of_kafka, dict) and isinstance(ours, dict)):
        return of_kafka
    if of_kafka.get("error_code") and ours.get("error_code") in WITHOUT_RIGHTS:
        return ours
    if of_kafka.get("error_code") == ErrorCode.INVALID_REGULAR_EXPRESSION and ours.get("transaction_states") == []:
        return ours
    return {name: refused_first(value, ours.get(name)) for name, value in of_kafka.items()}


def _counterpart(of_kafka: Any, position: int, ours: list[Any]) -> Any:
    """What is about the same resource, whatever the order; otherwise what has the same position."""
    if isinstance(of_kafka, dict) and "resource_type" in of_kafka:
        resource = of_kafka["resource_type"], of_kafka["resource_name"]
        return next((each for each in ours if (each["resource_type"], each["resource_name"]) == resource), None)
    return ours[position] if position < len(ours) else None
