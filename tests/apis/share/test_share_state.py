"""Records of share state: those that no snapshot needs are deleted, and no others, whenever the power fails."""

from __future__ import annotations

from pipeline_broker.state.internal_topics import METADATA_TOPIC
from tests.apis.share.share_desk import ACCEPT, ShareDesk


def test_old_records_of_state_are_deleted():
    """Records before all snapshots are deleted after a while; a restart does not need them."""
    desk = ShareDesk("share.coordinator.snapshot.update.records.per.snapshot=2")
    desk.begin()
    for epoch in range(1, 1201):
        desk.produce(1)
        desk.fetch(epoch, acknowledgements={0: [(epoch - 2, epoch - 2, ACCEPT)]} if epoch > 1 else None)
    desk.desk.now_ms += 300_000
    desk.desk.broker.advance(desk.desk.now_ms)
    (log,) = [log for log in desk.desk.broker.share.topic.logs if log.high_watermark]
    assert log.high_watermark - log.log_start_offset < 10
    again = desk.restart()
    assert again.offsets()[0][0] == 1199


def test_snapshots_written_together_have_their_own_offsets():
    """Records before the first of them can be deleted, and none after it."""
    desk = ShareDesk("share.coordinator.state.topic.num.partitions=1", partitions=3)
    desk.heartbeat()
    found = places(desk)
    assert sorted(found.values()) == [0, 1, 2]
    assert places(desk.restart()) == found


def places(desk):
    """Return the offset of the latest snapshot of each share partition."""
    states = desk.desk.broker.share.manager.states
    return {key: states.find(key).snapshot_offset for key in states.all()}


def test_state_records_are_deleted_after_the_snapshot_of_an_expired_lock():
    """Both happen at the same time; the deletion is submitted after the snapshot."""
    desk = ShareDesk("share.coordinator.snapshot.update.records.per.snapshot=2")
    desk.begin()
    inner = desk.desk
    ((key, _),) = places(desk).items()
    epoch = 0
    while epoch < 1200 or inner.broker.share.manager.states.find(key).updates < 2:
        epoch += 1
        desk.produce(1)
        desk.fetch(epoch, acknowledgements={0: [(epoch - 2, epoch - 2, ACCEPT)]} if epoch > 1 else None)
    before, handed_over = places(desk)[key], []
    inner.submit = lambda entries, on_durable: handed_over.append((entries, on_durable))
    inner.now_ms += 300_000
    inner.broker.advance(inner.now_ms)
    assert places(desk)[key] > before
    for entries, _ in handed_over:
        inner.commit(list(entries))
        if entries[0].log.topic == METADATA_TOPIC:  # and then the power fails
            break
    again = desk.restart()
    again.desk.archive_all()
    assert again.restart().offsets()[0][0] == epoch - 1
