"""docs/metrics.md names what a broker shows, neither more nor less."""

import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME_IN_KAFKA = r"[A-Z]\w+|[a-z]+(?:-[a-z]+)*"
WITHOUT_VALUE = {
    "kafka_network_requestchannel_controlplanerequestqueuesize",  # no control plane
}
"""A metric without a value has no lines."""
DOCUMENT = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")


def test_the_metrics_of_a_broker_in_use_are_those_of_the_document(broker_process, tmp_path):
    store = ("--store", f"file://{tmp_path}/store", "--wal", "objects")
    broker = broker_process(arguments=["--metrics", "0", *store])
    (address,) = re.findall(r"^metrics on (http://\S+)$", broker.stderr, re.MULTILINE)
    load = [sys.executable, "-m", "pipeline_broker", "load", broker.bootstrap, "--seconds", "0.1"]
    commit = [sys.executable, "-m", "pipeline_broker", "groups", "reset-offsets", "billing", "--topic", "load"]
    commit += ["--to", "beginning", "--execute"]
    with socket.create_connection((broker.host, broker.port)):  # there are metrics of open connections too
        subprocess.run(load, cwd=ROOT, check=True, capture_output=True)
        subprocess.run([*commit, "-b", broker.bootstrap], cwd=ROOT, check=True, capture_output=True)
        with urllib.request.urlopen(address) as response:
            scraped = response.read().decode()

    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", scraped, re.MULTILINE))
    names_in_kafka = dict(re.findall(rf"^# HELP (\S+) .*\(({NAME_IN_KAFKA})\)\.$", scraped, re.MULTILINE))

    documented = dict(re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram|summary) \|", DOCUMENT, re.MULTILINE))
    in_kafka = dict(re.findall(rf"^\| `(\w+)` .*\| ({NAME_IN_KAFKA}) \|$", DOCUMENT, re.MULTILINE))
    assert kinds == {name: kind for name, kind in documented.items() if name not in WITHOUT_VALUE}
    assert names_in_kafka == {name: in_kafka[name] for name in in_kafka if name not in WITHOUT_VALUE}
    assert documented.keys() >= WITHOUT_VALUE
