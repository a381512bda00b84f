"""What the upkeep of a broker does with threads and an event loop, done at once: for tests without them."""

from pipeline_broker.log.archive.archiver import SEGMENTS_AT_ONCE, Archiver


def archive_one(archiver, logs, now_ms=0, **options):
    """Take over the oldest complete segment; its number and the edit, None when there is none."""
    return archive_some(archiver, logs, now_ms, segments_max=1, **options)


def archive_some(archiver, logs, now_ms=0, segments_max=SEGMENTS_AT_ONCE, **options):
    """Take over a round of complete segments; the number of the last one and the edit, None when there is none."""
    segments = archiver.next_round()[:segments_max]
    return archiver.take_over(segments, logs.archive_targets(), now_ms, **options) if segments else None


def archive_all(journal, logs, now_ms=0):
    """Take over all that is in the journal, show it to the logs, and give the space back."""
    journal.seal()
    archiver = Archiver(logs.archive, journal)
    while (found := archive_some(archiver, logs, now_ms)) is not None:
        number, edit = found
        logs.show(edit)
        journal.recycle(number)
