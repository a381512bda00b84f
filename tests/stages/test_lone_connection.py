"""One connection alone commits: noticed after a while, over with the first commit that is not its own or not fast."""

import pytest

from stages.committer import Commit, Submission
from stages.lone_connection import COMMITS_MIN, FAST_COMMIT_NS, REQUESTS_MAX, LoneConnection
from stages.request import Request


class Connection:
    def __init__(self, connection_id):
        self.id = connection_id


def commit_of(*connection_ids, duration_ns=1, error=None):
    commit = Commit(0)
    commit.submissions += [
        Submission([], request=connection_id and Request(Connection(connection_id), 0, b"", 0))
        for connection_id in connection_ids
    ]
    commit.durable_ns, commit.error = duration_ns, error
    return commit


def noticed(*commits):
    lone = LoneConnection()
    for commit in commits:
        lone.commit_ended(commit)
    return lone.is_there


ALONE = [commit_of("a")] * (COMMITS_MIN + 1)


def test_it_is_noticed_after_as_many_commits_in_a_row():
    assert noticed(*ALONE)
    assert not noticed(*ALONE[1:])


@pytest.mark.parametrize(
    "other",
    [
        commit_of("b"),
        commit_of("a", "b"),
        commit_of(*"a" * (REQUESTS_MAX + 1)),
        commit_of(None),
        commit_of("a", None),
        commit_of("a", duration_ns=FAST_COMMIT_NS),
        commit_of("a", error=OSError()),
    ],
    ids=[
        "another connection",
        "two connections",
        "many requests",
        "no request",
        "one that is no request",
        "slow",
        "failed",
    ],
)
def test_it_is_over_with_the_first_other_commit(other):
    assert not noticed(*ALONE, other)
    assert not noticed(*ALONE, other, commit_of("a"))
    assert noticed(*ALONE, other, *ALONE)


def test_it_may_have_some_requests_in_a_commit():
    """Those of a connection with five in flight come together."""
    assert noticed(*ALONE, commit_of("a", "a"), commit_of(*"a" * REQUESTS_MAX))
