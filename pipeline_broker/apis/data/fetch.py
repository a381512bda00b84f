"""Fetch: reads record batches, and waits until enough bytes are available.

A fetch that finds less than `min_bytes` is parked, and reads again when records arrive or its deadline passes. A fetch
that needs the disk is parked with that read. Neither occupies a handler. Partitions are read in request order. The size
limits do not apply to the first batch of a response, so that a batch larger than every limit can be fetched. Clients
that do not read earlier responses get smaller responses, or empty ones. A disk error concerns only its own partition.

Longer than most files: reading, waiting, disk reads and the response share the state of one request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from pipeline_broker.apis.authorization import authorize_cluster, topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.leaders import current_leaders
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.apis.storage_error import storage_error
from pipeline_broker.apis.throttling import throttle
from pipeline_broker.base.buffer import Buffer
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.leadership import epoch_error
from pipeline_broker.broker.waiting_fetches import Waiting
from pipeline_broker.log.errors import LogError, OffsetOutOfRange
from pipeline_broker.log.leader_epochs import NO_EPOCH
from pipeline_broker.log.partition.committed_reads import AbortedView, end_of
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.read_result import ColdRead, ReadResult
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.fetch_sessions import FetchContext, PartitionAnswer
from pipeline_broker.state.parked_fetches import Readable
from pipeline_broker.wire.messages.data.fetch import FetchLeaderIdAndEpoch, FetchRequest, FetchResponse
from stages.request import PARKED, FileRange, Parked, Result, Send, go_on

PartitionData = FetchResponse.PartitionData
# Topic name, topic id, partition. The name or the id is empty, depending on the version.
Key: TypeAlias = tuple[str, bytes, int]

STORAGE_ERROR_FROM: Final = 6
TOPIC_ID_FROM: Final = 13
READ_COMMITTED: Final = 1
NO_OFFSET: Final = -1
LEADER_FROM: Final = 16
# Costs of one partition, about microseconds.
VERIFY_ALWAYS: Final = "always"
READ_COST = 12
ANSWER_COST = 1
# Partitions whose response is encoded in the turn that reads them.
ANSWERED_IN_A_TURN = 1_000
# Errors after which the client receives the current leader.
MISLED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
REPLICA_STATE_FROM: Final = 15
# Consumers send -1, debuggers -2. A client that claims to be a broker must be authorized as one (CVE-2018-1288).
FIRST_REPLICA_ID: Final = 0


@attrs.define
class Read:
    key: Key
    data: PartitionData
    log: PartitionLog | None
    readable: Readable | None = None
    cold: ColdRead[list[Buffer]] | None = None
    size_bytes: int = 0
    offset: int = 0
    aborted: AbortedView | None = None

    @property
    def has_diverged(self) -> bool:
        return self.data.diverging_epoch.end_offset != NO_OFFSET

    @property
    def is_final(self) -> bool:
        return bool(self.data.error_code) or self.has_diverged


def handle(call: Call, request: FetchRequest) -> Stepwise[Result]:
    partitions = {
        (topic.topic, topic.topic_id, data.partition): data for topic in request.topics for data in topic.partitions
    }
    forgotten = [
        (topic.topic, topic.topic_id, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    if len(partitions) > ANSWERED_IN_A_TURN:
        yield None
    context = call.broker.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        partitions,
        forgotten,
        uses_topic_ids=call.version >= TOPIC_ID_FROM,
        now_ms=call.now_ms,
    )
    if context.error is not ErrorCode.NONE:
        return call.send(FetchResponse(error_code=context.error))
    if forgotten:
        # A topic with no partition left in the session counts as never seen; see `_former_topic_error`.
        for topic_id in context.names.keys() - {topic_id for _, topic_id, _ in context.partitions}:
            del context.names[topic_id]
    return (yield from _Fetch(call, request, context).first_attempt())


class _Fetch:
    def __init__(
        self, call: Call, request: FetchRequest, context: FetchContext[Key, FetchRequest.FetchPartition]
    ) -> None:
        self._call = call
        self._request = request
        self._context = context
        replica_id = request.replica_id if call.version < REPLICA_STATE_FROM else request.replica_state.replica_id
        self._is_replica = replica_id >= FIRST_REPLICA_ID
        self._is_allowed = _every_topic if self._is_replica else topics_allowed(call, AclOperation.READ)
        self._is_committed = request.isolation_level == READ_COMMITTED
        verify = call.broker.config.pipeline_fetch_verify
        self._may_lend = call.request.connection.sends_ranges and verify != VERIFY_ALWAYS
        self._was_interrupted = False
        self._bytes_max = min(request.max_bytes, call.broker.config.fetch_max_bytes)
        quota_bytes_max = None if call.quota is None else call.quota.fetch_bytes_max()
        if quota_bytes_max is not None:
            self._bytes_max = min(self._bytes_max, quota_bytes_max)

    def first_attempt(self) -> Stepwise[Result]:
        request, call = self._request, self._call
        reads = yield from self._read()
        wanted = min(request.min_bytes, self._bytes_max)
        # Errors and diverging epochs are reported without waiting.
        if request.max_wait_ms <= 0 or not reads or any(read.is_final for read in reads):
            return (yield from self._answer(reads))
        if len(reads) > ANSWERED_IN_A_TURN:
            self._was_interrupted = True  # registering this many partitions takes a turn of its own
            yield None
        waiting = Waiting(call.request, self._read_after_wait)
        waiting_for = dict(map(self._now_readable, reads))
        if call.broker.fetches.park(waiting, waiting_for, wanted, call.now_ms + request.max_wait_ms):
            return PARKED
        return (yield from self._read_and_answer() if self._was_interrupted else self._answer(reads))

    def _read_after_wait(self) -> Result:
        # ACLs may have changed during the wait.
        self._is_allowed = topics_allowed(self._call, AclOperation.READ)
        return go_on(self._read_and_answer())

    def _read_and_answer(self) -> Stepwise[Result]:
        reads = yield from self._read()
        return (yield from self._answer(reads))

    def _read(self) -> Stepwise[list[Read]]:
        room = self._call.request.connection.response_room_bytes
        left = min(self._bytes_max, room)
        found_any = not room  # a client that reads no responses does not even get one batch
        reads = []
        for key, wanted in tuple(
            self._context.partitions.items()
        ):  # other requests may change the session between turns
            read = self._read_partition(key, wanted, left, at_least_one=not found_any)
            reads.append(read)
            if read.cold is not None:
                found_any = True
                # The size of a read from disk is unknown until it is done, so its limit counts.
                left -= min(left, wanted.partition_max_bytes)
            elif read.data.records:
                found_any = True
                left -= read.size_bytes
            if self._call.is_turn_over(READ_COST):
                self._was_interrupted = True
                yield None
        if self._call.broker.topic_metrics is not None:
            self._call.broker.topic_metrics.fetched([read.log for read in reads])
        return reads

    def _read_partition(self, key: Key, wanted: FetchRequest.FetchPartition, left: int, *, at_least_one: bool) -> Read:
        name, topic_id, partition = key
        if self._is_replica and not authorize_cluster(self._call, AclOperation.CLUSTER_ACTION):
            return Read(key, _without_log(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED), None)
        log = self._call.broker.find_allowed_log(
            name, topic_id, partition, self._is_allowed, by_id=self._context.uses_topic_ids
        )
        if isinstance(log, ErrorCode):
            return Read(key, _without_log(partition, self._former_topic_error(topic_id, log)), None)
        if self._context.uses_topic_ids:
            self._context.names[topic_id] = log.topic
        refused = self._leader_error(log, wanted)
        if refused is not None:
            return Read(key, _refusal(partition, refused), log)
        limit = min(wanted.partition_max_bytes, max(left, 0))
        try:
            diverging = None if wanted.last_fetched_epoch <= NO_EPOCH else _divergence(log, wanted)
            if diverging is not None:
                return Read(key, diverging, log)
            result = self._read_log(log, wanted.fetch_offset, limit, at_least_one=at_least_one)
        except OffsetOutOfRange:
            return Read(key, _refusal(partition, ErrorCode.OFFSET_OUT_OF_RANGE), log)
        except (OSError, LogError) as error:
            read = Read(key, _unreadable(log, error, self._call.version), log)
            self._count_failures([read])
            return read
        read = Read(
            key=key,
            data=PartitionData(
                partition_index=partition,
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
                log_start_offset=log.log_start_offset,
                aborted_transactions=[] if self._is_committed else None,
                records=_parts_of(result),
            ),
            log=log,
            readable=self._readable(log, wanted),
            cold=result.cold,
            size_bytes=result.size_bytes,
            offset=wanted.fetch_offset,
        )
        if self._is_committed:
            _add_aborted(read, log, result)
        return read

    def _read_log(self, log: PartitionLog, offset: int, limit: int, *, at_least_one: bool) -> ReadResult:
        committed = self._is_committed
        lent = log.lend(offset, limit, committed=committed) if self._may_lend else None
        # If aborted transactions must be read from the disk, the records are read with them.
        if lent is None or (committed and isinstance(log.aborted_view(offset).find(offset, lent.end_offset), ColdRead)):
            return log.read(offset, limit, at_least_one=at_least_one, committed=committed)
        return ReadResult(lent=lent)

    def _leader_error(self, log: PartitionLog, wanted: FetchRequest.FetchPartition) -> ErrorCode | None:
        refused = epoch_error(wanted.current_leader_epoch, log.leader_epoch)
        if refused is not None or not self._is_replica:
            return refused
        # This broker has no followers.
        knows_epoch = wanted.current_leader_epoch != NO_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _readable(self, log: PartitionLog, wanted: FetchRequest.FetchPartition) -> Readable:
        offset, bytes_max = wanted.fetch_offset, max(wanted.partition_max_bytes, 1)
        if not self._is_committed:
            return Readable(log.bytes_available(offset), bytes_max)

        def measure() -> int:
            return log.bytes_available(offset, committed=True)

        return Readable(measure(), bytes_max, measure)

    def _now_readable(self, read: Read) -> tuple[PartitionLog, Readable]:
        log, readable, data = read.log, read.readable, read.data
        assert log is not None, "a partition without a log is an error, and a fetch with an error does not wait"
        assert readable is not None, "set unless the read failed, and a fetch with an error does not wait"
        # Producers may have appended after this partition was read in an earlier turn.
        if log.high_watermark != data.high_watermark:  # transaction markers are records too
            readable = self._readable(log, self._context.partitions[read.key])
        return log, readable

    def _former_topic_error(self, topic_id: bytes, code: ErrorCode) -> ErrorCode:
        """Replace UNKNOWN_TOPIC_ID if the session resolved the id before.

        Deleted, recreated and forbidden topics have their own errors. Any other code is returned unchanged.
        """
        name = self._context.names.get(topic_id)
        if code is not ErrorCode.UNKNOWN_TOPIC_ID or name is None:
            return code
        if not self._is_allowed(name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        is_deleted = self._call.broker.topics.get(name) is None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else ErrorCode.INCONSISTENT_TOPIC_ID

    def _answer(self, reads: list[Read]) -> Stepwise[Send | Parked]:
        quota = self._call.quota
        if quota is not None:
            if not quota.fetched(self._size_bytes(reads)):
                return self._send_nothing()
            throttle(self._call.request, quota.throttle_ms)  # on the event loop, because `work` runs in a thread
        cold = [read for read in reads if read.cold is not None]
        answer = yield from self._select(reads)
        if not cold:
            if len(reads) <= ANSWERED_IN_A_TURN:
                return self._call.send(answer)
            yield None
            return (yield from self._call.send_in_steps(answer))

        def work() -> Send:
            for read in cold:
                _read_cold(read, self._call.version)
            return self._call.send(answer)

        def then(send: Send) -> Send:
            self._count_failures([read for read in cold if read.data.error_code])
            return send

        response_bytes = sum(read.cold.size_bytes for read in cold if read.cold is not None)
        return Parked(work, response_bytes=response_bytes, then=then)

    def _count_failures(self, reads: Iterable[Read]) -> None:
        metrics = self._call.broker.topic_metrics
        if metrics is not None:
            for read in reads:
                assert read.log is not None, "only a log can fail to be read"
                metrics.fetch_failed(read.log.topic)

    def _size_bytes(self, reads: list[Read]) -> int:
        """Return the size of a response with everything found, including the records still to be read from disk."""
        found = {read.key: read.data for read in reads if read.data.records or read.data.error_code or read.cold}
        cold_bytes = sum(read.cold.size_bytes for read in reads if read.cold is not None)
        response = FetchResponse(session_id=self._context.session_id, responses=_by_topic(found))
        return cold_bytes + sum(map(len, self._call.encode(response)))

    def _send_nothing(self) -> Send:
        # The session continues as if this throttled request had not been sent.
        error = self._call.broker.fetch_sessions.skip(self._context)
        return self._call.send(FetchResponse(error_code=error, session_id=self._context.session_id))

    def _select(self, reads: list[Read]) -> Stepwise[FetchResponse]:
        """Build the response, without partitions unchanged since the session's last response."""
        is_large = len(reads) > ANSWERED_IN_A_TURN
        if is_large:
            yield None
        found = []
        for read in reads:
            data = read.data
            has_records, has_error = bool(data.records) or read.cold is not None, bool(data.error_code)
            is_unknown = data.error_code in UNKNOWN
            found.append(
                PartitionAnswer(
                    read.key,
                    data.high_watermark,
                    data.log_start_offset,
                    has_records,
                    has_error,
                    read.has_diverged,
                    is_unknown,
                )
            )
            if self._call.is_turn_over(ANSWER_COST):
                yield None
        if is_large:
            yield None
        answer = self._call.broker.fetch_sessions.answer(self._context, found, self._call.now_ms)
        if is_large:
            yield None
        if answer.error is not ErrorCode.NONE:
            return FetchResponse(error_code=answer.error, session_id=answer.session_id)
        listed = {read.key: read.data for read in reads if read.key in answer.listed}
        response = FetchResponse(session_id=answer.session_id, responses=_by_topic(listed))
        if self._call.version >= LEADER_FROM:
            self._add_leader(response, listed)
        return response

    def _add_leader(self, response: FetchResponse, listed: Mapping[Key, PartitionData]) -> None:
        misled = {key: data for key, data in listed.items() if data.error_code in MISLED}
        if not misled:
            return
        name_of = self._call.broker.topic_name
        # These versions name topics by id.
        places = [(name_of(topic_id) or "", partition) for _, topic_id, partition in misled]
        leaders, addresses = current_leaders(self._call, places)
        for data, leader in zip(misled.values(), leaders, strict=True):
            data.current_leader = FetchLeaderIdAndEpoch(*leader)
        if not self._is_replica:  # only clients need endpoints
            response.node_endpoints = [FetchResponse.NodeEndpoint(*each) for each in addresses]


def _parts_of(result: ReadResult) -> list[Any]:
    if result.lent is None:
        return result.parts
    lent = result.lent.range
    return [FileRange(lent, lent.position, lent.size_bytes)]


def _add_aborted(read: Read, log: PartitionLog, result: ReadResult) -> None:
    """Add the aborted transactions that a read_committed consumer must skip. A search on disk is deferred."""
    view, parts = log.aborted_view(read.offset), result.parts
    if read.cold is not None:
        read.aborted = view
        return
    if not parts and result.lent is None:
        return
    found = view.find(read.offset, end_of(parts) if result.lent is None else result.lent.end_offset)
    if isinstance(found, ColdRead):
        read.cold, read.aborted = ColdRead(lambda: parts, read.size_bytes), view
    else:
        read.data.aborted_transactions = _aborted(found)


def _aborted(found: Iterable[AbortedTransaction]) -> list[FetchResponse.AbortedTransaction]:
    return [FetchResponse.AbortedTransaction(it.producer_id, it.first_offset) for it in found]


def _read_cold(read: Read, version: int) -> None:
    """Read from disk into `read.data`, which the response already refers to. Runs in a thread.

    A disk error becomes the error of the partition.
    """
    assert read.cold is not None
    assert read.log is not None
    try:
        read.data.records = parts = read.cold()
        if read.aborted is not None:
            found = read.aborted.find(read.offset, end_of(parts))
            read.data.aborted_transactions = _aborted(found() if isinstance(found, ColdRead) else found)
    except (OSError, LogError) as error:
        failed = _unreadable(read.log, error, version)
        for field in attrs.fields(PartitionData):
            setattr(read.data, field.name, getattr(failed, field.name))


def _unreadable(log: PartitionLog, error: OSError | LogError, version: int) -> PartitionData:
    code = storage_error(log, error)
    # Older clients do not know the error and would not retry (KIP-112).
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return _refusal(log.partition, code)


def _by_topic(listed: Mapping[Key, PartitionData]) -> list[FetchResponse.FetchableTopicResponse]:
    topics: list[FetchResponse.FetchableTopicResponse] = []
    for (name, topic_id, _), data in listed.items():
        # Only neighbours of one topic share an entry, so the order is kept.
        if not topics or (topics[-1].topic, topics[-1].topic_id) != (name, topic_id):
            topics.append(FetchResponse.FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[]))
        topics[-1].partitions.append(data)
    return topics


def _every_topic(name: str) -> bool:
    del name
    return True


def _without_log(partition: int, code: ErrorCode) -> PartitionData:
    refusal = _refusal(partition, code)
    refusal.aborted_transactions = []
    return refusal


def _divergence(log: PartitionLog, wanted: FetchRequest.FetchPartition) -> PartitionData | None:
    """Return an answer with the diverging epoch and its end (KIP-595); None if the client's records agree with the log.

    Raises:
        OffsetOutOfRange: the last epoch of the client is unknown, or the offset is below the start of the log.
    """
    epoch, end_offset = log.end_of_epoch(wanted.last_fetched_epoch)
    if end_offset == NO_OFFSET or wanted.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(f"offset {wanted.fetch_offset} of epoch {wanted.last_fetched_epoch} is not in {log!r}")
    if epoch == wanted.last_fetched_epoch and wanted.fetch_offset <= end_offset:
        return None
    return PartitionData(
        partition_index=log.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=b"",
        diverging_epoch=FetchResponse.EpochEndOffset(epoch, end_offset),
    )


def _refusal(partition: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=code,
        high_watermark=NO_OFFSET,
        aborted_transactions=None,
        records=b"",
    )


def error_response(request: FetchRequest, call: Call, code: ErrorCode) -> FetchResponse:
    """Build the error response; before version 7, which added a top-level error, every partition has the error."""
    listed = {
        (topic.topic, topic.topic_id, data.partition): _refusal(data.partition, code)
        for topic in request.topics
        for data in topic.partitions
    }
    if call.version >= 7:
        return FetchResponse(error_code=code)
    return FetchResponse(responses=_by_topic(listed))
