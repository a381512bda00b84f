"""DescribeUserScramCredentials: which SCRAM mechanisms users have, and with how many iterations; never more.

No list, or an empty one, asks for all users. Users of a listener's own JAAS line are not shown: they have no records.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pipeline_broker.apis.authorization import may_of_cluster
from pipeline_broker.apis.steps import Stepwise, in_steps
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.security.scram_users import ScramUsers
    from stages.request import Send

UserResult = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
CredentialInfo = DescribeUserScramCredentialsResponse.CredentialInfo
TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "
NOBODY = "Attempt to describe a user credential that does not exist: "


def handle(call: Call, request: DescribeUserScramCredentialsRequest) -> Stepwise[Send]:
    """Describe those who are asked for."""
    if not may_of_cluster(call, AclOperation.DESCRIBE):
        return call.send(_forbidden(request))
    users = call.broker.scram_users
    counts = Counter(user.name for user in request.users or ()) or Counter(users.users())
    results = yield from in_steps(call, counts.items(), lambda each: _result(users, *each))
    return (yield from call.send_in_steps(DescribeUserScramCredentialsResponse(results=results)))


def _forbidden(request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    """Kafka's refusal: one per user that was asked for, none of them named."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    results = [UserResult(user="", error_code=code, error_message=None) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=results)


def _result(users: ScramUsers, name: str, count: int) -> UserResult:
    if count > 1:
        return UserResult(user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=TWICE + name)
    found = users.iterations(name)
    if not found:
        return UserResult(user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=NOBODY + name)
    infos = [CredentialInfo(mechanism=mechanism.number, iterations=iterations) for mechanism, iterations in found]
    return UserResult(user=name, credential_infos=infos)


def error_response(
    request: DescribeUserScramCredentialsRequest, call: Call, code: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    """The response that carries only an error."""
    return DescribeUserScramCredentialsResponse(error_code=code)
