"""The validation of records knows the schemas of the broker's registry."""

import errno
import os

import trio

from pipeline_broker.node import known_schemas
from pipeline_broker.node.known_schemas import KnownSchemas
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.worker.work import BusyError
from tests.node.test_schema_registry_topic import Topic


async def current(schemas):
    if not schemas.is_current:
        caught_up = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(schemas.run)
            schemas.catch_up(caught_up.set)
            await caught_up.wait()
            nursery.cancel_scope.cancel()


def test_a_registered_schema_is_known_at_once_and_only_for_its_subject():
    async def main():
        topic = Topic()
        schemas = KnownSchemas(topic.registry)
        assert schemas.ids("t-value") == frozenset()
        await topic.register("t-value", '"int"', '"long"')
        await topic.register("u-value", '"string"')
        assert schemas.is_current
        assert [schemas.ids(each) for each in ("t-value", "u-value", "v-value")] == [{1, 2}, {3}, frozenset()]

    trio.run(main)


def test_schemas_that_were_not_read_are_known_after_a_catch_up():
    async def main():
        topic = Topic()
        await topic.register("t-value", '"int"')
        schemas = KnownSchemas(topic.another())
        assert not schemas.is_current
        assert schemas.ids("t-value") == frozenset()
        await current(schemas)
        assert schemas.is_current
        assert schemas.ids("t-value") == {1}
        await topic.register("t-value", '"long"')
        assert not schemas.is_current
        await current(schemas)
        assert schemas.ids("t-value") == {1, 2}

    trio.run(main)


def test_a_schema_is_known_until_it_is_deleted_for_good():
    async def main():
        topic = Topic()
        await topic.register("t-value", '"int"')
        schemas = KnownSchemas(topic.registry)
        await topic.ask("DELETE", "/subjects/t-value")
        assert schemas.ids("t-value") == {1}
        await topic.ask("DELETE", "/subjects/t-value?permanent=true")
        assert schemas.ids("t-value") == frozenset()

    trio.run(main)


def test_the_alias_of_a_subject_is_followed():
    async def main():
        topic = Topic()
        await topic.register("orders", '"int"')
        await topic.ask("PUT", "/config/t-value", {"alias": "orders"})
        assert KnownSchemas(topic.registry).ids("t-value") == {1}

    trio.run(main)


class Unreadable:
    """A registry whose topic cannot be read."""

    state = RegistryState()
    is_current = False

    async def catch_up(self):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_topic_that_cannot_be_read_is_logged_and_ends_the_wait(caplog):
    trio.run(current, KnownSchemas(Unreadable()))
    assert caplog.messages == [
        f"records are validated with the schemas that were read before: [Errno {errno.EIO}] {os.strerror(errno.EIO)}"
    ]


async def names_of(schemas, *ids):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(schemas.run)
        for schema_id in ids:
            read = trio.Event()
            schemas.read_record_names(schema_id, read.set)
            await read.wait()
        nursery.cancel_scope.cancel()
    return [schemas.record_names(schema_id) for schema_id in ids]


RECORD = '{"type": "record", "name": "Order", "namespace": "shop", "fields": []}'


def test_the_name_of_a_record_is_known_once_it_was_read():
    async def main():
        topic = Topic()
        await topic.register("shop.Order", RECORD, '"int"')
        schemas = KnownSchemas(topic.registry)
        assert [schemas.record_names(each) for each in (1, 3)] == [None, {}]
        assert await names_of(schemas, 1, 2, 3) == [{(): "shop.Order"}, {}, {}]

    trio.run(main)


def test_the_names_of_many_schemas_are_forgotten_the_oldest_first(monkeypatch):
    monkeypatch.setattr(known_schemas, "NAMED_SCHEMAS_MAX", 2)

    async def main():
        topic = Topic()
        await topic.register("t-value", RECORD, '"int"', '"long"')
        schemas = KnownSchemas(topic.registry)
        assert await names_of(schemas, 1, 2, 3) == [None, {}, {}]
        assert await names_of(schemas, 1) == [{(): "shop.Order"}]

    trio.run(main)


def test_a_schema_that_replaced_another_has_its_own_name():
    async def main():
        topic, other = Topic(), Topic()
        await topic.register("t-value", RECORD)
        await other.register("t-value", '"int"')
        registry = Replaced(topic.registry)
        schemas = KnownSchemas(registry)
        assert await names_of(schemas, 1) == [{(): "shop.Order"}]
        registry.now = other.registry
        assert schemas.record_names(1) is None
        assert await names_of(schemas, 1) == [{}]

    trio.run(main)


class Replaced:
    """A registry that reads as another one, as after its topic was created again."""

    def __init__(self, now):
        self.now = now

    def __getattr__(self, name):
        return getattr(self.now, name)


def test_a_name_that_no_worker_can_read_is_logged_and_read_again_later(caplog):
    async def main():
        topic = Topic()
        await topic.register("t-value", RECORD)
        schemas = KnownSchemas(topic.registry)
        run = topic.worker.run

        async def refuse(*_):
            raise BusyError

        topic.worker.run = refuse
        assert await names_of(schemas, 1) == [None]
        topic.worker.run = run
        assert await names_of(schemas, 1) == [{(): "shop.Order"}]

    trio.run(main)
    assert caplog.messages[-1:] == ["records are refused: the names in their schema cannot be read: BusyError"]
