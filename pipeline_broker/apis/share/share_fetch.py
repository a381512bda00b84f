"""ShareFetch: acknowledges records, then acquires and reads others, in the member's share session.

Acknowledgements are appended at once, and the response waits until they are durable. A fetch that finds nothing to
acquire is parked until its deadline, like Fetch. It tries again when records arrive, when other members release
records, or when acquisition locks expire. A fetch that needs the disk reads in a thread, and acquires afterwards on the
event loop. Until then no other fetch reads that share partition. Neither occupies a handler.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence

from pipeline_broker.apis.authorization import topics_allowed
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.share.share_acknowledgements import RENEW_FROM, acknowledge
from pipeline_broker.apis.share.share_fetch_session import refused, session_of
from pipeline_broker.apis.share.share_reading import ReadBatches, Reading, bytes_wanted, read_partition, start_offset
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import Appended
from pipeline_broker.broker.share_partition_manager import ActivePartition
from pipeline_broker.broker.waiting_fetches import Waiting
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.read_result import ColdRead
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.parked_fetches import Readable
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.state.share_partitions.messages import AcquireLimits, AcquireMode
from pipeline_broker.state.share_partitions.share_sessions import (
    EPOCH_FINAL,
    ShareSession,
    ShareSessionError,
    TopicIdPartition,
)
from pipeline_broker.wire.messages.share.share_fetch import ShareFetchRequest, ShareFetchResponse
from stages.request import PARKED, Parked, Pending, Result, Send

PartitionData = ShareFetchResponse.PartitionData
Topic = ShareFetchResponse.ShareFetchableTopicResponse


def handle(call: Call, request: ShareFetchRequest) -> Result:
    code = refused(call, request)
    if code is not ErrorCode.NONE:
        return call.send(error_response(request, call, code))
    try:
        session = session_of(call, request)
    except ShareSessionError as error:
        return call.send(error_response(request, call, error.code))
    return _ShareFetch(call, request, session).start()


class _ShareFetch:
    def __init__(self, call: Call, request: ShareFetchRequest, session: ShareSession) -> None:
        self._call = call
        self._request = request
        self._session = session
        self._coordinator = call.broker.share.manager
        self._deadline_ms = call.now_ms + request.max_wait_ms
        self._group_id, self._member_id = session.group_id, session.member_id
        self._is_final = request.share_session_epoch == EPOCH_FINAL
        self._epoch = session.epoch
        self._found: dict[TopicIdPartition, PartitionData] = {}
        self._acknowledged: dict[TopicIdPartition, tuple[ErrorCode, str | None]] = {}
        self._appended = Appended()
        self._unsettled = 0  # submitted commits that are not durable yet
        self._held: Send | None = None  # the response that waits for them
        self._started: dict[ShareKey, int] = {}  # start offsets found by searches
        self._loaded: set[ShareKey] = set()  # share partitions that this attempt loaded

    def start(self) -> Result:
        self._acknowledge()
        if self._is_final:
            self._coordinator.close_session(self._session, self._appended, self._now_ms())
            return self._answer()
        if self._request.is_renew_ack:
            return self._answer()
        return self._attempt()

    def _now_ms(self) -> int:
        return self._coordinator.time(self._call.broker.ports.clock_ms())

    def _acknowledge(self) -> None:
        for topic in self._request.topics:
            for wanted in topic.partitions:
                if wanted.acknowledgement_batches:
                    key = ShareKey(self._group_id, topic.topic_id, wanted.partition_index)
                    self._acknowledged[topic.topic_id, wanted.partition_index] = acknowledge(
                        self._call,
                        key,
                        self._member_id,
                        wanted.acknowledgement_batches,
                        self._appended,
                        is_renewal=self._request.is_renew_ack and self._call.version >= RENEW_FROM,
                    )

    # Selecting partitions

    def _attempt(self) -> Result:
        self._found.clear()
        self._loaded.clear()
        search = self._search()
        if search is not None:
            return search
        actives = self._actives()
        ready, has_enough = self._ready(actives)
        if actives and not has_enough and self._park(actives):
            return PARKED
        return self._read(ready)

    def _ready(self, actives: Sequence[ActivePartition]) -> tuple[list[ActivePartition], bool]:
        wanted, found_bytes = max(1, self._request.min_bytes), 0
        ready = []
        # Newly loaded partitions come last, one by one, until there is enough. In Kafka their states load one by one
        # too, and a fetch is answered with the first partition that has records. (SharePartitionManager retries the
        # DelayedShareFetch whenever a share partition is initialized.)
        for active in sorted(actives, key=lambda each: each.key in self._loaded):
            if active.key in self._loaded and found_bytes >= wanted:
                break
            available_bytes = self._available_bytes(active)
            if available_bytes:
                ready.append(active)
                found_bytes += available_bytes
        return ready, found_bytes >= wanted

    def _search(self) -> Parked | None:
        """Find the start offsets of partitions new to the group; return the work if it needs the disk."""
        settings = self._coordinator.settings(self._group_id)
        searches: dict[ShareKey, ColdRead[int]] = {}
        for place in self._session.partitions:
            key = ShareKey(self._group_id, *place)
            log = self._log(place)
            if isinstance(log, ErrorCode) or self._coordinator.find(key) is not None or key in self._started:
                continue
            if (self._coordinator.start_offset(key) or 0) >= 0:
                continue
            start = start_offset(log, settings.auto_offset_reset, self._now_ms())
            if isinstance(start, ColdRead):
                searches[key] = start
            else:
                self._started[key] = start
        if not searches:
            return None
        self._submit()

        def work() -> dict[ShareKey, int]:
            return {key: search() for key, search in searches.items()}

        def then(found: dict[ShareKey, int]) -> Result:
            self._started.update(found)
            return self._attempt()

        return Parked(work, then=then)

    def _log(self, place: TopicIdPartition) -> PartitionLog | ErrorCode:
        topic_id, partition = place
        is_allowed = topics_allowed(self._call, AclOperation.READ)
        return self._call.broker.find_allowed_log("", topic_id, partition, is_allowed, by_id=True)

    def _actives(self) -> list[ActivePartition]:
        """Return the readable share partitions of the session, and record the errors of the others."""
        actives = []
        for place in self._session.partitions:
            active = self._active(place)
            if isinstance(active, ErrorCode):
                self._found[place] = PartitionData(place[1], active, records=b"")
            else:
                self._found[place] = PartitionData(place[1], records=b"")
                actives.append(active)
        # Each fetch begins with another partition, so that no partition starves.
        turn = self._epoch % len(actives) if actives else 0
        return actives[turn:] + actives[:turn]

    def _active(self, place: TopicIdPartition) -> ActivePartition | ErrorCode:
        log = self._log(place)
        if isinstance(log, ErrorCode):
            return log
        key = ShareKey(self._group_id, *place)
        active = self._coordinator.find(key)
        if active is None:
            if self._coordinator.start_offset(key) is None:  # not subscribed by the group
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self._loaded.add(key)
            is_new = self._coordinator.start_offset(key) == -1
            active = self._coordinator.load(key, log, self._started.pop(key, log.high_watermark))
            if is_new:
                self._coordinator.append_start(active, self._appended, self._now_ms())
        self._coordinator.refresh_settings(active)
        active.partition.raise_start(log.log_start_offset)
        return active

    def _available_bytes(self, active: ActivePartition) -> int:
        """Return the readable bytes starting at the next offset to acquire; 0 if nothing can be acquired now."""
        if self._request.max_bytes <= 0 or self._request.max_records <= 0:  # as in Kafka, not even one batch
            return 0
        offset = None if active.is_reading else active.partition.next_offset()
        return 0 if offset is None else active.log.bytes_available(offset, committed=self._is_committed())

    def _park(self, actives: Sequence[ActivePartition]) -> bool:
        """Park the request until records arrive or are released, or until its deadline; return False to answer now."""
        if self._call.broker.ports.clock_ms() >= self._deadline_ms:
            return False
        waiting_for: dict[Hashable, Readable] = {}
        for active in actives:
            waiting_for[active.key] = Readable(0, 0)
            if not active.is_reading and active.partition.next_offset() is not None:
                measure = functools.partial(self._available_bytes, active) if self._is_committed() else None
                waiting_for[active.log] = Readable(self._available_bytes(active), self._request.max_bytes, measure)
        waiting = Waiting(self._call.request, self._retry)
        wanted = max(1, self._request.min_bytes)
        if not self._call.broker.fetches.park(waiting, waiting_for, wanted, self._deadline_ms):
            return False
        self._submit()
        return True

    def _retry(self) -> Result:
        if not self._is_session_current():
            return self._answer()
        return self._attempt()

    # Reading

    def _read(self, ready: Sequence[ActivePartition]) -> Result:
        room = self._call.request.connection.response_room_bytes
        left = min(self._request.max_bytes, self._call.broker.config.fetch_max_bytes, room)
        quota = self._call.quota
        if quota is not None and quota.fetch_bytes_max() is not None:
            left = min(left, quota.fetch_bytes_max() or 0)
        readings, found_any, is_cold = [], not room, False
        share_bytes = left // max(1, len(ready))
        records_left = self._request.max_records
        for active in ready:
            if records_left <= 0:  # reading more is useless; the order rotates with each fetch
                break
            reading = self._read_partition(active, share_bytes, at_least_one=not found_any)
            if reading.cold is not None and records_left < self._request.max_records:
                break  # acquired records do not wait for the disk
            readings.append(reading)
            found_any = found_any or bool(reading.parts) or reading.cold is not None
            is_cold = is_cold or reading.cold is not None
            if not is_cold:
                records_left -= self._acquire(reading, records_left)
        return self._read_cold(readings) if is_cold else self._answer_acquired(readings, records_left)

    def _read_partition(self, active: ActivePartition, bytes_max: int, *, at_least_one: bool) -> Reading:
        offset = active.partition.next_offset()
        assert offset is not None, "a ready partition has an offset to read"
        last = active.partition.last_wanted(max(1, self._request.max_records))
        bytes_max = min(bytes_max, bytes_wanted(active.log, offset, last))
        return read_partition(active, offset, bytes_max, at_least_one=at_least_one, committed=self._is_committed())

    def _read_cold(self, readings: list[Reading]) -> Parked:
        cold = [reading for reading in readings if reading.cold is not None]
        for reading in cold:
            # Records are acquired after the read, so no other fetch may read the partition until then.
            reading.active.is_reading = True
        self._submit()

        def work() -> None:
            for reading in cold:
                assert reading.cold is not None
                reading.cold()

        def then(_: None) -> Result:
            for reading in cold:
                reading.active.is_reading = False
            records_left = self._request.max_records
            for reading in readings:
                records_left -= self._acquire(reading, records_left)
            result = self._answer_acquired(readings, records_left)
            if isinstance(result, Pending):
                # `released` wakes other fetches, which may append; the entries of this one must come first.
                self._submit()
                result = self._hold(send) if isinstance(send := result.result, Send) else result
            for reading in cold:
                self._coordinator.released(reading.active.key)
            return result

        return Parked(work, sum(reading.cold.size_bytes for reading in cold if reading.cold is not None), then)

    def _answer_acquired(self, readings: Sequence[Reading], records_left: int) -> Send | Pending | Parked:
        has_any = records_left < self._request.max_records
        has_errors = any(reading.error for reading in readings)
        if readings and not has_any and not has_errors and self._park(self._actives()):
            return PARKED
        return self._answer()

    def _is_current(self, active: ActivePartition) -> bool:
        # The share partition and the session may have ended during the read.
        return self._coordinator.find(active.key) is active and self._is_session_current()

    def _is_session_current(self) -> bool:
        """Return whether the session still exists at this request's epoch.

        A later epoch means that the member stopped waiting for this request and sent another one.
        """
        session = self._coordinator.sessions.listed().get((self._group_id, self._member_id))
        return session is self._session and session.epoch == self._epoch

    def _acquire(self, reading: Reading, records_max: int) -> int:
        """Acquire read records for the member, except those of other members, and add them to the response.

        Returns:
            the number of acquired records.
        """
        active = reading.active
        data = self._found[active.key[1:]]
        data.error_code = reading.error
        if not reading.parts or records_max <= 0 or not self._is_current(active):
            return 0
        found = ReadBatches(reading.parts, reading.aborted)
        wanted = AcquireLimits(
            records_max=records_max,
            batch_size=max(1, self._request.batch_size),
            mode=AcquireMode(self._request.share_acquire_mode),
        )
        acquired = active.partition.acquire(self._member_id, reading.offset, found.batches, wanted, self._now_ms())
        if not acquired:
            return 0
        self._coordinator.locked(active)
        data.records = found.holding(acquired)
        data.acquired_records = [ShareFetchResponse.AcquiredRecords(*one) for one in acquired]
        return sum(one.last - one.first + 1 for one in acquired)

    def _is_committed(self) -> bool:
        return self._coordinator.settings(self._group_id).isolation_level == "read_committed"

    # Answering

    def _submit(self) -> None:
        # Commits the entries appended so far, because the response may take long.
        if not self._appended.entries:
            return
        appended, self._appended = self._appended, Appended()
        self._unsettled += 1
        self._coordinator.submit(appended, self._settled)

    def _settled(self) -> None:
        self._unsettled -= 1
        if not self._unsettled and self._held is not None:
            self._call.request.complete(self._held)

    def _answer(self) -> Send | Pending | Parked:
        send = self._call.send(self._response())
        if self._unsettled:
            self._submit()
            return self._hold(send)
        if self._appended.entries:
            return Pending(self._appended.entries, send, self._appended.durable)
        return send

    def _hold(self, send: Send) -> Send | Parked:
        if not self._unsettled:
            return send
        # `_settled` sends it once everything is durable.
        self._held = send
        return PARKED

    def _response(self) -> ShareFetchResponse:
        listed: dict[TopicIdPartition, PartitionData] = {}
        for place, data in self._found.items():
            has_records = bool(data.acquired_records)
            if self._session.must_list(place, has_records=has_records, has_error=bool(data.error_code)):
                listed[place] = data
        for place, (code, text) in self._acknowledged.items():
            data = listed.setdefault(place, PartitionData(place[1], records=b""))
            data.acknowledge_error_code, data.acknowledge_error_message = code, text
        response = ShareFetchResponse(responses=_by_topic(listed))
        if not self._is_final:
            response.acquisition_lock_timeout_ms = self._coordinator.settings(self._group_id).record_lock_duration_ms
        return response


def _by_topic(listed: Mapping[TopicIdPartition, PartitionData]) -> list[Topic]:
    topics: dict[bytes, Topic] = {}
    for (topic_id, _), data in listed.items():
        topics.setdefault(topic_id, Topic(topic_id, [])).partitions.append(data)
    return list(topics.values())


def error_response(request: ShareFetchRequest, call: Call, code: ErrorCode) -> ShareFetchResponse:
    del request, call
    return ShareFetchResponse(error_code=code)
