"""Users who log in with SCRAM: which there are, their passwords.

Rules of this file: any broker is asked. A password never leaves this process: the broker gets what SCRAM derives of it
(KIP-554), with a salt that is drawn here.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import attrs

from pipeline_broker.client.answers import answer_to, answers_to
from pipeline_broker.client.cluster import Cluster
from pipeline_broker.client.errors import BrokerRefused, ClientError, check
from pipeline_broker.security.scram import SCRAM_MECHANISMS, ScramMechanism, salted_password
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from pipeline_broker.wire.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

__all__ = ["UserCredential", "delete_credentials", "list_users", "set_password"]

SALT_BYTES = 26
"""As Kafka's ScramFormatter draws them."""
_NAMES = {mechanism.number: mechanism.name for mechanism in SCRAM_MECHANISMS.values()}


@attrs.frozen(order=True)
class UserCredential:
    """That a user has a password for a mechanism, hashed so many times."""

    user: str
    mechanism: str
    iterations: int


async def list_users(cluster: Cluster, users: Sequence[str] = ()) -> list[UserCredential]:
    """The credentials of some users, or of all where none is named; a user without any is an error.

    Raises:
        BrokerRefused: they may not be seen.
        ClientError: there is no such user, or no broker can be asked.
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
                raise ClientError(f"there is no user {it.user!r} with a SCRAM password: see `users list`")
            check(it.error_code, f"user {it.user}", it.error_message)
        return sorted(
            UserCredential(it.user, _NAMES.get(info.mechanism, f"mechanism {info.mechanism}"), info.iterations)
            for it in results
            for info in it.credential_infos
        )

    return await cluster.retrying(attempt)


async def set_password(
    cluster: Cluster, user: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
) -> None:
    """Let a user log in with a password, instead of the one before; each mechanism by a request of its own.

    A request that names a user twice is refused (DUPLICATE_RESOURCE), so of two mechanisms one may be set and the other
    not.

    Args:
        cluster: where.
        user: the name; one that is not there is made.
        password: not empty.
        mechanisms: for which it is to be valid.
        iterations: how often it is hashed; a broker has bounds for that.

    Raises:
        BrokerRefused: it may not be set.
        ClientError: no broker can be asked.
    """
    for mechanism in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password, salt, iterations)
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            user, mechanism.number, iterations, salt, salted
        )
        await _alter(cluster, user, AlterUserScramCredentialsRequest([], [upsertion]))


async def delete_credentials(cluster: Cluster, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
    """Take the passwords of a user for some mechanisms away, one after the other.

    Raises:
        BrokerRefused: the user has none for one of them, or it may not be deleted.
        ClientError: no broker can be asked.
    """
    for mechanism in mechanisms:
        deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(user, mechanism.number)
        await _alter(cluster, user, AlterUserScramCredentialsRequest([deletion], []))


async def _alter(cluster: Cluster, user: str, request: AlterUserScramCredentialsRequest) -> None:
    async def attempt() -> None:
        answer = await cluster.ask_controller(request, AlterUserScramCredentialsResponse)
        it = answer_to(user, ((it.user, it) for it in answer.results), f"user {user}")
        try:
            check(it.error_code, f"user {user}", it.error_message)
        except BrokerRefused as error:
            if error.code == ErrorCode.RESOURCE_NOT_FOUND:
                raise ClientError(f"user {user} has no such password: see `users list`") from None
            raise

    await cluster.retrying(attempt)
