"""ElectLeaders: this broker leads every partition, so no partition needs an election."""

from __future__ import annotations

from functools import partial

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise, everything, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.cluster.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from stages.request import Send

TopicResult = ElectLeadersResponse.ReplicaElectionResult
PartitionResult = ElectLeadersResponse.PartitionResult
# The first version with a top-level error.
ERROR_FROM = 1
# Preferred (0) and unclean (1).
ELECTION_TYPES = frozenset({0, 1})


def handle(call: Call, request: ElectLeadersRequest) -> Stepwise[Send]:
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if request.topic_partitions == []:
        return call.send(ElectLeadersResponse())
    if request.timeout_ms <= 0:
        return call.send(error_response(request, call, ErrorCode.REQUEST_TIMED_OUT))
    if request.election_type not in ELECTION_TYPES:
        return call.send(error_response(request, call, ErrorCode.INVALID_REQUEST))
    if request.topic_partitions is None:
        # Null requests all partitions; none of them needs an election.
        results = [TopicResult(topic.name) for topic in (yield from everything(call.broker.topics.all()))]
    else:
        results = []
        for each in request.topic_partitions:
            found = yield from in_steps(call, each.partitions, partial(_result, call, each.topic))
            results.append(TopicResult(each.topic, found))
            if call.spend(ELEMENT_COST):
                yield None
    return (yield from call.send_in_steps(ElectLeadersResponse(replica_election_results=results)))


def _result(call: Call, topic: str, partition: int) -> PartitionResult:
    known = call.broker.topics.get(topic)
    if known is None:
        return PartitionResult(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    if not 0 <= partition < known.partitions:
        message = f"No such partition as {topic}-{partition}"
        return PartitionResult(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return PartitionResult(partition, ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def error_response(request: ElectLeadersRequest, call: Call, code: ErrorCode) -> ElectLeadersResponse:
    """Build the response with `code` for every partition that the request names.

    From version 1, the code is also at the top level.
    """
    text = REFUSAL_TEXTS.get(code, code.name)
    results = [
        TopicResult(each.topic, [PartitionResult(partition, code, text) for partition in each.partitions])
        for each in request.topic_partitions or ()
    ]
    top = code if call.version >= ERROR_FROM else ErrorCode.NONE
    return ElectLeadersResponse(error_code=top, replica_election_results=results)
