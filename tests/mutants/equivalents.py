"""Mutants that no test can kill, each with the reason: what they do is what the original does.

Longer than most files: one list.
"""

LOG = "pipeline_broker/log"
OBJECTS = f"{LOG}/archive/objects"
OBJECT_JOURNAL = f"{LOG}/object_journal/object_journal.py"
QUOTAS = "pipeline_broker/quotas"
FETCH = "pipeline_broker/apis/data/fetch.py"
SECURITY = "pipeline_broker/security"
STATE = "pipeline_broker/state"
SESSIONS = f"{STATE}/fetch_sessions.py FetchSessions."
BEYOND = "a length that goes beyond the end leaves less than nothing for what it is the length of"
WIDER = "one neighbour more is looked at, and those that are alike are one already"
NO_VICTIM = "where there is room nobody gives way, and what asks for it says so"
LAST_DIGIT = "the last digit of a slot is left out of what a list of objects begins behind"
FIRST_GENERATION = "generation 0 has nothing but a fence, which stays"
ALONE = "what members have is compared with what others have, only"
BISECTED = "where it is met exactly either half of a bisection leads there"
ENDS = "an interval has two ends or none"
NOT_NOTHING = "what is beyond chance is not 0: an interval that leaves 0 out has it not in its middle"
NEXT_PASS = "what one pass leaves the next one moves: a bound of effort"
QUICKLY = "what is not decided quickly is decided by the rules, and alike"
FOUND = "what lies behind the start is found in the first place: the second is asked in vain"
FREED = "what was deleted is not found again: where to look first is a bound of effort"
REPLACED = "where there is room for all there is room for it without what it replaces: a bound of effort"
SHORTCUT = "where nothing can move the heaps say so, too: a bound of effort"
NONE_MADE = "no topic is made in the catalogue of a coordinator that was given none"
NAMELESS = "nobody has None for an instance id"
MISSED = "a range that is not there is missed when it is read"
DRAWN = "one draw is as good as another"
CALLED = "to call nobody does nothing: for speed only"
IN_BURST = "what is marked meanwhile is sent at the end of the burst in any case"
WRITTEN_FIRST = "it is written before anybody reads it"
WHENEVER = "there is a next begin or none, whenever the last one was"
TRIED = "what finds nothing waits, and what waits for what is there is woken at once: for speed only"
FITS = "what fits exactly leaves together or one after the other"
UNREAD = "of a request that is not timed nobody reads the stamps"
NANOSECOND = "the clock meets a bound to the nanosecond by chance only, and either side of it is as good"
LOOKS = "who waits looks for itself what has changed: it is not woken in vain for speed only"
ENDLESS = "a bucket is never full, whatever number says so"

EQUIVALENT: dict[str, str] = {
    "stages/commit_threads.py CommitThreads._commit_on_loop: return committer.is_idle -> return None": (
        "a thread that is called in vain looks once"
    ),
    "stages/response_sender.py ResponseSender._wake: self._is_idle = False -> pass": CALLED,
    "stages/response_sender.py ResponseSender._wake: False -> True": CALLED,
    "stages/request_channel.py RequestQueue.put_nowait: depth > self.depth_max -> depth >= self.depth_max": (
        "what is as much is the same"
    ),
    "stages/connection.py Connection.complete: len(released) > 1 -> len(released) >= 1": (
        "a single one that nobody times needs no time: for speed only"
    ),
    "stages/committer.py Committer.complete: self._sender.begin_burst() -> pass": IN_BURST,
    "stages/request_handler.py RequestHandlerPool._turn: self._sender.begin_burst() -> pass": IN_BURST,
    "stages/committer.py Committer.__init__: 0 -> 1": "of the bytes submitted and those taken the difference counts",
    "stages/committer.py Commit.__init__: 0 -> 1": WRITTEN_FIRST,
    "stages/commit_threads.py CommitThreads.__init__: 0 -> 1": WRITTEN_FIRST,
    "stages/commit_threads.py CommitThreads.__init__: self._completing_until_ns = 0 -> pass": WRITTEN_FIRST,
    "stages/request_handler.py RequestHandlerPool.__init__: False -> True": WRITTEN_FIRST,
    "stages/commit_threads.py CommitThreads.should_yield: now_ns() < self._completing_until_ns -> now_ns() <= "
    "self._completing_until_ns": NANOSECOND,
    "stages/request_handler.py RequestHandlerPool._turn: ended >= latest -> ended > latest": NANOSECOND,
    "stages/request_handler.py RequestHandlerPool._turn: break -> continue": "where nothing waits nothing is taken",
    "stages/request_handler.py RequestHandlerPool._turn: continue -> break #2": "what a turn leaves the next one takes",
    "stages/connection.py Connection.complete: without len(released) > 1 in self._timeline is not None and "
    "len(released) > 1": "a single one that nobody times needs no time: for speed only",
    "stages/deferred_requests.py DeferredRequests.begin_if_possible: without not self._unsent.is_scheduled in "
    "self._unsent.is_full and (not self._unsent.is_scheduled) and self._may_start": (
        "a handler that is called once more takes the next that waits, in the same order"
    ),
    "stages/committer.py Committer._count: without self._counts_bytes in self._counts_bytes and commit.entries": (
        "a pace that counts no bytes makes nothing of it"
    ),
    "stages/commit_threads.py CommitThreads._call_loop: True -> False": "a loop that is called in vain looks once",
    "stages/committer.py Committer._finish: without request.enqueued_ns in request is not None and "
    "request.enqueued_ns": UNREAD,
    "stages/connection.py Connection.complete: without self._timeline is not None in self._timeline is not None and "
    "len(released) > 1": UNREAD,
    "stages/connection.py Connection.complete: 0 -> 1 #2": UNREAD,
    "stages/committer.py Committer._takeable: 0 -> 1": WHENEVER,
    "stages/committer.py Committer.is_backlogged: 0 -> 1": WHENEVER,
    "stages/committer.py Committer.end_commit: self.batching is Batching.REQUEST and commit.error is None -> "
    "self.batching is Batching.REQUEST or commit.error is None": (
        "of group commits no key is busy, and after a failure nothing is taken"
    ),
    "stages/committer.py Committer._wait_ns: without not (self._running or self._counts_bytes) in self.batching is "
    "Batching.REQUEST or not (self._running or self._counts_bytes)": "a pace says so, too: for speed only",
    "stages/connection_quotas.py ConnectionQuotas._ip_throttle_seconds: limit >= UNLIMITED -> limit > UNLIMITED": (
        "nobody comes so fast: for speed only"
    ),
    "stages/frames.py FrameReader.receive_data: self._position < len(self._data) -> self._position <= "
    "len(self._data)": "what is empty adds nothing to what follows",
    "stages/acceptor.py Acceptor._wait_for_slot: until <= arrived -> until < arrived": (
        "who waits for nothing has not waited"
    ),
    "stages/committer.py Committer.end_commit: without commit.error is None in self.batching is Batching.REQUEST and "
    "commit.error is None": "after a failure nothing is taken",
    "stages/committer.py Committer._finish: not self._ended_until_check -> self._ended_until_check": (
        "to look at the time more often costs time only"
    ),
    "stages/committer.py Committer._wait_for_delay: 0 -> 1 #2": NANOSECOND,
    "stages/connection.py Connection._release: output.add(request) >= LARGE_RESPONSE_BYTES -> output.add(request) > "
    "LARGE_RESPONSE_BYTES": "one of just that size counts now or with the next flush",
    "stages/response_output.py ResponseOutput.add: 0 -> 1": "what has no bytes counts as small",
    "stages/request_handler.py RequestHandlerPool._fail: return Close(f'handler failed: {problem!r}') -> return None": (
        "what is no result closes the connection, too"
    ),
    "stages/committer.py Committer._take: without not self._waiting in self._is_poisoned or not self._waiting": (
        "a commit that has taken nothing is none"
    ),
    "stages/committer.py Commit.__init__: self.size_bytes = 0 -> pass": WRITTEN_FIRST,
    "stages/admission.py Admission.receive: count == len(room) -> count != len(room)": TRIED,
    "stages/admission.py Admission.receive: count == RECEIVE_BYTES -> count != RECEIVE_BYTES": TRIED,
    "stages/commit_place.py CommitPlace.__init__: False -> True #2": WRITTEN_FIRST,
    "stages/committer.py Commit.__init__: 0 -> 1 #2": WRITTEN_FIRST,
    "stages/committer.py Committer.__init__: self._last_begin_ns = 0 -> pass": WRITTEN_FIRST,
    "stages/committer.py Committer.__init__: 1 -> 2": WRITTEN_FIRST,
    "stages/commit_threads.py CommitThreads._complete_all: seconds > NOTED_TURN_SECONDS -> seconds >= "
    "NOTED_TURN_SECONDS": NANOSECOND,
    "stages/unfinished.py UnfinishedRequests.run: took > NOTED_TURN_SECONDS -> took >= NOTED_TURN_SECONDS": NANOSECOND,
    "stages/unfinished.py UnfinishedRequests._wait: without first.work is not None in type(first) is Parked and "
    "first.work is not None": "what is no work fails in its thread",
    "stages/transport_layer.py PlaintextTransportLayer.send: 1 -> 2": FITS,
    "stages/commit_threads.py CommitThreads._run: False -> True": "before its first commit it has nothing to announce",
    "stages/response_output.py ResponseOutput.add: without result.last_bytes in type(result) is Close and "
    "result.last_bytes": "to send nothing sends nothing",
    "stages/tls_transport_layer.py _joined: len(parts[0]) >= JOIN_BYTES_MAX -> len(parts[0]) > JOIN_BYTES_MAX": FITS,
    "stages/tls_transport_layer.py _joined: len(part) <= left -> len(part) < left": FITS,
    "stages/tls_transport_layer.py TlsTransportLayer._receive_at_most: data += self._decrypt_more(count - len(data)) "
    "-> pass": "what OpenSSL keeps is received next: for speed only",
    "stages/connection.py Connection.is_overdue: now_ns() - head.received_ns > limits.slot_seconds_max * 1000000000.0 "
    "-> now_ns() - head.received_ns >= limits.slot_seconds_max * 1000000000.0": NANOSECOND,
    "stages/commit_threads.py CommitThreads._run: without self._has_unannounced in is_backlogged and "
    "self._has_unannounced": "one that finds nothing without waiting waits after that",
    "stages/commit_threads.py CommitThreads._run: without is_backlogged in is_backlogged and "
    "self._has_unannounced": "one that finds nothing without waiting announces what ended, and waits after that",
    "stages/tls_transport_layer.py TlsTransportLayer._feed: False -> True": "OpenSSL says itself that it wants more",
    "stages/connection.py Connection._drain: without timeout.cancelled_caught in timeout.cancelled_caught and first "
    "is not None and (unsent.first_waiting is first) and (not is_ours)": "what wakes it ends it in any case",
    "stages/tls_transport_layer.py TlsTransportLayer._feed: True -> False": "OpenSSL knows the end, and says it again",
    "stages/connection.py Connection._drain: without not self.closed in self.order and (not self._closing) and (not "
    "self.closed)": "what is closed has nothing in flight",
    "stages/acceptor.py Acceptor._warn_exhausted: now >= self._next_warning_at -> now > self._next_warning_at": (
        "the next try tells of it, which is as good"
    ),
    "stages/tls_transport_layer.py TlsTransportLayer._feed: self._ended = True -> pass": (
        "OpenSSL knows the end, and says it again"
    ),
    "stages/commit_threads.py CommitThreads._run: is_backlogged and self._has_unannounced -> is_backlogged or "
    "self._has_unannounced": "one that finds nothing without waiting announces what ended, and waits after that",
    "stages/request_handler.py RequestHandlerPool._call_back: without type(error) is QueueHeldError in type(error) "
    "is QueueHeldError and self._current is request": "whatever else is raised leaves no request current",
    "stages/connection.py Connection.complete: without request.expected_bytes or request.before_answer is not None in "
    "(request.expected_bytes or request.before_answer is not None) and self._asks_application(request, re...": (
        "nothing is counted no longer and nobody is asked: for speed only"
    ),
    "stages/committer.py Committer._wait_for_delay: remaining_ns > 0 -> remaining_ns >= 0": "no time is no sleep",
    "stages/committer.py Committer.end_commit: without self.delay_ns in self.delay_ns and commit.error is None": (
        "no delay is over at once: it is not asked for speed only"
    ),
    "stages/request_handler.py RequestHandlerPool.resize_handlers: count < active -> count <= active": (
        "as many as there are are none too many"
    ),
    "stages/connection.py Connection._release: without self.mute.reasons in self.mute.reasons and (not self.order)": (
        "what nothing mutes holds no frame: it is not asked for one for speed only"
    ),
    "stages/admission.py Admission.change_queue: self._generation = channel.generation -> pass": (
        "its queue is found again and is the same: for speed only"
    ),
    "stages/tls_transport_layer.py _joined: without len(parts) == 1 in len(parts) == 1 or len(parts[0]) >= "
    "JOIN_BYTES_MAX": "a single part is not copied for speed only",
    "stages/request_handler.py RequestHandlerPool._turn: connection.unsent.size_bytes >= TURN_RESPONSE_BYTES_MAX -> "
    "connection.unsent.size_bytes > TURN_RESPONSE_BYTES_MAX": "a bound of effort",
    "stages/listener.py open_listener: sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0) -> pass": (
        "a machine on which net.ipv6.bindv6only is not set does so by itself"
    ),
    "stages/deferred_requests.py DeferredRequests.begin_if_possible: without self._unsent.is_full in "
    "self._unsent.is_full and (not self._unsent.is_scheduled) and self._may_start": (
        "where it is not full nothing waits that may start, and nothing is muted for it: for speed only"
    ),
    "stages/deferred_requests.py DeferredRequests._mute_without_room: without not self._may_start in "
    "self._unsent.is_full and (not self._unsent.unfinished) and (not self._may_start)": (
        "where there is room what waits is started at once, and it is read on behind that"
    ),
    "stages/connection.py Connection.flush: without self._closing or not self.order in reasons and (self._closing or "
    "not self.order)": LOOKS,
    "stages/connection.py Connection.flush: without reasons in reasons and (self._closing or not self.order)": LOOKS,
    "stages/connection.py Connection.flush: reasons and (self._closing or not self.order) -> reasons or (self._closing "
    "or not self.order)": LOOKS,
    "stages/connection_quotas.py ConnectionQuotas._forget_addresses: 2 -> 3": "a bound of effort",
    f"{QUOTAS}/limits.py _shape: return tuple(((kind, name is None) for kind, name in entity)) -> return None": (
        "levels that cannot fit are left out for speed only"
    ),
    f"{QUOTAS}/limits.py _shape: name is None -> name is not None": "names stand for themselves on both sides",
    f"{QUOTAS}/mutation_quota.py _Meter.__init__: self.limit = 0.0 -> pass": "it is set with the first use",
    f"{QUOTAS}/quotas.py Quotas.__init__: False -> True #2": "what was never replayed sets nothing",
    f"{QUOTAS}/quotas.py RequestQuota.__init__: self._paused_ns = 0 -> pass": "it is set by the pause",
    f"{QUOTAS}/quotas.py RequestQuota.__init__: 0 -> 1 #2": "it is set by the pause",
    f"{QUOTAS}/token_bucket.py TokenBucket.__init__: self._updated_ms = 0 -> pass": "it is set with the first tokens",
    f"{QUOTAS}/token_bucket.py TokenBucket.__init__: 0 -> 1": "it is set with the first tokens",
    f"{QUOTAS}/token_bucket.py TokenBucket.throttle_time_ms: tokens < 0 -> tokens <= 0": "no debt is paid in no time",
    f"{QUOTAS}/mutation_quota.py _Meter.is_idle: without self.throttles.is_idle(now_ms) "
    "in self.rate.is_idle(now_ms) and self.throttles.is_idle(now_ms) and self.bucket.is_full(self.limit, now...": (
        "who was throttled is in debt, and to have a full bucket again takes as long as all windows"
    ),
    f"{QUOTAS}/rate.py throttle_time_ms: observed <= limit -> observed < limit": "the formula gives 0 there, too",
    f"{FETCH} _Fetch.__init__: False -> True": "what was not interrupted reads the same once more",
    f"{FETCH} _Fetch._read_partition: 0 -> 1": "no batch fits into a byte",
    f"{FETCH} _Fetch._answer: len(reads) <= ANSWERED_IN_A_TURN -> len(reads) < ANSWERED_IN_A_TURN": "a bound of effort",
    "pipeline_broker/apis/produce_template.py _Template.__init__: 0 -> 1": (
        "the correlation id is cut off from what is encoded once"
    ),
    f"{SECURITY}/signed_tokens.py _algorithms_of: return frozenset() -> return None": "neither has an algorithm",
    f"{SECURITY}/der.py elements: position + count -> position - count": BEYOND,
    f"{SECURITY}/der.py elements: without position + count > end in not 0 < count <= 4 or position + "
    "count > end": BEYOND,
    f"{SECURITY}/authorizer.py Authorizer._find: return _Finding.DENIED -> return None": "neither allows anything",
    f"{SECURITY}/authorizer.py Authorizer.is_allowed_by_resource_type: without binding.permission is "
    "PermissionType.ALLOW in binding.permission is PermissionType.ALLOW and (not _is_covered(binding, denied))": (
        "what denies covers itself"
    ),
    f"{SECURITY}/jaas.py _Reader.take: without match is None in match is None or kind not in kinds": (
        "where nothing matches the kind is None, which is none of the kinds"
    ),
    f"{SECURITY}/oauthbearer.py OAuthBearerServer.__init__: self._reason = '' -> pass": "it is set by the refusal",
    f"{SECURITY}/plain.py PlainUsers.__init__: 32 -> 33": "a key of this process only",
    f"{SECURITY}/scram_users.py ScramUsers.parameters: 1 -> 2": "of the most common ones the first is taken",
    f"{SECURITY}/signed_tokens.py TokenValidator._verified: without 'crit' in header in not isinstance(key_id, str) or "
    "'crit' in header": "the PyJWT of the tests refuses extensions, too, as not every one did",
    f"{SECURITY}/offer.py _ScramServers.__init__: self._credential_of(name) -> pass": "it is made when it is asked for",
    f"{SECURITY}/signed_tokens.py _reason: without 'it cannot be read' in error.strerror or 'it cannot be read'": (
        "the system's errors have a text"
    ),
    f"{OBJECT_JOURNAL} ObjectJournal.__init__: 0 -> 1 #2": LAST_DIGIT,
    f"{OBJECT_JOURNAL} ObjectJournal._complete_max: run.end < self._ownership.first.slot -> run.end <= "
    "self._ownership.first.slot": "a fence lies between",
    f"{LOG}/journal/segment_window.py SegmentWindow.header_at: self.size_bytes - position -> self.size_bytes + "
    "position": ("a frame that says it goes beyond the end is found too short when it is read"),
    f"{LOG}/archive/damage.py DamageRecord.mark: known.position <= damage.position -> known.position < "
    "damage.position": "what begins at the same place is the same damage",
    f"{OBJECTS}/object_store.py ObjectSegmentStore._new_name: self._objects_made += 1 -> self._objects_made -= "
    "1": "a name is drawn: the number in it is for who reads a listing",
    f"{LOG}/archive/segment_file.py verified_batches: segment.size_bytes - position -> segment.size_bytes + position": (
        "a batch that goes beyond the end is not whole there, which is the same damage"
    ),
    f"{LOG}/archive/segment_file.py verified_batches: without end > end_max in magic != MAGIC or length < "
    "_BATCH_LENGTH_MIN or end > end_max or (position + end > named_position)": (
        "a batch that goes beyond the end is not whole there, which is the same damage"
    ),
    f"{OBJECT_JOURNAL} ObjectJournal.recycle: self._freed_to = boundary.place -> pass": FREED,
    f"{OBJECTS}/archive_log.py ArchiveLog._free: self._freed_to = boundary.place -> pass": FREED,
    f"{OBJECT_JOURNAL} ObjectJournal.recycle: self._recovered.pop(slot, None) -> pass": (
        "who asks for what is archived is refused before: it takes memory only"
    ),
    f"{LOG}/journal/offset_index.py OffsetIndex.drop_before: dropped > self.own_timestamps[0] -> dropped >= "
    "self.own_timestamps[0]": "made anew they are the same",
    f"{OBJECTS}/object_archive.py open_object_archive: 16 -> 17": "the header of a slot has room for 16 of them",
    f"{OBJECTS}/object_archive.py open_object_archive: name < own -> name <= own": "no object has the bare prefix",
    f"{OBJECTS}/object_store.py ObjectSegmentStore._begin_upload: break -> continue": (
        "where nothing is left to take the files that follow stay as they are"
    ),
    f"{LOG}/journal/clean_shutdown.py read_mark: 1 -> 2": "a byte more than a mark has is too many already",
    f"{LOG}/partition/time_search.py TimeSearch._search_from_start: without index.bases[first] >= start in number is "
    "None or number > first or index.bases[first] >= start": FOUND,
    f"{LOG}/partition/time_search.py TimeSearch._search_from_start: without number > first in number is None or "
    "number > first or index.bases[first] >= start": FOUND,
    f"{LOG}/partition/time_search.py TimeSearch._search_from_start: index.bases[first] >= start -> "
    "index.bases[first] > start": "a batch that begins there has what it has behind the start",
    f"{LOG}/archive/archived_log.py ArchivedLog._aborted: aborted.last_stable_offset >= end_offset -> "
    "aborted.last_stable_offset > end_offset": "further ones have begun behind the end: a bound of effort",
    f"{LOG}/partition/partition_log.py PartitionLog.last_stable_offset: first_unstable >= self.high_watermark -> "
    "first_unstable > self.high_watermark": "where they are the same either is the end",
    f"{OBJECTS}/object_store.py ObjectSegmentStore._copy_from_unused: 0 -> 1 #2": "a bound of effort",
    f"{LOG}/archive/local/local_store.py _OpenFiles.__init__: 0 -> 1": "only equality with its earlier value counts",
    f"{OBJECTS}/object_store.py ObjectSegmentStore.free_bytes: 1 -> 2": ENDLESS,
    f"{OBJECTS}/object_store.py ObjectSegmentStore.free_bytes: 62 -> 63": ENDLESS,
    f"{LOG}/archive/segment_reader.py _Wanted.stop: 0 -> 1": "no batch fits into a byte",
    f"{OBJECTS}/archive_log.py ArchiveLog.__init__: 0 -> 1": "it is set by the snapshot of the takeover",
    f"{LOG}/archive/index_cache.py IndexCache.write_repairs: 1 -> 2": "a byte more than a file has is too many already",
    f"{LOG}/journal/recovery.py Recovery.batches: 1 -> 2 #2": "what is kept declares nothing that is missing",
    f"{LOG}/journal/recovery.py Recovery._note: without unproven[0].end_lsn <= durable_lsn in unproven and "
    "unproven[0].end_lsn <= durable_lsn": "what is proven is taken out of the list: it is not made anew for speed only",
    f"{LOG}/compaction/schedule.py group_segments: 0 -> 1": "it is set with the first group",
    f"{LOG}/compaction/offset_map.py OffsetMap.__init__: keys_max < self.capacity -> keys_max <= self.capacity": (
        "a map for as many keys as there are has as much room"
    ),
    f"{LOG}/compaction/offset_map.py OffsetMap._find: bucket + 1 -> bucket - 1": (
        "a key that has no room in its bucket is in a neighbour of it, on whichever side"
    ),
    f"{LOG}/compaction/offset_map.py OffsetMap.__init__: 1 -> 2 #3": "an offset is set with its key",
    f"{LOG}/compaction/offset_map.py OffsetMap._find: place > 0 -> place >= 0": "the first place is aligned",
    f"{LOG}/journal/recovery.py Recovery._refuse_damage: 0 -> 1": "what is kept declares nothing that is missing",
    f"{OBJECTS}/archive_log.py ArchiveLog.__init__: 0 -> 1 #2": FIRST_GENERATION,
    f"{OBJECTS}/archive_log.py ArchiveLog.__init__: 0 -> 1 #3": LAST_DIGIT,
    f"{LOG}/partition/partition_log.py PartitionLog.append: attributes & TRANSACTIONAL_BIT -> attributes | "
    "TRANSACTIONAL_BIT": "producers without transactions have a way of their own for speed only",
    f"{LOG}/archive/archiver.py _PartitionWriter.add: attributes & TRANSACTIONAL_BIT -> attributes | "
    "TRANSACTIONAL_BIT": "what belongs to no transaction changes none: it is left out for speed only",
    f"{LOG}/archive/archived_log.py ArchivedLog._search_from: segment.base_offset < start_offset -> "
    "segment.base_offset <= start_offset": "of a segment that begins there a scan finds the same",
    f"{LOG}/archive/archiver.py _PartitionWriter._should_roll: active.size_bytes + size_bytes <= rules.segment_bytes "
    "-> active.size_bytes + size_bytes < rules.segment_bytes": QUICKLY,
    f"{LOG}/archive/archiver.py _PartitionWriter._should_roll: first_timestamp >= 0 -> first_timestamp > 0": QUICKLY,
    f"{LOG}/archive/archiver.py _PartitionWriter._should_roll: 0 -> 1": QUICKLY,
    f"{LOG}/archive/archiver.py _PartitionWriter._should_roll: max_timestamp - first_timestamp -> max_timestamp + "
    "first_timestamp": QUICKLY,
    f"{LOG}/archive/archiver.py _PartitionWriter._should_roll: max_timestamp - first_timestamp <= rules.roll_ms - "
    "self._jitter_ms -> max_timestamp - first_timestamp < rules.roll_ms - self._jitter_ms": QUICKLY,
    f"{LOG}/partition/partition_log.py PartitionLog.read: end_offset < self.archived.end_offset -> end_offset <= "
    "self.archived.end_offset": "nothing of the archive lies behind its end",
    f"{LOG}/producers/producer_state.py ProducerStates.check: epoch < producer.epoch -> epoch <= producer.epoch": (
        "the same epoch was decided before"
    ),
    f"{LOG}/segments/retention.py RollRules.jitter_ms: 8 -> 9": DRAWN,
    f"{LOG}/segments/retention.py RollRules.jitter_ms: 8 -> 9 #2": DRAWN,
    f"{LOG}/archive/archiver.py _PartitionWriter.__init__: 0 -> 1 #2": (
        "it is set with a new segment; one that goes on has its own"
    ),
    f"{LOG}/archive/segment_file.py read_batches: segment.size_bytes - position -> segment.size_bytes + position #2": (
        "what goes on behind its segment has not the right checksum: it is read in vain"
    ),
    f"{OBJECTS}/object_store.py ObjectSegmentStore._wait_for: without file.goes_to(upload.object_name) in file is "
    "not None and file.goes_to(upload.object_name)": "what is as it was is committed once more: for speed only",
    f"{OBJECTS}/object_store.py ObjectSegmentStore._take_in: without isinstance(each, Range) in isinstance(each, "
    "Range) and each in ranges": "what is in memory is none of the ranges of an object",
    f"{LOG}/archive/segment_file.py _is_large: len(view) < _NEW(BatchHeader, HEADER.unpack_from(view)).size_bytes <= "
    "size_max -> len(view) <= _NEW(BatchHeader, HEADER.unpack_from(view)).size_bytes <= size_max": (
        "a batch that a window holds exactly is read once more, and is the same"
    ),
    f"{LOG}/journal/segment.py is_zero_after: size_bytes - position -> size_bytes + position": (
        "how much is read at once is a bound of effort"
    ),
    f"{LOG}/archive/segment_reader.py _collect: wanted.bytes_max - run.size_bytes -> wanted.bytes_max + "
    "run.size_bytes": "what is beyond the limits is read and not taken: a bound of effort",
    f"{LOG}/archive/transaction_index.py TransactionIndex.__init__: 0 -> 1": "no entry is a byte long",
    f"{LOG}/archive/transaction_index.py rebuilt_entries: break -> continue": (
        "bases rise: no later one is at or below it"
    ),
    f"{LOG}/archive/segment_reader.py SegmentReader._read_batches: without run.next_offset is not None in run.parts "
    "and run.next_offset is not None": "where there is a part there is an offset behind it",
    f"{LOG}/archive/segment_reader.py SegmentReader._read_batches: run.parts and run.next_offset is not None -> "
    "run.parts or run.next_offset is not None": "where a batch begins is known as well where none was taken",
    f"{LOG}/journal/recovery.py Recovery._note: unproven[0].end_lsn <= durable_lsn -> unproven[0].end_lsn < "
    "durable_lsn": "one frame more is written again",
    f"{LOG}/journal/recovery.py sealed_entries: False -> True": "what is not cut is not made durable either",
    f"{LOG}/archive/local/local_store.py _OpenFiles.forget: 1 -> 2": "only equality with its earlier value counts",
    f"{LOG}/archive/local/local_store.py _OpenFiles.forget: self._changes += 1 -> self._changes -= 1": (
        "only equality with its earlier value counts"
    ),
    f"{LOG}/archive/segment_reader.py SegmentReader._search: position >= bytes_end -> position > bytes_end": (
        "one window more is looked at: a bound of effort"
    ),
    f"{OBJECTS}/file_map.py _Reader.changes: len(self._data) - self.position -> len(self._data) + "
    "self.position": MISSED,
    f"{OBJECTS}/file_map.py _Reader.changes: range_count * _RANGE.size -> range_count // _RANGE.size": MISSED,
    f"{OBJECTS}/file_map.py cut: break -> continue": "where nothing is left to keep what follows is passed over",
    f"{OBJECTS}/object_file.py ObjectFile.after_upload: without each.place is not None in has_arrived and "
    "each.place is not None": "what is on its way has a place",
    f"{LOG}/archive/segment_index.py SegmentIndex.search_start: self.last_offset - self.base_offset -> "
    "self.last_offset + self.base_offset": "what no entry of a time reaches lies behind the last entry of all",
    f"{LOG}/archive/segment_index.py SegmentIndex.ceiling: offset - self.base_offset -> offset + self.base_offset": (
        "a place further behind is one, too: a bound of effort"
    ),
    f"{LOG}/segments/log_segment.py segments_from: break -> continue": "bases rise: no later one is at or below it",
    f"{OBJECTS}/object_file.py ObjectFile.cut_at: break -> continue": (
        "where nothing is left to keep what follows is passed over"
    ),
    f"{OBJECTS}/object_file.py ObjectFile.cut_at: end <= size_bytes -> end < size_bytes": (
        "a part that is all of a piece is the same bytes"
    ),
    f"{LOG}/compaction/schedule.py CleaningPlan.is_due: 0 -> 1 #2": "no batch fits into a byte",
    f"{LOG}/archive/segment_index.py SegmentIndex.boundary: self.size_bytes <= position + bytes_max -> "
    "self.size_bytes < position + bytes_max": "a piece that ends earlier ends with a batch, too: a bound of effort",
    f"{LOG}/log_manager.py LogManager.recover: logs[key] = log -> pass": "it is found again, for speed only",
    f"{LOG}/log_manager.py LogManager.recover: logs.clear() -> pass": "nobody but a replay asks: it takes memory only",
    f"{STATE}/groups/classic/classic_group.py ClassicGroup.select_protocol: 1 -> 2": (
        "of the most common ones the first is taken"
    ),
    f"{STATE}/groups/classic/joining.py has_memory: without request.group_instance_id is not None in group is not None "
    "and request.group_instance_id is not None": NAMELESS,
    f"{STATE}/groups/consumer/assignors/range.py _place: without '' in member.instance_id or ''": (
        "two that have none are alike either way"
    ),
    f"{STATE}/groups/consumer/assignors/uniform.py _Plan.__init__: 0 -> 1": ALONE,
    f"{STATE}/groups/consumer/assignors/uniform.py _Plan.balance: heapq.heappush(most, (-loads[giver], giver)) -> "
    "pass": NEXT_PASS,
    f"{STATE}/groups/consumer/assignors/uniform.py _Plan.balance: continue -> break": NEXT_PASS,
    f"{STATE}/groups/consumer/assignors/uniform.py _Plan.balance: max(map(loads.__getitem__, held)) - "
    "min(map(loads.__getitem__, subscribers)) <= DIFFERENCE_MAX -> max(map(loads.__getitem__, held)) - "
    "min(map(loads.__getitem__, subscribers)) < DIFFERENCE_MAX": SHORTCUT,
    f"{STATE}/groups/consumer/assignors/uniform.py _Plan.balance: max(map(loads.__getitem__, held)) - "
    "min(map(loads.__getitem__, subscribers)) -> max(map(loads.__getitem__, held)) + min(map(loads.__getitem__, "
    "subscribers))": SHORTCUT,
    f"{STATE}/groups/consumer/assignors/uniform.py _Plan.__init__: target <= free -> target < free": (
        "of two that are the same either is what both have"
    ),
    f"{STATE}/groups/share/assignor.py assign: 0 -> 1": ALONE,
    f"{STATE}/groups/modern/group.py ModernGroup.count: change > 0 -> change >= 0": "a change is 1 or -1",
    f"{STATE}/groups/consumer/group.py ConsumerGroup.preferred_assignor: 1 -> 2": (
        "of the most common ones the first is taken"
    ),
    f"{STATE}/groups/share/coordinator.py _check_epoch: epoch > member.epoch -> epoch >= member.epoch": (
        "the epoch that the member has was accepted before"
    ),
    f"{STATE}/share_coordinator/share_states.py ShareStates._snapshot: 1 -> 2": "no record has an offset below 0",
    f"{STATE}/log_starts.py LogStarts.raise_to: 0 -> 1": "an offset that is not 0 yet rises to 1 at least",
    f"{STATE}/share_partitions/runs.py Runs.join: 1 -> 2": WIDER,
    f"{STATE}/share_partitions/runs.py Runs.join: 1 -> 2 #2": WIDER,
    f"{SESSIONS}_evict: break -> continue": "where there is enough room nobody else gives way",
    f"{SESSIONS}_evict: 1 -> 2": "what needs a slot needs one",
    f"{STATE}/groups/consumer/subscribing.py refresh_regexes: 1 -> 2 #2": "a bound of effort",
    f"{STATE}/partition_for.py partition_for: 31 * value + unit -> 31 * value - unit": (
        "the hash with the other sign, and the sign is left out"
    ),
    f"{STATE}/dynamic_settings.py DynamicSettings._show: self.generations[resource[0]] += 1 -> "
    "self.generations[resource[0]] -= 1": "only equality with its earlier value counts",
    f"{STATE}/coordinator_records.py read_record_value: len(value) < _TYPE.size -> len(value) <= _TYPE.size": (
        "no value has nothing but its version"
    ),
    f"{STATE}/topics.py TopicCatalogue.check_add_partitions: count < topic.partitions -> count <= topic.partitions": (
        "as many as there are were refused before"
    ),
    f"{STATE}/groups/consumer/coordinator.py ConsumerGroups.describe: 0 -> 1": (
        "nothing that is shown depends on the time"
    ),
    f"{STATE}/groups/share/coordinator.py ShareGroups.advance: without member_id in group.members in group is not None "
    "and member_id in group.members": "a session ends with its member",
    f"{STATE}/groups/modern/membership.py _check_epoch: epoch < current.member_epoch -> epoch <= "
    "current.member_epoch": ("the epoch that the member has was accepted before"),
    f"{STATE}/groups/modern/group.py ModernGroup.commit_error: 0 <= epoch < current.member_epoch -> 0 <= epoch <= "
    "current.member_epoch": "the epoch that the member has is accepted anyhow",
    f"{STATE}/groups/coordinator.py GroupCoordinator.__init__: 0 -> 1": NONE_MADE,
    f"{STATE}/groups/coordinator.py GroupCoordinator.__init__: 1 -> 2": NONE_MADE,
    f"{STATE}/groups/offset_records.py _key_head: 0 -> 1": "the partition is cut off",
    f"{STATE}/groups/commits.py commit: prepared.size_bytes <= offsets.memory.free_bytes -> prepared.size_bytes < "
    "offsets.memory.free_bytes": REPLACED,
    f"{STATE}/groups/commits.py commit: without fits_as_new in fits_as_new or offsets.admits(changes, "
    "request.producer_id)": REPLACED,
    f"{SESSIONS}_open: size <= self._room -> size < self._room": NO_VICTIM,
    f"{STATE}/groups/classic/membership.py leave: each == group.leader -> each != group.leader": (
        "whoever leads meanwhile, the first of those who stay leads then: a bound of effort"
    ),
    f"{STATE}/groups/classic/membership.py _find: without '' in leaver.group_instance_id or ''": NAMELESS,
    f"{STATE}/dynamic_settings.py DynamicSettings._show: 1 -> 2": "only equality with its earlier value counts",
    f"{STATE}/groups/consumer/assigning.py refresh_epoch: group.topics_version = step.topics_version -> pass": (
        "topics that did not change have the hash that they had: it is not made again for speed only"
    ),
    f"{STATE}/groups/consumer/assigning.py is_target_due: without not group.assignment_epoch in not "
    "group.assignment_epoch or step.now_ms >= group.assigned_ms + step.settings.assignment_interval_m...": (
        "a target that was never made was made in 1970"
    ),
    f"{STATE}/share_partitions/share_partition.py SharePartition.raise_start: log_start_offset <= self.start_offset -> "
    "log_start_offset < self.start_offset": "to raise the start to where it is changes nothing",
    f"{SESSIONS}_continue: added > self._room -> added >= self._room": NO_VICTIM,
    f"{SESSIONS}_continue: without added > self._room in added > self._room and (not self._evict(session.size + added, "
    "added, now_ms, spared=session))": NO_VICTIM,
    f"{SESSIONS}_open: without not has_room in not has_room and (not self._evict(size, size, now_ms))": NO_VICTIM,
    "spark_analysis/interval.py t_quantile: t_probability(high, freedom) < probability -> t_probability(high, freedom) "
    "<= probability": BISECTED,
    "spark_analysis/interval.py t_quantile: t_probability(middle, freedom) < probability -> "
    "t_probability(middle, freedom) <= probability": BISECTED,
    "spark_analysis/interval.py Ratio.excludes_one: without self.low is not None in self.low is not None and "
    "self.high is not None and (not self.low <= 1 <= self.high)": ENDS,
    "spark_analysis/interval.py Ratio.excludes_one: without self.high is not None in self.low is not None and "
    "self.high is not None and (not self.low <= 1 <= self.high)": ENDS,
    "spark_analysis/interval.py Ratio.width: without self.low is None in self.low is None or self.high is None": ENDS,
    "spark_analysis/interval.py Ratio.width: without self.high is None in self.low is None or self.high is None": ENDS,
    "spark_analysis/interval.py ratio_interval: without found.low is None in found.low is None or found.high is "
    "None": ENDS,
    "spark_analysis/interval.py ratio_interval: without found.high is None in found.low is None or found.high is "
    "None": ENDS,
    "spark_analysis/capacity.py _solve: min(solved) < 0 -> min(solved) <= 0": (
        "where a part is nothing the model without it says the same"
    ),
    "spark_analysis/capacity.py fit: found[0] < best[0] -> found[0] <= best[0]": (
        "the nearest model is one: another that is as near has nothing in the part that the first does without"
    ),
    "spark_analysis/breakdown.py cause: found.value > 0 -> found.value >= 0": NOT_NOTHING,
    "spark_analysis/breakdown.py cause: total.value > 0 -> total.value >= 0": NOT_NOTHING,
    "spark_analysis/breakdown.py beyond_chance: without difference.low is not None in difference.low is not None "
    "and difference.high is not None and (not difference.low <= 0 <= differenc...": ENDS,
    "spark_analysis/breakdown.py beyond_chance: without difference.high is not None in difference.low is not "
    "None and difference.high is not None and (not difference.low <= 0 <= differenc...": ENDS,
}
