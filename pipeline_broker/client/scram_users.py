"""SCRAM credentials of users (KIP-554): list, set and delete them.

A password never leaves this process: the broker receives a salt and the salted password that SCRAM derives.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.answers import answer_to, answers_to
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import BrokerRefused, ClientError, check
from pipeline_broker.security.scram import SALT_BYTES, SCRAM_MECHANISMS, ScramMechanism, salted_password
from pipeline_broker.wire.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from pipeline_broker.wire.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

__all__ = ["UserCredential", "delete_credentials", "list_users", "set_password"]

_NAMES = {mechanism.number: mechanism.name for mechanism in SCRAM_MECHANISMS.values()}


@attrs.frozen(order=True)
class UserCredential:
    user: str
    # SCRAM-SHA-256 or SCRAM-SHA-512
    mechanism: str
    iterations: int


async def list_users(cluster: ClusterClient, users: Sequence[str] = ()) -> list[UserCredential]:
    """Return the credentials of the given users, sorted; without any, those of all users.

    Raises:
        BrokerRefused: the client may not describe users.
        ClientError: a named user has no credentials, or no broker can be reached.
    """
    named = [DescribeUserScramCredentialsRequest.UserName(user) for user in dict.fromkeys(users)]
    request = DescribeUserScramCredentialsRequest(named or None)

    async def attempt() -> list[UserCredential]:
        answer = await cluster.ask(request, DescribeUserScramCredentialsResponse)
        check(answer.error_code, "users", answer.error_message)
        results = answer.results
        if users:
            named = ((it.user, it) for it in results)
            results = [*answers_to(users, named, lambda user: f"user {user}").values()]
        for it in results:
            if it.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                raise ClientError(f"user {it.user!r} has no SCRAM password: see `users list`")
            check(it.error_code, f"user {it.user}", it.error_message)
        return sorted(
            UserCredential(it.user, _NAMES.get(info.mechanism, f"mechanism {info.mechanism}"), info.iterations)
            for it in results
            for info in it.credential_infos
        )

    return await cluster.retrying(attempt)


async def set_password(
    cluster: ClusterClient, user: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
) -> None:
    """Set the password of a user for each mechanism, one after the other. Creates the user if necessary.

    Args:
        password: a password that is not empty.
        mechanisms: the mechanisms; if a request fails, the earlier ones are set.
        iterations: the number of hash iterations, which the broker restricts to a range.

    Raises:
        BrokerRefused: the broker rejects the password.
        ClientError: no broker can be reached.
    """
    # One request per mechanism: a request that names a user twice fails with DUPLICATE_RESOURCE.
    for mechanism in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password, salt, iterations)
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            user, mechanism.number, iterations, salt, salted
        )
        await _alter(cluster, user, AlterUserScramCredentialsRequest([], [upsertion]))


async def delete_credentials(cluster: ClusterClient, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
    """Delete the password of a user for each mechanism, one after the other.

    Raises:
        ClientError: the user has no password for a mechanism, the client may not delete it, or no broker can be
            reached.
    """
    for mechanism in mechanisms:
        deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(user, mechanism.number)
        await _alter(cluster, user, AlterUserScramCredentialsRequest([deletion], []))


async def _alter(cluster: ClusterClient, user: str, request: AlterUserScramCredentialsRequest) -> None:
    async def attempt() -> None:
        answer = await cluster.ask_controller(request, AlterUserScramCredentialsResponse)
        it = answer_to(user, ((it.user, it) for it in answer.results), f"user {user}")
        try:
            check(it.error_code, f"user {user}", it.error_message)
        except BrokerRefused as error:
            if error.code == ErrorCode.RESOURCE_NOT_FOUND:
                numbers = [it.mechanism for it in request.deletions]
                names = " and ".join(_NAMES.get(number, str(number)) for number in numbers)
                raise ClientError(f"user {user} has no password for {names}: see `users list`") from None
            raise

    await cluster.retrying(attempt)
