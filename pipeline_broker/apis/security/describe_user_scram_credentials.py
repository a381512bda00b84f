"""DescribeUserScramCredentials: SCRAM mechanisms and iterations of users, and never their keys.

A null or empty list requests all users. Users in a listener's JAAS configuration have no records and are not shown.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.steps import Stepwise, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
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
UNKNOWN_USER = "Attempt to describe a user credential that does not exist: "


def handle(call: Call, request: DescribeUserScramCredentialsRequest) -> Stepwise[Send]:
    if not authorize_cluster(call, AclOperation.DESCRIBE):
        return call.send(_forbidden(request))
    users = call.broker.scram_users
    counts = Counter(user.name for user in request.users or ()) or Counter(users.users())
    results = yield from in_steps(call, counts.items(), lambda each: _result(users, *each))
    return (yield from call.send_in_steps(DescribeUserScramCredentialsResponse(results=results)))


def _forbidden(request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    # Kafka returns an unnamed result for each user of the request.
    results = [UserResult(user="", error_code=code, error_message=None) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=results)


def _result(users: ScramUsers, name: str, count: int) -> UserResult:
    if count > 1:
        return UserResult(user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=TWICE + name)
    found = users.iterations(name)
    if not found:
        return UserResult(user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=UNKNOWN_USER + name)
    infos = [CredentialInfo(mechanism=mechanism.number, iterations=iterations) for mechanism, iterations in found]
    return UserResult(user=name, credential_infos=infos)


def error_response(
    request: DescribeUserScramCredentialsRequest, call: Call, code: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=code)
