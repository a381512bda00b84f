"""Makes the data directory of this release that later ones must open: `python -m tests.crashes.make_data_directory`.

Rules of this file: what is in the directory is said beside it, as read back before the stop; values repeat themselves,
so that the archive is small. The archive is checked in, one for each release, and never made again for that release.
"""

import io
import json
import random
import tarfile
import tempfile
import tomllib
import zlib
from pathlib import Path

from tests.conftest import ROOT
from tests.crashes.broker_under_test import BrokerUnderTest
from tests.crashes.deeds import SETTINGS, Deeds
from tests.crashes.kept_client import read_held
from tests.crashes.read_back import read_contents
from tests.crashes.wire_client import WireClient
from tests.free_ports import free_port

DIRECTORIES = Path(__file__).with_name("data_directories")
CONTENTS_NAME = "contents.json"
VARIANT = "small-segments"
MODE = 0o644


class Repetitive(random.Random):
    """Bytes that compress well."""

    def randbytes(self, n):
        return (super().randbytes(16) * (n // 16 + 1))[:n]


def contents_of(address, topic_ids, kept, commits):
    """What a broker holds, as it is written to a file and compared."""
    found = read_contents(address, set(), commits)
    with WireClient(address) as client:
        partitions = {}
        for one in kept:
            held = read_held(client, topic_ids[one.topic], one)
            records = [
                [record.offset, record.number, None if record.key is None else record.key.decode(), crc(record.value)]
                for record in held.records
            ]
            partitions[f"{one.topic} {one.index}"] = {"start": held.start_after, "end": held.end, "records": records}
    return {
        "partitions": partitions,
        "topics": {name: [topic_id.hex(), count] for name, (topic_id, count) in sorted(found.topics.items())},
        "offsets": {" ".join(map(str, key)): offset for key, offset in found.offsets.items()},
    }


def crc(value):
    return None if value is None else zlib.crc32(value)


def make(directory, target):
    """Do the deeds, kill the broker in the middle of nothing, and pack what is left."""
    broker = BrokerUnderTest(directory, free_port(), settings=SETTINGS, variant=VARIANT)
    try:
        broker.start("pipelined", "always")
        deeds = Deeds(Repetitive(0), broker.address, broker.data)
        assert deeds.run()
        deeds.verify()
        contents = contents_of(broker.address, deeds.topic_ids, deeds.kept.values(), tuple(deeds.history.commits))
        broker.kill()
    finally:
        broker.kill()
    target.parent.mkdir(exist_ok=True)
    with tarfile.open(target, "w:xz") as archive:
        for path in sorted(broker.data.rglob("*")):
            if path.is_file():
                archive.add(path, Path("data") / path.relative_to(broker.data))
        text = json.dumps(contents, indent=1).encode()
        member = tarfile.TarInfo(CONTENTS_NAME)
        member.size, member.mode = len(text), MODE
        archive.addfile(member, io.BytesIO(text))


if __name__ == "__main__":
    release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    path = DIRECTORIES / f"{release}.tar.xz"
    assert not path.exists(), f"{path} is there: the directory of a release is made once"
    with tempfile.TemporaryDirectory() as made:
        make(Path(made), path)
    print(f"{path}: {path.stat().st_size} bytes")
