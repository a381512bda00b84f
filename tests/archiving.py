"""What the upkeep of a broker does with threads and an event loop, done at once: for tests without them."""

from pipeline_broker.log.archive.archiver import Archiver


def archive_one(archiver, logs, now_ms=0, **options):
    """Take over the oldest complete segment; its number and the edit, None when there is none."""
    segment = archiver.oldest_complete()
    return None if segment is None else archiver.take_over(segment, logs.archive_targets(), now_ms, **options)


def archive_all(journal, logs, now_ms=0):
    """Take over all that is in the journal, show it to the logs, and give the space back."""
    journal.seal()
    archiver = Archiver(logs.archive, journal)
    while (found := archive_one(archiver, logs, now_ms)) is not None:
        number, edit = found
        logs.show(edit)
        journal.recycle(number)
