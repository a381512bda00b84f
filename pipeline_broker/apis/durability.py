"""Checks of flush settings that would weaken durability.

Kafka lets every client that may alter a topic, or a broker, set its flush policy. By default this broker syncs a record
before acknowledging it, so a weaker policy also requires ALTER on the cluster.
"""

from __future__ import annotations

import logging

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.segments.policies import FlushRules
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.topic_rules import TopicError

__all__ = ["check_durability", "warn_of_durability"]

logger = logging.getLogger(__name__)

REFUSAL = (
    "A power cut could lose acknowledged records with these flush.messages and flush.ms, so setting them also requires"
    " ALTER on the cluster. Ask an administrator to set them."
)


def check_durability(call: Call, before: FlushRules, after: FlushRules) -> None:
    """Refuse weaker flush rules.

    Raises:
        TopicError: CLUSTER_AUTHORIZATION_FAILED if the rules get weaker and the client may not alter the cluster.
    """
    if after.is_weaker_than(before) and not authorize_cluster(call, AclOperation.ALTER):
        raise TopicError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, REFUSAL)


def warn_of_durability(what: str, before: FlushRules, after: FlushRules) -> None:
    """Log a warning if flush rules become weaker; `what` is the topic or the broker in the message."""
    if after.is_weaker_than(before):
        logger.warning("%s: %s", what, after)
