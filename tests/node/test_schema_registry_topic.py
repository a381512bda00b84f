"""The schema registry and its topic, on a server with controlled commits."""

import errno
import json

import pytest
import trio
import trio.testing

from pipeline_broker.node import schema_registry
from pipeline_broker.node.schema_registry import SchemaRegistry
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.schema_registry import api
from pipeline_broker.schema_registry.records import VersionChange
from pipeline_broker.schema_registry.values import Schema, SchemaType, Version
from pipeline_broker.web.messages import StreamedAnswer
from tests.apis.desk import Desk
from tests.schema_registry.registry_desk import WorkerHere, request_of


class Server:
    """A server that commits at once, or holds entries from `hold` to `let_go`; `error` fails all commits."""

    def __init__(self, desk):
        self.desk = desk
        self.held = self.error = None
        self.has_held = trio.Event()

    def submit(self, submission):
        if self.error is not None:
            submission.on_ended(submission, self.error)
            return
        if self.held is not None:
            self.held.append(submission)
            self.has_held.set()
            return
        self.desk.commit(list(submission.entries))
        if submission.on_durable is not None:
            submission.on_durable()
        submission.on_ended(submission, None)

    def hold(self):
        self.held = []

    def let_go(self):
        held, self.held = self.held, None
        for submission in held:
            self.submit(submission)


class Topic:
    def __init__(self):
        self.worker = WorkerHere()
        self.desk = Desk()
        self.server = Server(self.desk)
        self.registry = self.another()

    def another(self):
        """Return a registry that has read nothing yet."""
        return SchemaRegistry(self.desk.broker, self.server, self.worker)

    async def ask(self, *request):
        answer = await self.registry.answer(request_of(*request))
        return json.loads(b"".join(answer.pieces) if isinstance(answer, StreamedAnswer) else answer.body)

    async def register(self, subject, *texts):
        await self.ask("PUT", "/config", {"compatibility": "NONE"})
        for text in texts:
            assert "id" in await self.ask("POST", f"/subjects/{subject}/versions", {"schema": text})


def test_a_deletion_of_many_batches_completes_although_its_client_disconnects(monkeypatch):
    monkeypatch.setattr(schema_registry, "CHANGES_IN_BATCH_MAX", 2)

    async def main():
        topic = Topic()
        await topic.register("a", '"int"', '"long"', '"string"', '"bytes"', '"boolean"')
        assert await topic.ask("DELETE", "/subjects/a") == [1, 2, 3, 4, 5]
        topic.server.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(topic.ask, "DELETE", "/subjects/a?permanent=true")
            await topic.server.has_held.wait()
            nursery.cancel_scope.cancel()
            topic.server.let_go()
        assert await topic.ask("GET", "/subjects?deleted=true") == []

    trio.run(main)


def test_a_topic_is_read_from_its_log_start():
    async def main():
        topic = Topic()
        await topic.register("a", '"int"')
        await topic.register("b", '"long"')
        log = topic.desk.broker.logs.find("_schemas", 0)
        log.raise_log_start(log.high_watermark - 1)
        topic.registry = topic.another()
        assert await topic.ask("GET", "/subjects") == ["b"]

    trio.run(main)


@pytest.mark.parametrize("has_topic", [False, True])
def test_a_failed_write_is_an_error(has_topic):
    async def main():
        topic = Topic()
        if has_topic:
            await topic.register("before", '"int"')
        topic.server.error = OSError(errno.EIO, "Input/output error")
        answer = await topic.ask("POST", "/subjects/a/versions", {"schema": '"int"'})
        assert answer["error_code"] == 50001
        assert "could not be written" in answer["message"]
        assert await topic.ask("GET", "/subjects") == ["before"] * has_topic

    trio.run(main)


def test_while_the_disk_is_full_schemas_are_served_but_not_registered():
    async def main():
        topic = Topic()
        await topic.register("a", '"int"')
        topic.desk.journal.room.obstacle = OSError(errno.ENOSPC, "No space left on device")
        answer = await topic.ask("POST", "/subjects/a/versions", {"schema": '"long"'})
        assert answer["error_code"] == 50001
        assert answer["message"] == "The disk of the broker is full. Free some space, then try again"
        assert await topic.ask("GET", "/subjects/a/versions") == [1]
        topic.desk.journal.room.obstacle = None
        await topic.register("a", '"long"')
        assert await topic.ask("GET", "/subjects/a/versions") == [1, 2]

    trio.run(main)


def test_two_registries_of_one_topic_never_reuse_an_id_or_version():
    async def main():
        topic = Topic()
        await topic.ask("PUT", "/config", {"compatibility": "NONE"})
        registries, ids = [topic.registry, topic.another()], []
        for number in range(6):
            topic.registry = registries[number % 2]
            fixed = json.dumps({"type": "fixed", "name": f"F{number}", "size": 1})
            ids.append((await topic.ask("POST", "/subjects/a/versions", {"schema": fixed}))["id"])
        assert ids == [1, 2, 3, 4, 5, 6]
        for topic.registry in registries:
            assert await topic.ask("GET", "/subjects/a/versions") == [1, 2, 3, 4, 5, 6]

    trio.run(main)


def test_an_error_of_any_operation_is_an_answer_and_one_log_line(caplog):
    """The test injects an exception at each operation of the API, and into its work."""

    async def main():
        topic = Topic()
        await topic.register("a", '"int"')
        tried = 0
        for pattern, methods in api.TABLE.items():
            for method in methods:
                path = "/" + "/".join("1" if part == "*" else part for part in pattern)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setitem(methods, method, _strange)
                    caplog.clear()
                    answer = await topic.ask(method, path, {"schema": '"int"'})
                assert answer["error_code"] == 42201, (method, path)
                assert len(caplog.records) == 1
                assert "KeyError: 'of a library" in caplog.text
                assert "Traceback" not in caplog.text
                assert len(caplog.text) < 1_000, "its text is cut"
                tried += 1
        assert tried == sum(map(len, api.TABLE.values())) > 20
        topic.worker.meanwhile = lambda: _strange(None)
        assert (await topic.ask("POST", "/subjects/b/versions", {"schema": '"int"'}))["error_code"] == 42201

    trio.run(main)


def _strange(_):
    raise KeyError("of a library" + "x" * 100_000)


def test_a_change_is_decided_again_if_another_registry_has_written():
    """Both register the same subject at the same time; the second is compared with the first."""

    async def main():
        topic = Topic()
        await topic.register("before", '"int"')
        await topic.ask("PUT", "/config", {"compatibility": "BACKWARD"})
        others = topic.another()
        first = {"schema": '{"type":"record","name":"R","fields":[]}'}
        second = {"schema": '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'}
        done = []

        async def other():
            done.append((await others.answer(request_of("POST", "/subjects/a/versions", first))).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await trio.testing.wait_all_tasks_blocked()
            answer = await topic.ask("POST", "/subjects/a/versions", second)
        assert done == [200]
        assert answer["error_code"] == 40901
        both = [topic.registry, others]
        async with trio.open_nursery() as nursery:
            for registry in both:
                nursery.start_soon(registry.answer, request_of("POST", "/subjects/new/versions", {"schema": '"long"'}))
        assert await topic.ask("GET", "/subjects/new/versions") == [1]

    trio.run(main)


def test_a_request_fails_if_the_state_changes_at_each_attempt(monkeypatch):
    monkeypatch.setattr(schema_registry, "ATTEMPTS_MAX", 3)

    async def main():
        topic = Topic()
        written = []

        def write():
            written.append(1)
            change = VersionChange("x", len(written), Version("x", len(written), len(written), schema(len(written))))
            key, value = change.record()
            log = topic.desk.broker.logs.find("_schemas", 0)
            batch = build_batch([NewRecord(value, key, 0)])
            topic.desk.commit([log.append(read_header(batch), batch, 0).entry])

        def schema(number):
            return Schema(SchemaType.AVRO, with_field(number))

        def with_field(name):
            field = {"name": f"f{name}", "type": "int", "default": 0}
            return json.dumps({"type": "record", "name": "R", "fields": [field]})

        await topic.register("x", with_field("a"))
        await topic.ask("PUT", "/config", {"compatibility": "FULL"})
        topic.worker.meanwhile = write
        answer = await topic.ask("POST", "/subjects/x/versions", {"schema": with_field("b")})
        assert answer["error_code"] == 503
        topic.worker.meanwhile = lambda: None
        assert "id" in await topic.ask("POST", "/subjects/x/versions", {"schema": with_field("b")})

    trio.run(main)
