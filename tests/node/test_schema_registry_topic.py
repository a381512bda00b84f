"""What the schema registry reads from its topic and writes to it, on a server that commits when it is told to."""

import json

import trio

from pipeline_broker.node import schema_registry
from pipeline_broker.node.schema_registry import SchemaRegistry
from tests.apis.desk import Desk
from tests.schema_registry.registry_desk import request_of


class Server:
    """Commits what is submitted at once, or holds it from `hold` to `let_go`."""

    def __init__(self, desk):
        self.desk = desk
        self.held = None
        self.has_held = trio.Event()

    def submit(self, submission):
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
    """A broker with its registry."""

    def __init__(self):
        self.desk = Desk()
        self.server = Server(self.desk)
        self.registry = self.another()

    def another(self):
        """A registry that has read nothing yet."""
        return SchemaRegistry(self.desk.broker, self.server)

    async def ask(self, *request):
        return json.loads((await self.registry.answer(request_of(*request))).body)

    async def register(self, subject, *texts):
        await self.ask("PUT", "/config", {"compatibility": "NONE"})
        for text in texts:
            assert "id" in await self.ask("POST", f"/subjects/{subject}/versions", {"schema": text})


def test_a_deletion_of_many_batches_whose_client_goes_is_done_to_its_end(monkeypatch):
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


def test_a_topic_whose_first_records_are_deleted_is_read_from_where_it_begins():
    async def main():
        topic = Topic()
        await topic.register("a", '"int"')
        await topic.register("b", '"long"')
        log = topic.desk.broker.logs.find("_schemas", 0)
        log.raise_log_start(log.high_watermark - 1)
        topic.registry = topic.another()
        assert await topic.ask("GET", "/subjects") == ["b"]

    trio.run(main)
