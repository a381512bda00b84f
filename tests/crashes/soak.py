"""A soak: one data directory, mixed load for long, a kill about every minute, and a check of everything after each.

Rules of this file: what is drawn is drawn from the seed. Everything that is written also goes: by retention, by
compaction, by DeleteRecords, with its topic; so the directory must stay as large as it is.
"""

import json
import random
import time

import attrs

from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.crashes.broker_under_test import BrokerUnderTest
from tests.crashes.history import History, TopicFate
from tests.crashes.kept import COMPACTED, DELETED, RETAINED, KeptPartition
from tests.crashes.kept_check import verify
from tests.crashes.scene import Load, Violated
from tests.crashes.soak_clients import TIMEOUT_MS, CutWriter, Follower, KeysWriter, Turner, Writer
from tests.crashes.soak_samples import Sampler, growth, medians
from tests.crashes.wire_client import WireClient
from tests.free_ports import free_port

MODES = ("pipelined", "classic")
KILL_SECONDS = 60.0
KILLS_MIN = 3
KILL_SPREAD = (0.5, 1.5)
SEGMENT = {"segment.bytes": "1048576", "file.delete.delay.ms": "1000"}
TOPICS = {
    "short": (4, {**SEGMENT, "retention.bytes": "2000000"}, RETAINED),
    "keys": (
        1,
        {**SEGMENT, "cleanup.policy": "compact", "delete.retention.ms": "1000", "min.cleanable.dirty.ratio": "0.3"},
        COMPACTED,
    ),
    "cut": (2, {**SEGMENT, "retention.ms": "-1"}, DELETED),
}
SETTINGS = (
    "offsets.topic.num.partitions=1",
    "log.initial.task.delay.ms=500",
    "log.retention.check.interval.ms=2000",
    "log.cleaner.backoff.ms=2000",
)


@attrs.define
class SoakCounts:
    """What a soak went through."""

    seconds: float = 0.0
    kills: int = 0
    sent: int = 0
    compared: int = 0
    topics_turned: int = 0


class Soak:
    """See the module."""

    def __init__(self, seed, directory, seconds):
        self.random = random.Random(seed)
        self.seconds = seconds
        self.counts = SoakCounts()
        self.broker = BrokerUnderTest(directory, free_port(), settings=SETTINGS, variant="soaked")
        self.history = History()
        self.kept = [
            KeptPartition(name, index, policy)
            for name, (partitions, _, policy) in TOPICS.items()
            for index in range(partitions)
        ]
        self.topic_ids = {}

    def run(self):
        """Gives the medians of each measure; raises Violated."""
        began = time.monotonic()
        self.broker.start(MODES[0], "always")
        sampler = Sampler(self.broker.data)
        try:
            self._create_topics()
            clients = self._clients()
            while (left := self.seconds - (time.monotonic() - began)) > 0:
                kill_seconds = min(KILL_SECONDS, self.seconds / KILLS_MIN) * self.random.uniform(*KILL_SPREAD)
                self._life(clients, sampler, min(left, kill_seconds))
            code = self.broker.stop()
            if code:
                raise Violated(f"SIGTERM ended the broker with {code}: {self.broker.stderr}")
        finally:
            sampler.close()
            self.broker.kill()
        self.counts.seconds = time.monotonic() - began
        return medians(sampler.samples, self.counts.seconds) if len(sampler.samples) > KILLS_MIN else {}

    def _life(self, clients, sampler, seconds):
        sampler.works(self.broker.process.pid)
        load = Load(self.broker.address, self.history, clients)
        time.sleep(seconds)
        sampler.rests()
        self.broker.kill()
        load.join()
        self.counts.kills += 1
        self.broker.start(self.random.choice(MODES), "always")
        self.counts.compared += verify(self.broker.address, self.history, self.topic_ids, self.kept)
        for one in self.kept:
            one.forget()
        self.counts.sent = sum(one.next_number for one in self.kept)
        self.counts.topics_turned = sum(fate.deleted for fate in self.history.topics.values())

    def _create_topics(self):
        with WireClient(self.broker.address) as client:
            for name, (partitions, config, _) in TOPICS.items():
                configs = [CreateTopicsRequest.CreatableTopicConfig(*item) for item in config.items()]
                topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1, configs=configs)
                (result,) = client.ask(CreateTopicsRequest([topic], timeout_ms=TIMEOUT_MS)).topics
                assert result.error_code == 0, f"creating {name} got error {result.error_code}"
                self.history.topics[name] = TopicFate(partitions, topic_id=result.topic_id, created=True)
                self.topic_ids[name] = result.topic_id

    def _clients(self):
        def of(topic):
            return [one for one in self.kept if one.topic == topic]

        def dice():
            return random.Random(self.random.random())

        return [
            Writer(dice(), self.topic_ids, of("short")[:2], wall_clock_ms),
            Writer(dice(), self.topic_ids, of("short")[2:], wall_clock_ms),
            KeysWriter(dice(), self.topic_ids, of("keys"), wall_clock_ms),
            CutWriter(dice(), self.topic_ids, of("cut"), wall_clock_ms),
            Turner(self.history, dice(), self.topic_ids, wall_clock_ms),
            Follower(self.topic_ids, self.kept),
        ]


def wall_clock_ms():
    return time.time_ns() // 1_000_000


def write_result(directory, counts, found):
    """`soak.json` and `soak.md`; gives the text of the latter."""
    directory.mkdir(parents=True, exist_ok=True)
    result = {**attrs.asdict(counts), "medians": found, "grew": growth(found)}
    (directory / "soak.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    lines = [
        f"{counts.seconds:.0f} s, {counts.kills} kills, {counts.topics_turned} topics created and deleted,",
        f"{counts.sent} records sent, {counts.compared} compared",
        "",
        "| measure | median of the middle third | of the last third |",
        "|---|---|---|",
        *(f"| {name} | {middle:,.0f} | {last:,.0f} |" for name, (middle, last) in found.items()),
    ]
    text = "\n".join(lines) + "\n"
    (directory / "soak.md").write_text(text, encoding="utf-8")
    return text
