"""The validation of records knows the schemas of the broker's registry."""

import errno
import os

import trio

from pipeline_broker.node.known_schemas import KnownSchemas
from pipeline_broker.schema_registry.state import RegistryState
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
