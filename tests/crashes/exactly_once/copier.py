"""What the copiers in Python have in common: they read, copy and commit, each batch as one transaction, until killed.

Rules of this folder: a copier is a process, started as `PROGRAM BOOTSTRAP SEED NAME NOTES`; it may be killed or held
anywhere and is started again under another name. What is fatal for its producer ends it with code 1, what a transaction
does not survive aborts that one. A step that outlives its time limit ends it too, and its end is that of the process
alone: when a broker comes back in a certain moment, librdkafka 2.16 takes it for one to which it is not connected, and
waits for ever to send what is to go there (`send_offsets_to_transaction` ignores its time limit then), and for ever in
its close. `Copier.java` does the same as the others with Apache Kafka's clients.

A copier writes down what it is about to do before it does it, and what it was told after that: JSON lines in the file
NOTES. What it copies is unique for each attempt: `NUMBER NAME COUNT`. Now and then it writes what it then aborts, and
now and then it takes its time in the middle of a transaction, where others are to strike.

`confluent`, `kafka-python` and `java` are members of one group, subscribe, and commit with their generation, so that
the broker can refuse what a former member brings (KIP-447). aiokafka 0.14 commits without one and reads offsets that
are not stable, so it is safe only with partitions that are assigned to it, where the producer's epoch fences whoever
was there before (KIP-98): `aiokafka` copies alone, in a group and to a topic of its own.
"""

import faulthandler
import json
import os
import random
import sys
import time
import traceback

import attrs

PARTITIONS = 4
INPUT, OUTPUT, OUTPUT_ALONE = "in", "out", "out-alone"
GROUP, GROUP_ALONE = "copying", "copying-alone"
JUNK = "junk"
BATCH_MAX = 500
POLL_SECONDS = 0.1
ABORTED_SHARE = 0.1
SLOW_SHARE = 0.2
SLOW_SECONDS = 0.2
STEP_SECONDS_MAX = 4
ROUND_SECONDS_MAX = STEP_SECONDS_MAX + 2
"""More than a pause takes, and a broker that starts: what lasts longer has been forgotten by the client (see above)."""
START_SECONDS_MAX = 15
TRANSACTION_TIMEOUT_MS = 10_000
SESSION_TIMEOUT_MS = 1000
HEARTBEAT_INTERVAL_MS = 300
POLL_INTERVAL_MS_MAX = 20_000
BACKOFF_MS = 20
BACKOFF_MS_MAX = 100
"""A broker that was killed is back soon."""


class Abortable(Exception):
    """The transaction cannot be committed; its producer goes on."""


@attrs.frozen
class Copied:
    """A record of the input."""

    partition: int
    offset: int
    value: str


class Notes:
    """What a copier did; written line by line, so that a kill leaves what was written."""

    def __init__(self, path):
        self._file = open(path, "w", encoding="ascii", buffering=1)  # noqa: PTH123, SIM115 - open until the process ends

    def write(self, **line):
        self._file.write(json.dumps(line) + "\n")


class Work:
    """One copier at work.

    Args:
        client: see `confluent_copier.py`.
        output: the topic to write to.
    """

    def __init__(self, client, output, seed, name, notes):
        self._client = client
        self._output = output
        self._chance = random.Random(seed)
        self._name = name
        self._notes = notes
        self._count = 0

    def run(self):
        """Copy until killed."""
        while True:
            faulthandler.dump_traceback_later(ROUND_SECONDS_MAX, exit=True)
            records = self._client.poll()
            if self._chance.random() < ABORTED_SHARE:
                self._waste()
            if records:
                self._copy(records)

    def _begin(self, records, sent):
        """Give the transaction a number, and say what it is about to do."""
        self._count += 1
        values = [(partition, f"{value} {self._name} {self._count}") for partition, value in sent]
        polled = [(it.partition, it.offset, it.value) for it in records]
        self._notes.write(begin=self._count, rebalanced=self._client.take_rebalanced(), polled=polled, sent=values)
        self._client.begin()
        for partition, value in values:
            self._client.send(self._output, partition, value.encode())
        if self._chance.random() < SLOW_SHARE:
            self._client.flush()
            time.sleep(SLOW_SECONDS)

    def _copy(self, records):
        """The records to the partitions of their origin, and how far that is."""
        try:
            self._begin(records, [(it.partition, it.value) for it in records])
            self._client.send_offsets({it.partition: it.offset + 1 for it in records})
            self._notes.write(committing=self._count)
            offsets = self._client.commit()
        except Abortable as error:
            self._abort(str(error))
            self._client.rewind({it.partition: it.offset for it in reversed(records)})
        else:
            self._notes.write(committed=self._count, offsets=offsets)

    def _waste(self):
        """One transaction that never was."""
        try:
            self._begin([], [(partition, JUNK) for partition in range(PARTITIONS)])
            self._client.flush()
        except Abortable as error:
            self._abort(str(error))
        else:
            self._abort("junk")

    def _abort(self, reason):
        self._client.abort()
        self._notes.write(aborted=self._count, reason=reason)


def main(make_client, output):
    """Be a copier, as the command line says; `make_client(bootstrap)` fences whoever was here before."""
    faulthandler.dump_traceback_later(START_SECONDS_MAX, exit=True)
    try:
        bootstrap, seed, name, path = sys.argv[1:]
        notes = Notes(path)
        Work(make_client(bootstrap), output, int(seed), name, notes).run()
    except BaseException:  # noqa: BLE001 - whatever it was, the end is the same
        traceback.print_exc()
        os._exit(1)
