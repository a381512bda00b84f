"""A broker inside a Python process, for tests and for programs that want one at hand.

Rules of this file: it is the face of the room and decides nothing; every method may be called from any thread of the
process that started the broker, and from asyncio or Trio. What waits for clients has a form that is awaited.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping

from pipeline_broker.config.properties import property_text
from pipeline_broker.embedded import groups, topics
from pipeline_broker.embedded.contents import Headers, encoded, encoded_headers
from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError, WaitTimeoutError
from pipeline_broker.embedded.fault_rules import EmbeddedFaults
from pipeline_broker.embedded.island import Island
from pipeline_broker.embedded.life import Running
from pipeline_broker.embedded.observed import ObservedBroker
from pipeline_broker.embedded.record_assertion import Expected, difference
from pipeline_broker.embedded.record_reader import RecordReader
from pipeline_broker.embedded.settings import SettingValue
from pipeline_broker.embedded.shown import Group, Record, Snapshot, decoded
from pipeline_broker.records.batch import NewRecord
from pipeline_broker.wire.error import ErrorCode

__all__ = ["EmbeddedBroker"]

__tracebackhide__ = True  # see lifecycle.py
WAIT_SECONDS = 10.0


class EmbeddedBroker(ObservedBroker):
    """A Kafka broker in this process: `with EmbeddedBroker() as broker:`, or `async with`.

    It listens on a free port of 127.0.0.1, keeps its data in memory unless `data` or `store` is given, and serves when
    the statement is entered.

    Args:
        mode: its request path, "pipelined" or "classic".
        settings: properties by Kafka's names, such as {"num.partitions": 4}; they go over `settings.DEFAULTS`.
        data: a directory that its data is kept in, and found again; None for memory.
        store: keep everything in this store of objects in place of `data`, and find it again: an address such as
            "file:///DIR", or an ObjectStore, which several brokers may have, one after the other.
        flush: with `data`, "os" acknowledges what is written, "always" what is on disk.
        requests_max: how many requests `requests` remembers.
        schema_registry: serve a schema registry too, from the start; see `schema_registry_url`.

    Raises:
        EmbeddedBrokerError: something of that is not possible.
    """

    # Topics and records

    def create_topic(
        self, name: str, *, partitions: int | None = None, configs: Mapping[str, SettingValue] | None = None
    ) -> None:
        """Create a topic; it can be used when this returns.

        Args:
            partitions: how many; None for `num.partitions`.
            configs: its settings by Kafka's names.

        Raises:
            RefusedError: it is there already, or what is asked for is not possible.
        """
        texts = {key: property_text(value) for key, value in (configs or {}).items()}
        core = self._of_core

        async def create() -> None:
            core.note_topic(name)
            await topics.create_topic(self._running, name, partitions, texts, self._now_ms)

        self._ask(create)

    def delete_topic(self, name: str) -> None:
        """Delete a topic; raises RefusedError where there is none."""
        self._ask(lambda: topics.delete_topic(self._running, name, self._now_ms))

    def topics(self) -> dict[str, int]:
        """The topics that there are, without the broker's own, with their numbers of partitions."""

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
        timestamp: int | None = None,
    ) -> Record:
        """Append a record, without a client; the topic is created if clients may do so too.

        Args:
            value, key: a text is encoded as UTF-8.
            headers: names and values, as pairs or as a dictionary.
            partition: None for the one that Kafka's clients choose for the key, and 0 without a key.
            timestamp: milliseconds since 1970; None for now.

        Raises:
            RefusedError: Kafka's error.
            EmbeddedBrokerError: key, value or a header is neither text nor bytes nor None.
        """
        stamp, contents = -1 if timestamp is None else timestamp, encoded_headers("produce", headers)
        content = NewRecord(encoded("produce", value), encoded("produce", key), stamp, contents)

        core = self._of_core

        async def append() -> Record:
            core.note_topic(topic)
            now_ms = self._now_ms
            record = content._replace(timestamp=now_ms) if timestamp is None else content
            return await topics.produce(self._running, topic, record, partition, now_ms)

        return self._ask(append)

    def records(self, topic: str, *, partition: int | None = None, committed: bool = True) -> list[Record]:
        """The records of a topic, by partition and offset, without a consumer.

        Args:
            partition: of one partition only.
            committed: without those of transactions that were aborted or have not ended.

        Raises:
            RefusedError: there is no such topic.
        """
        core = self._of_core

        async def read() -> list[tuple[int, int, bytes]]:
            core.note_topic(topic)
            if self._running.broker.topics.get(topic) is None:
                raise RefusedError(f"records({topic!r})", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
            reader = RecordReader(self._running.broker, topic, partition, is_committed=committed)
            await reader.read()
            return reader.batches

        return list(decoded(topic, self._ask(read)))

    def wait_records(
        self,
        topic: str,
        count: int = 1,
        *,
        timeout: float = WAIT_SECONDS,
        partition: int | None = None,
        committed: bool = True,
    ) -> list[Record]:
        """The records of a topic, once there are at least so many; the topic need not be there yet.

        Raises:
            WaitTimeoutError: they did not come within `timeout` seconds.
        """
        work = functools.partial(self._of_core.wait_records, topic, count, partition, timeout, is_committed=committed)
        return list(decoded(topic, self._wait("wait_records", work, timeout)))

    async def wait_records_async(
        self,
        topic: str,
        count: int = 1,
        *,
        timeout: float = WAIT_SECONDS,  # noqa: ASYNC109 - part of what is waited for on another loop
        partition: int | None = None,
        committed: bool = True,
    ) -> list[Record]:
        """As `wait_records`, awaited from asyncio or Trio."""
        work = functools.partial(self._of_core.wait_records, topic, count, partition, timeout, is_committed=committed)
        return list(decoded(topic, await self._wait_async(work)))

    def wait_fetching(self, topic: str, *, timeout: float = WAIT_SECONDS) -> None:
        """Return when consumers have read all of a topic and wait for more, in each of its partitions.

        From here on a consumer that begins at the end (`auto.offset.reset=latest`) misses nothing.

        Raises:
            WaitTimeoutError: they did not within `timeout` seconds.
        """
        self._wait("wait_fetching", functools.partial(self._of_core.wait_fetching, topic, timeout), timeout)

    async def wait_fetching_async(
        self,
        topic: str,
        *,
        timeout: float = WAIT_SECONDS,  # noqa: ASYNC109 - see wait_records_async
    ) -> None:
        """As `wait_fetching`, awaited from asyncio or Trio."""
        await self._wait_async(functools.partial(self._of_core.wait_fetching, topic, timeout))

    def assert_records(
        self,
        topic: str,
        expected: Iterable[Expected],
        *,
        any_order: bool = False,
        partition: int | None = None,
        timeout: float = WAIT_SECONDS,
    ) -> list[Record]:
        """Fail unless a topic has exactly these records, by partition and offset; returns them.

        Args:
            expected: values, or pairs (key, value), for which text stands for UTF-8. If there are fewer records, they
                are waited for; if there should be none, nothing is.
            any_order: only how often each is there counts, as where keys spread over partitions.
            timeout: how long to wait, in seconds.

        Raises:
            AssertionError: there are others, with their differences in lines.
            EmbeddedBrokerError: what is expected can be in no record.
        """
        wanted = list(expected)
        difference((), wanted, any_order=any_order)  # a mistake in it is told before anything is waited for
        try:
            found = self.wait_records(topic, len(wanted), timeout=timeout, partition=partition)
        except WaitTimeoutError:
            found = self.wait_records(topic, 0, partition=partition)
        return _asserted(topic, found, wanted, any_order=any_order)

    async def assert_records_async(
        self,
        topic: str,
        expected: Iterable[Expected],
        *,
        any_order: bool = False,
        partition: int | None = None,
        timeout: float = WAIT_SECONDS,  # noqa: ASYNC109 - see wait_records_async
    ) -> list[Record]:
        """As `assert_records`, awaited from asyncio or Trio."""
        wanted = list(expected)
        difference((), wanted, any_order=any_order)
        try:
            found = await self.wait_records_async(topic, len(wanted), timeout=timeout, partition=partition)
        except WaitTimeoutError:
            found = await self.wait_records_async(topic, 0, partition=partition)
        return _asserted(topic, found, wanted, any_order=any_order)

    # Groups

    def groups(self) -> list[Group]:
        """All groups, by their names."""
        return self.on_loop(groups.describe_groups)

    def wait_assigned(self, group: str, *, members: int = 1, timeout: float = WAIT_SECONDS) -> Group:
        """A group, once it is stable with exactly so many members.

        The broker has given every member its partitions then; the last of them may not have been told yet. Whoever
        produces to consumers that begin at the end also needs `wait_fetching`.

        Raises:
            WaitTimeoutError: it was not so within `timeout` seconds.
        """
        work = functools.partial(self._of_core.wait_assigned, group, members, timeout)
        return self._wait("wait_assigned", work, timeout)

    async def wait_assigned_async(
        self,
        group: str,
        *,
        members: int = 1,
        timeout: float = WAIT_SECONDS,  # noqa: ASYNC109 - see wait_records_async
    ) -> Group:
        """As `wait_assigned`, awaited from asyncio or Trio."""
        return await self._wait_async(functools.partial(self._of_core.wait_assigned, group, members, timeout))

    def wait_committed(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int] | None = None,
        *,
        timeout: float = WAIT_SECONDS,
    ) -> dict[tuple[str, int], int]:
        """What a group has committed, once it has committed enough: offsets by topic and partition.

        Args:
            offsets: at least these; None for the end of each partition that it has committed or is assigned, and at
                least one. The end may be a transaction's marker, behind which not every client commits.

        Raises:
            WaitTimeoutError: it had not within `timeout` seconds.
        """
        work = functools.partial(self._of_core.wait_committed, group, offsets, timeout)
        return self._wait("wait_committed", work, timeout)

    async def wait_committed_async(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int] | None = None,
        *,
        timeout: float = WAIT_SECONDS,  # noqa: ASYNC109 - see wait_records_async
    ) -> dict[tuple[str, int], int]:
        """As `wait_committed`, awaited from asyncio or Trio."""
        return await self._wait_async(functools.partial(self._of_core.wait_committed, group, offsets, timeout))

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """What a group has committed: offsets by topic and partition."""
        return self.on_loop(lambda running: groups.offsets(running, group))

    def lag(self, group: str) -> dict[tuple[str, int], int | None]:
        """How far a group is behind in each partition that it has committed or is assigned, as Kafka's tools show it.

        The lag is the end minus the committed offset, None where nothing is committed. Records that were deleted and
        markers of transactions count.
        """
        return self.on_loop(lambda running: groups.lags(running, group))

    def expire_member(self, group: str, member_id: str | None = None) -> str:
        """Let a member's session end now, as if it had been silent for too long; returns its id.

        Args:
            member_id: who; None for the only one.

        Raises:
            EmbeddedBrokerError: there is no such member, or several to choose from.
        """
        return self._ask(lambda: groups.expire_member(self._running, group, member_id, self._now_ms))

    # Clock and faults

    @property
    def clock_ahead_seconds(self) -> float:
        """How far `advance` has moved the clock of the broker from the wall clock."""
        core = self._of_core
        return self.on_loop(lambda _: core.clock.ahead_ms / 1000)

    @functools.cached_property
    def faults(self) -> EmbeddedFaults:
        """Its fault rules: `broker.faults.when("Produce", nth=2).error("NOT_LEADER_OR_FOLLOWER")`."""
        return EmbeddedFaults(self._on_loop_at_once)

    @contextlib.contextmanager
    def island(self) -> Iterator[Island]:
        """Keep what is done inside the statement from what comes behind it, while the broker goes on.

        `requests` begins with nothing. At the end the fault rules go that were made inside, and the groups that began
        and have no members. If time was advanced, or the broker was restored or reset, it is put back to what it was
        before that happened first, and connections are closed; otherwise clients notice nothing. Topics and records
        stay. A broker that was closed inside, or that failed, is started again.

        Raises:
            EmbeddedBrokerError: the broker keeps its data in a directory, is in an island already, or has ended.
        """
        self._ask_or_renew(lambda core, _: core.begin_island())
        island = Island(self.faults)
        try:
            yield island
        finally:
            with contextlib.suppress(EmbeddedBrokerError):  # they have gone with the broker
                self.faults.remove_all(island.rules)
            self._ask_or_renew(lambda core, is_renewed: core.end_island(is_renewed=is_renewed))

    def snapshot(self) -> Snapshot:
        """Everything that the broker keeps: topics, records, groups, offsets, settings; see `restore`."""
        return self._ask(self._of_core.snapshot)

    def restore(self, snapshot: Snapshot) -> None:
        """Put the broker back to a snapshot, also of another one. Connections are closed, the address stays.

        Members of groups are as after a restart: they have their session timeout to come back.
        """
        self._ask(functools.partial(self._of_core.restore, snapshot))

    def reset(self) -> None:
        """Drop topics, groups and all else, the requests too; connections are closed, the address stays."""
        self._ask(self._of_core.reset)

    def advance(self, seconds: float) -> None:
        """Let the clock of the broker go on by so much, and do what is due: time-outs, retention, compaction.

        Clients have clocks of their own, which do not: a member that has not sent a heartbeat for its session timeout
        by the broker's clock is expired, however lively it is.
        """
        if seconds < 0:
            raise EmbeddedBrokerError(f"advance({seconds:g}): time does not go back; restore a snapshot instead")
        self._ask(functools.partial(self._of_core.advance, seconds))


def _asserted(topic: str, found: list[Record], wanted: list[Expected], *, any_order: bool) -> list[Record]:
    if (differing := difference(found, wanted, any_order=any_order)) is not None:
        raise AssertionError(f"the topic {topic!r} has other records: {differing}")
    return found
