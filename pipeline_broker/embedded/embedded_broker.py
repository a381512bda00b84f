"""The public class of the embedded broker."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from pipeline_broker.base.duration import seconds_of
from pipeline_broker.embedded import groups, topics
from pipeline_broker.embedded.arguments import (
    Duration,
    SettingValue,
    checked_name,
    checked_number,
    checked_seconds,
    setting_texts,
    timestamp_ms,
)
from pipeline_broker.embedded.contents import Headers, encoded, encoded_headers
from pipeline_broker.embedded.errors import EmbeddedBrokerError, WaitTimeoutError
from pipeline_broker.embedded.fault_rules import EmbeddedFaults
from pipeline_broker.embedded.island import Island
from pipeline_broker.embedded.life import Running
from pipeline_broker.embedded.lifecycle import REQUESTS_MAX
from pipeline_broker.embedded.observed import ObservedBroker
from pipeline_broker.embedded.record_assertion import Expected, difference, expected_list
from pipeline_broker.embedded.shown import Group, Record, Snapshot, decoded
from pipeline_broker.faults.faults import Faults
from pipeline_broker.records.batch import NewRecord

if TYPE_CHECKING:
    from pipeline_broker.objects.store import ObjectStore

__all__ = ["EmbeddedBroker"]

__tracebackhide__ = True  # pytest shows the caller's line instead of this module
Result = TypeVar("Result")

ASSERT = "assert_records"
WAIT_SECONDS = 10.0
REPLICAS_MAX = 32_767  # the largest factor that a request can name


class EmbeddedBroker(ObservedBroker):
    """A Kafka broker inside this process, for tests and local programs.

    It listens on a free port of 127.0.0.1 and keeps its data in memory unless `data` or `store` is given. It starts
    when the `with` or `async with` statement is entered::

        with EmbeddedBroker() as broker:
            broker.produce("greetings", "hello", key="k")
            (record,) = broker.records("greetings")

    Methods can be called from any thread of this process. Methods that need a running broker raise EmbeddedBrokerError
    if the broker has not started or has ended.

    Args:
        mode: the request path, "pipelined" or "classic".
        settings: broker properties by Kafka's names, such as {"num.partitions": 4}. They override `settings.DEFAULTS`.
        data: a directory that keeps the data across brokers. None keeps it in memory.
        store: an object store that keeps the data, instead of `data`: a URL such as "file:///DIR", or an ObjectStore.
            Several brokers can use it one after the other.
        flush: when a record is acknowledged, with `data`: "os" once it is written, "always" once it is on disk.
        requests_max: the number of requests that `requests` remembers, at least 0.
        schema_registry: also serve a schema registry from startup; see `schema_registry_url`.

    Raises:
        EmbeddedBrokerError: an argument is invalid, or two of them contradict each other.
    """

    def __init__(
        self,
        *,
        mode: str = "pipelined",
        settings: Mapping[str, SettingValue] | None = None,
        data: str | os.PathLike[str] | None = None,
        store: str | ObjectStore | None = None,
        flush: str = "os",
        requests_max: int = REQUESTS_MAX,
        schema_registry: bool = False,
    ) -> None:
        # Python names this class, and not its base, in the error for an unknown argument.
        super().__init__(
            mode=mode,
            settings=settings,
            data=data,
            store=store,
            flush=flush,
            requests_max=requests_max,
            schema_registry=schema_registry,
        )

    # Topics and records

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        configs: Mapping[str, SettingValue] | None = None,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic and return once clients can use it.

        Args:
            partitions: the number of partitions. None uses `num.partitions`.
            configs: topic configuration by Kafka's names, such as {"retention.ms": 1000} or timedelta(seconds=1).
            replication_factor: up to the number of brokers. None uses `default.replication.factor`.

        Raises:
            RefusedError: the topic exists, or its name, partitions or configuration is invalid.
        """
        checked_name("create_topic: name", name)
        texts = {} if configs is None else setting_texts("create_topic: configs", configs)
        number = None if partitions is None else checked_number("create_topic: partitions", partitions)
        replicas = topics.DEFAULT
        if replication_factor is not None:
            replicas = checked_number("create_topic: replication_factor", replication_factor, 1, REPLICAS_MAX)
        core = self._of_core

        async def create() -> None:
            core.note_topic(name)
            await topics.create_topic(core.serving.controller, name, number, texts, core.clock.now_ms(), replicas)

        self._ask(create)

    def delete_topic(self, name: str) -> None:
        """Delete a topic.

        Raises:
            RefusedError: the topic does not exist.
        """
        checked_name("delete_topic: name", name)
        core = self._of_core
        self._ask(lambda: topics.delete_topic(core.serving.controller, name, core.clock.now_ms()))

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic, without internal topics."""

        def find(running: Running) -> dict[str, int]:
            own = running.broker.reserved_topics
            return {topic.name: topic.partitions for topic in running.broker.topics.all() if topic.name not in own}

        return self.on_loop(find)

    def produce(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | datetime | None = None,
    ) -> Record:
        """Append a record without a client, and return it.

        A missing topic is created if `auto.create.topics.enable` allows it.

        Args:
            value, key: bytes, or text that is encoded as UTF-8. A value of None is a tombstone.
            headers: names and values, as pairs or as a mapping.
            partition: None chooses the partition of the key like Kafka's clients, or partition 0 without a key.
            timestamp: a datetime, or milliseconds since 1970. None uses the broker's clock.

        Raises:
            RefusedError: the broker refuses the record; `code` is Kafka's error.
            EmbeddedBrokerError: the key, the value or a header is not text, bytes or None.
        """
        checked_name("produce: topic", topic)
        number = None if partition is None else checked_number("produce: partition", partition)
        stamp = -1 if timestamp is None else timestamp_ms("produce: timestamp", timestamp)
        contents = encoded_headers("produce", headers)
        content = NewRecord(encoded("produce", value), encoded("produce", key), stamp, contents)

        core = self._of_core

        async def append() -> Record:
            core.note_topic(topic)
            now_ms = core.clock.now_ms()
            record = content._replace(timestamp=now_ms) if timestamp is None else content
            return await topics.produce(core.serving, topic, record, number, now_ms)

        return self._ask(append)

    def records(self, topic: str, *, partition: int | None = None, committed: bool = True) -> list[Record]:
        """Return the records of a topic without a consumer, ordered by partition and offset.

        Args:
            partition: read only this partition; None: all.
            committed: leave out records of open and aborted transactions.

        Raises:
            RefusedError: the topic or the partition does not exist.
        """
        checked_name("records: topic", topic)
        if partition is not None:
            checked_number("records: partition", partition)
        core = self._of_core

        async def read() -> list[tuple[int, int, bytes]]:
            core.note_topic(topic)
            core.serving.check_leaders(f"records({topic!r})", topic, partition)
            reader = core.record_reader(topic, partition, is_committed=committed)
            await reader.read()
            return reader.batches

        return list(decoded(topic, self._ask(read)))

    def wait_records(
        self,
        topic: str,
        count: int = 1,
        *,
        timeout: Duration = WAIT_SECONDS,
        partition: int | None = None,
        committed: bool = True,
    ) -> list[Record]:
        """Wait until a topic has at least `count` records, and return all its records.

        The topic may be created during the wait.

        Args:
            timeout: the longest wait: seconds, a text such as "3s", or a timedelta.
            partition: count and return the records of this partition only.
            committed: leave out records of open and aborted transactions.

        Raises:
            WaitTimeoutError: the topic had fewer records after `timeout` seconds.
            EmbeddedBrokerError: an event loop runs in this thread; await `wait_records_async` there.
        """
        return self._wait_records("wait_records", topic, count, timeout, partition, is_committed=committed)

    def _wait_records(
        self, asked: str, topic: str, count: int, timeout: Duration, partition: int | None, *, is_committed: bool
    ) -> list[Record]:
        wait = self._of_core.wait_records
        work = functools.partial(wait, asked, topic, count, partition, timeout, is_committed=is_committed)
        return list(decoded(topic, self._wait(asked, work, timeout)))

    async def wait_records_async(
        self,
        topic: str,
        count: int = 1,
        *,
        timeout: Duration = WAIT_SECONDS,  # noqa: ASYNC109 - the wait runs on the broker's event loop
        partition: int | None = None,
        committed: bool = True,
    ) -> list[Record]:
        """Await `wait_records` from asyncio or Trio."""
        return await self._wait_records_async("wait_records", topic, count, timeout, partition, is_committed=committed)

    async def _wait_records_async(
        self,
        asked: str,
        topic: str,
        count: int,
        timeout: Duration,  # noqa: ASYNC109 - see wait_records_async
        partition: int | None,
        *,
        is_committed: bool,
    ) -> list[Record]:
        wait = self._of_core.wait_records
        work = functools.partial(wait, asked, topic, count, partition, timeout, is_committed=is_committed)
        return list(decoded(topic, await self._wait_async(work)))

    def wait_fetching(self, topic: str, *, timeout: Duration = WAIT_SECONDS) -> None:
        """Wait until consumers have read every partition of a topic to its end and wait for more.

        After that, a consumer with `auto.offset.reset=latest` misses no record.

        Args:
            timeout: the longest wait, as in `wait_records`.

        Raises:
            WaitTimeoutError: no consumer waited for more in some partition after `timeout` seconds.
            EmbeddedBrokerError: an event loop runs in this thread; await `wait_fetching_async` there.
        """
        self._wait("wait_fetching", functools.partial(self._of_core.wait_fetching, topic, timeout), timeout)

    async def wait_fetching_async(
        self,
        topic: str,
        *,
        timeout: Duration = WAIT_SECONDS,  # noqa: ASYNC109 - see wait_records_async
    ) -> None:
        """Await `wait_fetching` from asyncio or Trio."""
        await self._wait_async(functools.partial(self._of_core.wait_fetching, topic, timeout))

    def assert_records(
        self,
        topic: str,
        expected: Iterable[Expected],
        *,
        any_order: bool = False,
        json: bool = False,
        partition: int | None = None,
        timeout: Duration = WAIT_SECONDS,
    ) -> list[Record]:
        """Assert that a topic has exactly these records, ordered by partition and offset, and return them.

        Waits until the topic has as many records as expected. An empty `expected` is checked at once.

        Args:
            expected: the values of all records, or their (key, value) pairs. Text stands for its UTF-8 bytes.
            any_order: compare only how often each record occurs, for keys that spread over several partitions.
            json: compare values as JSON with Python objects, such as {"count": 3}. A value of Confluent's JSON Schema
                serializer counts without its schema id.
            partition: compare the records of this partition only.
            timeout: the longest wait, as in `wait_records`.

        Raises:
            AssertionError: the records differ; the message lists the differences.
            EmbeddedBrokerError: `expected` mixes values and pairs, or has an item that is not text, bytes or None, or
                that JSON cannot express. Also raised if an event loop runs in this thread; await
                `assert_records_async` there.
        """
        wanted = expected_list(expected)
        difference((), wanted, any_order=any_order, json=json)  # reject an invalid `expected` before waiting
        hint = ""
        try:
            found = self._wait_records(ASSERT, topic, len(wanted), timeout, partition, is_committed=True)
        except WaitTimeoutError as error:
            hint = error.hint
            found = self._wait_records(ASSERT, topic, 0, WAIT_SECONDS, partition, is_committed=True)
        return _asserted(topic, found, wanted, hint, any_order=any_order, json=json)

    async def assert_records_async(
        self,
        topic: str,
        expected: Iterable[Expected],
        *,
        any_order: bool = False,
        json: bool = False,
        partition: int | None = None,
        timeout: Duration = WAIT_SECONDS,  # noqa: ASYNC109 - see wait_records_async
    ) -> list[Record]:
        """Await `assert_records` from asyncio or Trio."""
        wanted = expected_list(expected)
        difference((), wanted, any_order=any_order, json=json)
        hint = ""
        try:
            found = await self._wait_records_async(ASSERT, topic, len(wanted), timeout, partition, is_committed=True)
        except WaitTimeoutError as error:
            hint = error.hint
            found = await self._wait_records_async(ASSERT, topic, 0, WAIT_SECONDS, partition, is_committed=True)
        return _asserted(topic, found, wanted, hint, any_order=any_order, json=json)

    # Groups

    def groups(self) -> list[Group]:
        """Return all groups, ordered by name."""
        return self._on_core(lambda core: groups.describe_groups(core.serving))

    def wait_assigned(self, group: str, *, members: int = 1, timeout: Duration = WAIT_SECONDS) -> Group:
        """Wait until a group is stable with exactly `members` members, and return it.

        The broker has then assigned all partitions, although the last member may not have received its assignment yet.
        If consumers start at the end of a topic, also call `wait_fetching` before you produce.

        Args:
            members: the exact number of members.
            timeout: the longest wait, as in `wait_records`.

        Raises:
            WaitTimeoutError: the group was not stable with that many members after `timeout` seconds.
            EmbeddedBrokerError: an event loop runs in this thread; await `wait_assigned_async` there.
        """
        work = functools.partial(self._of_core.wait_assigned, group, members, timeout)
        return self._wait("wait_assigned", work, timeout)

    async def wait_assigned_async(
        self,
        group: str,
        *,
        members: int = 1,
        timeout: Duration = WAIT_SECONDS,  # noqa: ASYNC109 - see wait_records_async
    ) -> Group:
        """Await `wait_assigned` from asyncio or Trio."""
        return await self._wait_async(functools.partial(self._of_core.wait_assigned, group, members, timeout))

    def wait_committed(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int] | None = None,
        *,
        timeout: Duration = WAIT_SECONDS,
    ) -> dict[tuple[str, int], int]:
        """Wait until a group has committed enough, and return its committed offsets by topic and partition.

        Args:
            offsets: the least offset to wait for, by topic and partition. None waits for the end of each partition that
                the group has committed or is assigned, and for at least one commit. Pass `offsets` after transactions:
                a partition then ends with a marker, and some clients never commit the offset after it.
            timeout: the longest wait, as in `wait_records`.

        Raises:
            WaitTimeoutError: the group had committed less after `timeout` seconds.
            EmbeddedBrokerError: an event loop runs in this thread; await `wait_committed_async` there.
        """
        work = functools.partial(self._of_core.wait_committed, group, offsets, timeout)
        return self._wait("wait_committed", work, timeout)

    async def wait_committed_async(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int] | None = None,
        *,
        timeout: Duration = WAIT_SECONDS,  # noqa: ASYNC109 - see wait_records_async
    ) -> dict[tuple[str, int], int]:
        """Await `wait_committed` from asyncio or Trio."""
        return await self._wait_async(functools.partial(self._of_core.wait_committed, group, offsets, timeout))

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group by topic and partition; empty for an unknown group."""
        checked_name("offsets: group", group)
        return self._on_core(lambda core: groups.offsets(f"offsets({group!r})", core.serving, group))

    def lag(self, group: str) -> dict[tuple[str, int], int | None]:
        """Return the lag of a group in each partition that it has committed or is assigned.

        The lag is the end offset minus the committed offset, as in Kafka's tools, or None without a committed offset.
        Deleted records and transaction markers count.
        """
        checked_name("lag: group", group)
        return self._on_core(lambda core: groups.lags(f"lag({group!r})", core.serving, group))

    def expire_member(self, group: str, member_id: str | None = None) -> str:
        """End the session of a member now, as after its session timeout, and return its id.

        Args:
            member_id: None selects the only member.

        Raises:
            EmbeddedBrokerError: the group has no member of this id, or `member_id` is None and the group has not
                exactly one member.
            RefusedError: the broker refuses to remove the member.
        """
        core = self._of_core
        return self._ask(lambda: groups.expire_member(core.serving, group, member_id, core.clock.now_ms()))

    # Clock and faults

    @property
    def clock_ahead_seconds(self) -> float:
        """The seconds by which `advance` has moved the broker's clock ahead of the wall clock."""
        return self._on_core(lambda core: core.clock.ahead_ms / 1000)

    @functools.cached_property
    def faults(self) -> EmbeddedFaults:
        """The broker's fault rules: `broker.faults.when("Produce", nth=2).error("NOT_LEADER_OR_FOLLOWER")`."""
        return EmbeddedFaults(self._on_faults, self._check_coordinator)

    def _on_faults(self, function: Callable[[Sequence[Faults]], Result]) -> Result:
        return self._on_core_at_once(lambda core: function([each.broker.faults for each in core.all_running]))

    def _check_coordinator(self, asked: str, group: str) -> None:
        self._on_core_at_once(lambda core: core.serving.coordinator(asked, group))

    @contextlib.contextmanager
    def island(self) -> Iterator[Island]:
        """Isolate the effects of a block from later code, while the broker continues to run.

        On entry, `requests` becomes empty. On exit, fault rules that were made inside are removed, and groups that were
        created inside and have no members are deleted. Topics and records stay.

        If the block called `advance`, `restore` or `reset`, the broker returns to its state before the first of these
        calls and closes its connections. Otherwise clients notice nothing. A broker that was closed or failed inside is
        restarted.

        Raises:
            EmbeddedBrokerError: the broker has `data` or `store`, is in an island already, or has ended.
        """
        self._ask_or_renew(lambda core, _: core.begin_island())
        island = Island(self.faults)
        try:
            yield island
        finally:
            with contextlib.suppress(EmbeddedBrokerError):  # the rules ended with the broker
                self.faults.remove_all(island.rules)
            self._ask_or_renew(lambda core, is_renewed: core.end_island(is_renewed=is_renewed))

    def snapshot(self) -> Snapshot:
        """Return a copy of all the broker keeps: topics, records, groups, offsets and settings. See `restore`.

        Raises:
            EmbeddedBrokerError: the broker has `data` or `store`.
        """
        return self._ask(self._of_core.snapshot)

    def restore(self, snapshot: Snapshot) -> None:
        """Return the broker to a snapshot, which may be that of another broker.

        Connections are closed and the address stays, as in a restart. Group members must return within their session
        timeout.

        Raises:
            EmbeddedBrokerError: the broker has `data` or `store`; or it cannot start from the snapshot, and has ended.
        """
        self._ask(functools.partial(self._of_core.restore, snapshot))

    def reset(self) -> None:
        """Delete all topics, groups and remembered requests, and undo `advance`.

        Connections are closed and the address stays.

        Raises:
            EmbeddedBrokerError: the broker has `data` or `store`.
        """
        self._ask(self._of_core.reset)

    def advance(self, seconds: Duration) -> None:
        """Move the broker's clock forward, run the timers that expire on the way, then run retention and compaction.

        The clocks of clients do not move. A member without a heartbeat for its session timeout, by the broker's clock,
        expires even if its client is alive.

        Args:
            seconds: at least 0: a number, a text such as "8d", or a timedelta.
        """
        step = seconds_of(seconds)
        if step is not None and step < 0:
            raise EmbeddedBrokerError(f"advance({step:g}): the clock cannot move backwards; restore a snapshot instead")
        self._ask(functools.partial(self._of_core.advance, checked_seconds("advance", seconds)))


def _asserted(
    topic: str, found: list[Record], wanted: list[Expected], hint: str, *, any_order: bool, json: bool
) -> list[Record]:
    if (differing := difference(found, wanted, any_order=any_order, json=json)) is not None:
        cause = hint and f"\n{hint}"
        raise AssertionError(f"the topic {topic!r} has unexpected records: {differing}{cause}")
    return found
