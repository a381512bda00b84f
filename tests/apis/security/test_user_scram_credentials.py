"""SCRAM users by request, with the answers of Apache Kafka; test_scram_users tests the changes themselves."""

import base64

import pytest

from pipeline_broker.security.scram import SCRAM_MECHANISMS, ScramCredential
from pipeline_broker.wire.messages.security.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from pipeline_broker.wire.messages.security.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tests.apis.desk import Desk

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]


def alter(desk, deletions=(), upsertions=()):
    request = AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))
    results = desk.ask(request, 0).results
    return {result.user: (result.error_code, result.error_message) for result in results}


def describe(desk, *users, of_all=False):
    wanted = None if of_all else [DescribeUserScramCredentialsRequest.UserName(user) for user in users]
    response = desk.ask(DescribeUserScramCredentialsRequest(users=wanted), 0)
    assert (response.error_code, response.error_message) == (0, "")
    return {
        result.user: (
            result.error_code,
            result.error_message,
            [(info.mechanism, info.iterations) for info in result.credential_infos],
        )
        for result in response.results
    }


def upsertion(user, mechanism=1, iterations=4096):
    return Upsertion(user, mechanism, iterations, b"salt", b"the salted password")


@pytest.fixture
def desk():
    desk = Desk()
    assert alter(desk, upsertions=[upsertion("bob"), upsertion("eve", 2, 8192)]) == {"bob": (0, None), "eve": (0, None)}
    return desk


def test_each_user_is_answered_on_its_own(desk):
    assert alter(desk, [Deletion("bob", 1), Deletion("x", 1)], [upsertion("y", 9), upsertion("eve")]) == {
        "bob": (0, None),
        "x": (91, "Attempt to delete a user credential that does not exist"),
        "y": (33, "Unknown SCRAM mechanism"),
        "eve": (0, None),
    }
    assert describe(desk, of_all=True) == {"eve": (0, "", [(1, 4096), (2, 8192)])}


def test_an_empty_request_changes_nothing(desk):
    assert alter(desk) == {}


def test_a_user_is_valid_once_answered_and_after_a_restart(desk):
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion("new")])
    pending = desk.decide(request, 0)
    assert "new" not in desk.broker.scram_users.users()
    desk.finish(request, 0, pending)
    expected = ScramCredential.of(SHA_256, b"salt", 4096, b"the salted password")
    assert desk.broker.scram_users.credential(SHA_256, "new") == expected
    again = desk.restart()
    assert again.broker.scram_users.credential(SHA_256, "new") == expected
    assert describe(again, of_all=True) == describe(desk, of_all=True)
    decoys = [each.broker.scram_users.credential(SHA_256, "nobody") for each in (desk, again)]
    assert decoys[0] == decoys[1]


def test_no_file_holds_the_salted_password(desk):
    content = b"".join(bytes(file.seen) for file in desk.files._names.values())
    assert b"stored_key" in content
    assert b"the salted password" not in content
    assert base64.b64encode(b"the salted password") not in content


def test_all_users_are_described_unless_some_are_named(desk):
    everybody = {"bob": (0, "", [(1, 4096)]), "eve": (0, "", [(2, 8192)])}
    assert describe(desk, of_all=True) == everybody
    assert describe(desk) == everybody
    assert describe(desk, "eve") == {"eve": (0, "", [(2, 8192)])}


def test_unknown_and_duplicate_users_have_their_own_errors(desk):
    assert describe(desk, "eve", "x", "bob", "eve", "y", "y") == {
        "eve": (92, "Cannot describe SCRAM credentials for the same user twice in a single request: eve", []),
        "x": (91, "Attempt to describe a user credential that does not exist: x", []),
        "bob": (0, "", [(1, 4096)]),
        "y": (92, "Cannot describe SCRAM credentials for the same user twice in a single request: y", []),
    }
