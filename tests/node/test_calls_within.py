"""Requests from within the process that take several steps."""

import errno

import attrs
import pytest
import trio
import trio.testing

from pipeline_broker.apis.call import Session
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.node.calls_within import Caller, CallFailedError
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.security.principal import KafkaPrincipal
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from stages.request import NO_OP, Parked, Pending, Send, Waiting, go_on
from tests.apis.desk import Desk


class Running:
    """A broker with commits that are durable at once."""

    def __init__(self):
        self.server = self
        self.committed = []

    def submit(self, submission):
        self.committed += submission.entries
        submission.on_ended(submission, None)


async def finished(running, steps):
    caller = Caller(running, None, Session("host", "TEST"))
    result = go_on(steps)
    while not isinstance(result, Send):
        result = await caller._next(None, result)
    return result


def test_every_step_gets_its_result():
    running = Running()

    def steps():
        yield None
        yield Pending(["entry"], NO_OP)
        assert running.committed == ["entry"]
        value = yield Parked(lambda: 41)
        yield Waiting(lambda go_on: go_on())
        try:
            yield Parked(lambda: 1 / 0)
        except ZeroDivisionError:
            return Send(b"%d" % (value + 1))

    assert trio.run(finished, running, steps()).parts == (b"42",)


def test_steps_are_closed_if_their_call_is_cancelled():
    closed = []

    def steps():
        try:
            yield Waiting(lambda go_on: None)
        finally:
            closed.append(True)

    async def main():
        with trio.move_on_after(0.01):
            await finished(Running(), kept)

    kept = steps()
    trio.run(main)
    assert closed == [True]


def test_a_failed_commit_closes_the_steps():
    running, closed = Running(), []
    running.submit = lambda submission: submission.on_ended(submission, OSError("no disk"))

    def steps():
        try:
            yield Pending(["entry"], NO_OP)
        finally:
            closed.append(True)

    kept = steps()
    with pytest.raises(CallFailedError, match="no disk"):
        trio.run(finished, running, kept)
    assert closed == [True]


def test_a_request_that_parks_several_times_gets_each_result():
    async def main():
        caller = Caller(Running(), None, Session("host", "TEST"))
        call, slot = caller._call(0, 0, 0)
        found, again = [], Parked()

        async def answer():
            found.append(await caller._next(slot, Parked()))
            found.append(await caller._next(slot, found[0]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            for result in (again, NO_OP):
                await trio.testing.wait_all_tasks_blocked()
                call.request.complete(result)
        assert found == [again, NO_OP]

    trio.run(main)


def test_writes_are_refused_while_the_journal_accepts_no_entries():
    desk, running = Desk(), Running()
    desk.journal.room.obstacle = OSError(errno.ENOSPC, "No space left on device")
    caller = Caller(running, desk.broker, Session("host", "TEST", is_trusted=True))
    request = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)])
    (topic,) = trio.run(caller.ask, request, desk.now_ms).topics
    assert (topic.name, topic.error_code, running.committed) == ("t", ErrorCode.KAFKA_STORAGE_ERROR, [])


class Cluster:
    """A cluster whose other brokers apply changes when the test says so."""

    def __init__(self):
        self.waiting = []

    def when_applied(self, go_on):
        self.waiting.append(go_on)


def test_a_change_of_the_controller_is_answered_once_the_other_brokers_have_applied_it():
    desk, cluster, answers = Desk(), Cluster(), []
    desk.broker.ports = attrs.evolve(desk.broker.ports, cluster=cluster)
    caller = Caller(Running(), desk.broker, Session("host", "TEST", is_trusted=True))
    request = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)])

    async def main():
        async with trio.open_nursery() as nursery:

            async def change():
                answers.append(await caller.ask(request, desk.now_ms))

            nursery.start_soon(change)
            await trio.testing.wait_all_tasks_blocked()
            assert answers == []
            (go_on,) = cluster.waiting
            go_on()

    trio.run(main)
    assert len(answers) == 1


def test_a_denied_caller_names_the_first_right_that_it_lacks():
    desk = Desk("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")
    caller = Caller(Running(), desk.broker, Session("10.0.0.1", "TEST", principal=KafkaPrincipal("User", "ada")))
    assert caller.missing == ""
    assert not caller.may(AclOperation.READ, ResourceType.TOPIC, "t", is_logged=False)
    assert caller.missing == ""
    assert not caller.may(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)
    assert not caller.may(AclOperation.READ, ResourceType.TRANSACTIONAL_ID, "t")
    assert caller.missing == "User:ada needs AlterConfigs on the cluster"
    assert (caller.name, caller.rights) == ("User:ada", (KafkaPrincipal("User", "ada"), "10.0.0.1"))
    trusted = Caller(Running(), desk.broker, Session("10.0.0.1", "TEST", is_trusted=True))
    assert (trusted.name, trusted.rights) == ("", None)
