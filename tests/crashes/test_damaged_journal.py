"""A journal that was damaged behind a killed broker's back: the start refuses, or what it serves is right.

Cut off at any byte it looks like a torn tail, which every kill may leave; damage in front of records that are known to
have been durable cannot be one. Either way no wrong byte is served. One kill, many copies of what it left.
"""

import contextlib
import random
import re
import shutil
import time

import pytest

from pipeline_broker.config.settings import load_settings
from pipeline_broker.log.journal import recovery, segment_window
from pipeline_broker.log.partition import reading
from pipeline_broker.node.admin_socket import ADMIN_NAME
from pipeline_broker.node.data_directory import open_broker
from pipeline_broker.node.errors import StartError
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from tests.crashes.history import Contents, wrong_records
from tests.crashes.scene import TOPICS, Scene

pytestmark = [pytest.mark.faults]
DAMAGES = 25
LOAD_SECONDS = 0.5
REFUSAL = re.compile(
    r"\S+: (\S+\.segment is damaged: entries \d+ to \d+ were durable and cannot be read; nothing was changed\."
    r" Restore the directory from a backup"
    r"|the header of \S+\.segment is damaged\. Restore the directory from a backup)"
)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The data directory of a killed broker with many small segments, and the history of its clients."""
    with Scene(1, tmp_path_factory.mktemp("killed"), variant="hoarding") as scene:
        scene.start()
        scene.prepare()
        load = scene.load()
        time.sleep(LOAD_SECONDS)
        scene.broker.kill()
        load.join()
        yield scene.broker.data, scene.history


@contextlib.contextmanager
def recovered(data):
    """A broker over a data directory, in this process."""
    config = load_settings((), ())[0]
    journal, broker = open_broker(data, config, flush="os")
    try:
        yield broker
    finally:
        journal.close()


def contents_of(broker):
    records, high_watermarks = {}, {}
    for log in broker.logs:
        if log.topic in TOPICS:
            partition = log.topic, log.partition
            records[partition], high_watermarks[partition] = list(records_of(log)), log.high_watermark
    return Contents(records, high_watermarks, topics={}, message_bytes_max={}, offsets={})


def records_of(log):
    offset = log.log_start_offset
    while offset < log.high_watermark:
        result = log.read(offset, 1 << 20, at_least_one=True)
        for header, batch in iterate_batches(b"".join(result.cold() if result.cold else result.parts)):
            for record in iterate_records(batch, header):
                yield record.offset, record.value
            offset = header.last_offset + 1


def used_bytes(segment):
    return len(segment.read_bytes().rstrip(b"\0"))


def cut(random, segment):
    """The end is lost."""
    with segment.open("r+b") as file:
        file.truncate(random.randint(0, used_bytes(segment)))


def flip(random, segment):
    """One bit is another."""
    data = bytearray(segment.read_bytes())
    data[random.randrange(used_bytes(segment))] ^= 1 << random.randrange(8)
    segment.write_bytes(data)


def clear(random, segment):
    """A sector reads as zeros."""
    data = bytearray(segment.read_bytes())
    start = random.randrange(used_bytes(segment)) // 512 * 512
    data[start : start + 512] = bytes(len(data[start : start + 512]))
    segment.write_bytes(data)


def damaged(random, data, target, damage):
    """A copy of the data directory with damage, mostly near the end."""
    shutil.copytree(data, target, ignore=shutil.ignore_patterns(ADMIN_NAME))
    segments = sorted(target.glob("journal/*.segment"))
    damage(random, segments[-random.choice((1, 1, 1, 2, len(segments)))])


@pytest.mark.parametrize("damage", [cut, flip, clear])
def test_a_damaged_journal_is_refused_or_serves_a_right_beginning(tmp_path, killed, damage):
    data, history = killed
    dice = random.Random(damage.__name__)
    started, refusals = 0, []
    for number in range(DAMAGES):
        copy = tmp_path / str(number)
        damaged(dice, data, copy, damage)
        try:
            with recovered(copy) as broker:
                assert wrong_records(history, contents_of(broker)) == []
                started += 1
        except StartError as refusal:
            refusals.append(str(refusal))
        shutil.rmtree(copy)
    assert [refusal for refusal in refusals if not REFUSAL.fullmatch(refusal)] == []
    assert started, "nothing started, so nothing was checked"
    assert refusals, "nothing was refused, so no damage was in front of durable records"


def test_without_damage_everything_is_there(killed, tmp_path):
    data, history = killed
    shutil.copytree(data, tmp_path / "data", ignore=shutil.ignore_patterns(ADMIN_NAME))
    with recovered(tmp_path / "data") as broker:
        contents = contents_of(broker)
    assert wrong_records(history, contents) == []
    assert sum(map(len, contents.records.values())) >= history.acknowledged_count > 0


def test_wrong_bytes_would_be_noticed(tmp_path, killed, monkeypatch):
    """One byte of one value is changed: without checksums it is served and noticed, with them it is not served."""
    data, history = killed
    shutil.copytree(data, tmp_path / "data", ignore=shutil.ignore_patterns(ADMIN_NAME))
    change_a_value(tmp_path / "data", history)
    shutil.copytree(tmp_path / "data", tmp_path / "same")
    with contextlib.suppress(StartError), recovered(tmp_path / "same") as broker:
        assert wrong_records(history, contents_of(broker)) == []
    monkeypatch.setattr(segment_window, "is_intact", lambda *_: True)
    monkeypatch.setattr(recovery.Recovery, "_run", lambda *arguments: ([], arguments[-1]))
    monkeypatch.setattr(reading._Span, "intact_count", lambda span, *_: len(span.batches))
    with recovered(tmp_path / "data") as broker:
        assert "nobody sent" in "\n".join(wrong_records(history, contents_of(broker)))


def change_a_value(data, history):
    """Change the last byte of an acknowledged value; those in compressed batches are not found."""
    values = [
        stream.values[number]
        for stream in history.streams
        for number in stream.acknowledged
        if not stream.values[number].endswith(b":")
    ]
    for segment in sorted(data.glob("journal/*.segment")):
        content = bytearray(segment.read_bytes())
        for value in values:
            place = content.find(value)
            if place >= 0:
                content[place + len(value) - 1] ^= 1
                segment.write_bytes(content)
                return
    raise AssertionError("no value was found")
