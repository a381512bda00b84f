"""The broker's archiving, run synchronously for tests without threads or an event loop."""

from pipeline_broker.log.archive.archiver import SEGMENTS_AT_ONCE, Archiver


def archive_one(archiver, logs, now_ms=0, **options):
    """Archive the oldest complete segment; return its number and the edit, or None."""
    return archive_some(archiver, logs, now_ms, segments_max=1, **options)


def archive_some(archiver, logs, now_ms=0, segments_max=SEGMENTS_AT_ONCE, **options):
    """Archive a round of complete segments; return the number of the last one and the edit, or None."""
    segments = archiver.next_round()[:segments_max]
    return archiver.take_over(segments, logs.archive_targets(), now_ms, **options) if segments else None


def archive_all(journal, logs, now_ms=0):
    """Archive the whole journal, apply it to the logs, and free its space."""
    journal.seal()
    archiver = Archiver(logs.archive, journal)
    while (found := archive_some(archiver, logs, now_ms)) is not None:
        number, edit = found
        logs.show(edit)
        journal.recycle(number)
