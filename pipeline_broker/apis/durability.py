"""Changes after which records of topics are synced later than before.

Rules of this file: Kafka lets those who may alter a topic, or a broker, set its flush policy. Here an acknowledged
record is on the disk unless somebody said otherwise, so to say so takes the right to ALTER the cluster as well.
"""

from __future__ import annotations

import logging

from pipeline_broker.apis.authorization import may_of_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.log.segments.policies import FlushRules
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.topic_rules import TopicError
from pipeline_broker.wire.error import ErrorCode

__all__ = ["check_durability", "warn_of_durability"]

logger = logging.getLogger(__name__)

REFUSAL = (
    "flush.messages and flush.ms would let a power cut lose records that it does not lose now: this needs ALTER on the"
    " cluster, too."
)


def check_durability(call: Call, before: FlushRules, after: FlushRules) -> None:
    """Refuse a change to weaker rules for a client that may not alter the cluster.

    Raises:
        TopicError: CLUSTER_AUTHORIZATION_FAILED.
    """
    if after.is_weaker_than(before) and not may_of_cluster(call, AclOperation.ALTER):
        raise TopicError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, REFUSAL)


def warn_of_durability(what: str, before: FlushRules, after: FlushRules) -> None:
    """Log a change to weaker rules; `what` names the topic or the broker."""
    if after.is_weaker_than(before):
        logger.warning("%s: %s", what, after)
