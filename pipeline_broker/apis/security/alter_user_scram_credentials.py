"""AlterUserScramCredentials: sets and deletes SCRAM credentials.

Users are altered independently of each other. Once the response arrives, the new password is valid. The broker stores
the keys that verify a password, not the salted password.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.security.scram_users import Deletion, Refusal, Upsertion
from pipeline_broker.wire.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from stages.request import Result

UserResult = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


def handle(call: Call, request: AlterUserScramCredentialsRequest) -> Result:
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    users = call.broker.scram_users
    answers, write = users.alter(
        [Deletion(each.name, each.mechanism) for each in request.deletions],
        [
            Upsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
            for each in request.upsertions
        ],
    )
    results = [_result(user, refusal) for user, refusal in answers.items()]
    answer = call.send(AlterUserScramCredentialsResponse(results=results))
    changes = [] if write is None else [(write, users.durable)]
    return call.broker.commit_metadata(changes, call.now_ms, answer)


def _result(user: str, refusal: Refusal | None) -> UserResult:
    if refusal is None:
        return UserResult(user=user, error_message=None)
    return UserResult(user=user, error_code=refusal.code, error_message=refusal.text)


def error_response(
    request: AlterUserScramCredentialsRequest, call: Call, code: ErrorCode
) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys([each.name for each in request.deletions] + [each.name for each in request.upsertions])
    message = REFUSAL_TEXTS.get(code, code.name)
    results = [UserResult(user=name, error_code=code, error_message=message) for name in names]
    return AlterUserScramCredentialsResponse(results=results)
