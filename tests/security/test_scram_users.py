"""SCRAM users are kept as records and altered one after the other, and unknown users look like known ones.

The expected answers to changes are those of Apache Kafka. It answers an empty salted password with
UNKNOWN_SERVER_ERROR, and this broker with the reason.
"""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.scram import SCRAM_MECHANISMS, ScramCredential
from pipeline_broker.security.scram_users import Deletion, Refusal, ScramUsers, Upsertion, read_credential
from pipeline_broker.state.errors import CorruptStateRecordError

SHA_256, SHA_512 = SCRAM_MECHANISMS.values()
DUPLICATE = Refusal(92, "A user credential cannot be altered twice in the same request")
TOO_FEW = Refusal(93, "Too few iterations")
UNKNOWN_CREDENTIAL = Refusal(91, "Attempt to delete a user credential that does not exist")


def upsert(user, mechanism=1, iterations=4096, salt=b"salt", salted=b"p" * 32):
    return Upsertion(user, mechanism, iterations, salt, salted)


@pytest.fixture
def users():
    users = ScramUsers()
    change(users, upsert("bob"))
    return users


def change(users, *changes):
    deletions = [each for each in changes if isinstance(each, Deletion)]
    answers, write = users.alter(deletions, [each for each in changes if isinstance(each, Upsertion)])
    if write is not None:
        users.durable(write)
    return answers


def replayed(*writes):
    again = ScramUsers()
    for write in writes:
        for record in write.records:
            again.replay(record.key, record.value)
    return again


@pytest.mark.parametrize(
    ("changes", "answers"),
    [
        ([upsert("eve", 2, 8192)], {"eve": None}),
        ([upsert("bob", 1, 16384)], {"bob": None}),
        ([upsert("", 1)], {"": Refusal(93, "Username must not be empty")}),
        ([upsert("eve", 0)], {"eve": Refusal(33, "Unknown SCRAM mechanism")}),
        ([upsert("eve", 9)], {"eve": Refusal(33, "Unknown SCRAM mechanism")}),
        ([upsert("eve", 1, 4095)], {"eve": TOO_FEW}),
        ([upsert("eve", 2, 0)], {"eve": TOO_FEW}),
        ([upsert("eve", 1, -1)], {"eve": TOO_FEW}),
        ([upsert("eve", 1, 16385)], {"eve": Refusal(93, "Too many iterations")}),
        ([upsert("eve", 1, 4096, b"")], {"eve": None}),
        ([upsert("eve", salted=b"")], {"eve": Refusal(93, "Salted password must not be empty")}),
        ([upsert("eve"), upsert("eve")], {"eve": DUPLICATE}),
        ([upsert("eve", 1), upsert("eve", 2)], {"eve": DUPLICATE}),
        ([upsert("eve"), upsert("eve"), upsert("eve")], {"eve": DUPLICATE}),
        ([upsert("eve"), upsert("eve", 2, 1)], {"eve": DUPLICATE}),
        ([upsert("eve", 1, 1), upsert("eve", 2)], {"eve": TOO_FEW}),
        ([upsert("eve", 1, 1), upsert("eve", 1, 1)], {"eve": TOO_FEW}),
        ([Deletion("bob", 1)], {"bob": None}),
        ([Deletion("bob", 1), Deletion("bob", 1)], {"bob": DUPLICATE}),
        ([Deletion("bob", 1), upsert("bob")], {"bob": DUPLICATE}),
        ([Deletion("bob", 1), upsert("bob", 2)], {"bob": DUPLICATE}),
        ([Deletion("bob", 2)], {"bob": UNKNOWN_CREDENTIAL}),
        ([Deletion("bob", 7)], {"bob": Refusal(33, "Unknown SCRAM mechanism")}),
        ([Deletion("", 1)], {"": Refusal(93, "Username must not be empty")}),
        ([Deletion("nix", 1), Deletion("nix", 1)], {"nix": UNKNOWN_CREDENTIAL}),
        ([Deletion("nix", 1), upsert("nix", 2)], {"nix": UNKNOWN_CREDENTIAL}),
        ([Deletion("nix", 1), upsert("eve"), upsert("z", 9)],
         {"nix": UNKNOWN_CREDENTIAL, "eve": None, "z": Refusal(33, "Unknown SCRAM mechanism")}),
        ([], {}),
    ],
)  # fmt: skip
def test_each_user_is_answered_as_by_kafka_and_changed_only_if_not_refused(users, changes, answers):
    before = users.iterations("bob")
    assert change(users, *changes) == answers
    for user, refusal in answers.items():
        if refusal is not None:
            assert users.iterations(user) == (before if user == "bob" else [])
    accepted = [each for each in changes if answers[each.user] is None]
    for each in accepted:
        found = {mechanism.number: iterations for mechanism, iterations in users.iterations(each.user)}
        expected = None if isinstance(each, Deletion) else each.iterations
        assert found.get(each.mechanism) == expected


def test_only_keys_are_kept_and_they_survive_a_restart():
    users = ScramUsers()
    _, write = users.alter([], [upsert("bob", 2, 8192, b"salt", b"the salted password")])
    assert users.users() == []
    users.durable(write)
    again = replayed(write)
    expected = ScramCredential.of(SHA_512, b"salt", 8192, b"the salted password")
    assert users.credential(SHA_512, "bob") == again.credential(SHA_512, "bob") == expected
    assert again.users() == ["bob"]
    assert not any(b"the salted password" in (record.key + (record.value or b"")) for record in write.records)
    assert "the salted password" not in repr(expected) + repr(upsert("x", salted=b"the salted password"))


def test_pending_changes_count_for_the_next_decision(users):
    _, first = users.alter([Deletion("bob", 1)], [])
    answers, none = users.alter([Deletion("bob", 1)], [])
    assert answers == {"bob": UNKNOWN_CREDENTIAL}
    assert none is None
    answers, second = users.alter([], [upsert("bob", 1, 5000)])
    assert answers == {"bob": None}
    users.durable(first)
    assert users.users() == []
    answers, _ = users.alter([Deletion("bob", 1)], [])
    assert answers == {"bob": None}, "it is on its way still"
    answers, second = users.alter([], [upsert("bob", 1, 5000)])
    users.durable(second)
    assert users.iterations("bob") == [(SHA_256, 5000)]


def test_a_user_that_is_on_its_way_can_be_deleted(users):
    _, first = users.alter([], [upsert("eve")])
    answers, second = users.alter([Deletion("eve", 1)], [])
    assert answers == {"eve": None}
    users.durable(first)
    users.durable(second)
    assert users.users() == ["bob"]
    assert ("eve", SHA_256.name) not in users._pending, "durable changes are not pending"


@pytest.mark.parametrize(
    ("iterations", "is_read"), [(0, False), (1, True), (16384, True), (16385, False), (True, False)]
)
def test_iterations_of_a_record_have_a_range(iterations, is_read):
    value = json.dumps({"salt": "", "stored_key": "", "server_key": "", "iterations": iterations}).encode()
    record = b'\0\5["u","SCRAM-SHA-256"]', b"\0\0" + value
    if is_read:
        assert read_credential(*record)[1].iterations == iterations
    else:
        with pytest.raises(CorruptStateRecordError):
            read_credential(*record)


def test_an_unknown_user_looks_like_the_others_each_time_and_after_a_restart():
    users = ScramUsers()
    _, write = users.alter(
        [], [upsert("a", iterations=8192, salt=b"x" * 20), upsert("b", iterations=8192, salt=b"y" * 20), upsert("c")]
    )
    users.durable(write)
    decoy = users.credential(SHA_256, "nobody")
    assert (len(decoy.salt), decoy.iterations) == (20, 8192)
    assert decoy == users.credential(SHA_256, "nobody") == replayed(write).credential(SHA_256, "nobody")
    assert decoy.salt != users.credential(SHA_256, "nobody else").salt
    for mechanism in (SHA_256, SHA_512):
        decoy = users.credential(mechanism, "nobody")
        assert (len(decoy.stored_key), len(decoy.server_key)) == (mechanism.hash_size, mechanism.hash_size)


def test_the_decoy_key_is_written_once_in_the_life_of_a_cluster():
    users = ScramUsers()
    _, first = users.alter([], [upsert("a")])
    _, second = users.alter([], [upsert("b")])
    _, later = replayed(first).alter([], [upsert("c")])
    _, without = users.alter([Deletion("a", 1)], [])
    assert [len(write.records) for write in (first, second, later, without)] == [2, 1, 1, 1]


def test_the_decoy_key_is_not_written_before_the_first_user():
    """The records of a cluster without users show that it never had any."""
    users = ScramUsers()
    assert users.alter([Deletion("a", 1)], []) == ({"a": UNKNOWN_CREDENTIAL}, None)
    (_, write) = users.alter([], [upsert("a")])
    assert len(write.records) == 2


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([None, 4096, 8192]), st.integers(0, 2))))
def test_an_unknown_user_looks_like_most_users_whatever_was_changed_before(changes):
    users, shapes = ScramUsers(), {}
    for name, iterations, salt_bytes in changes:
        if iterations is None:
            change(users, Deletion(name, 1))
            shapes.pop(name, None)
        else:
            change(users, upsert(name, 1, iterations, b"s" * salt_bytes))
            shapes[name] = salt_bytes, iterations
    salt, iterations = users.parameters(SHA_256, "nobody")
    counts = Counter(shapes.values()) or Counter([(26, 4096)])
    assert counts[len(salt), iterations] == max(counts.values())


def test_two_brokers_make_different_decoys():
    assert ScramUsers().credential(SHA_256, "x") != ScramUsers().credential(SHA_256, "x")


def test_a_deleted_user_looks_like_an_unknown_one(users):
    before = users.credential(SHA_256, "bob")
    change(users, Deletion("bob", 1))
    after = users.credential(SHA_256, "bob")
    assert after != before
    assert (after.salt, after.iterations) == users.parameters(SHA_256, "bob")


def test_records_of_others_are_read_past(users):
    users.replay(b"\0\1name", b"{}")
    assert users.users() == ["bob"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\0\5", b""),
        (b"\0\5[1]", b"\0\0{}"),
        (b'\0\5["u","SCRAM-SHA-256"]', b"\0\1{}"),
        (b'\0\5["u","SCRAM-SHA-256"]', b"\0\0[]"),
        (b'\0\5["u","SCRAM-SHA-256"]', b'\0\0{"salt":"hunter2"}'),
        (b'\0\5["",""]', None),
        (b'\0\5["u",1]', None),
        (b'\0\5[1,"SCRAM-SHA-256"]', None),
    ],
)
def test_a_record_that_makes_no_sense_is_an_error_that_shows_nothing_of_its_value(key, value):
    with pytest.raises(CorruptStateRecordError) as caught:
        ScramUsers().replay(key, value)
    assert "hunter2" not in str(caught.value)


def test_codes_are_those_of_the_protocol():
    assert (ErrorCode.DUPLICATE_RESOURCE, ErrorCode.UNACCEPTABLE_CREDENTIAL, ErrorCode.RESOURCE_NOT_FOUND) == (
        92,
        93,
        91,
    )
    assert ErrorCode.UNSUPPORTED_SASL_MECHANISM == 33
