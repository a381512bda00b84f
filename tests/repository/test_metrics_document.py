"""docs/metrics.md names what a broker shows, neither more nor less."""

import re
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")


def test_the_metrics_of_a_broker_in_use_are_those_of_the_document(broker_process):
    broker = broker_process(arguments=["--metrics", "0"])
    (address,) = re.findall(r"^metrics on (http://\S+)$", broker.stderr, re.MULTILINE)
    load = [sys.executable, "-m", "pipeline_broker", "load", broker.bootstrap, "--seconds", "0.1"]
    subprocess.run(load, cwd=ROOT, check=True, capture_output=True)
    with urllib.request.urlopen(address) as response:
        scraped = response.read().decode()

    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", scraped, re.MULTILINE))
    names_in_kafka = dict(re.findall(r"^# HELP (\S+) .*\(([A-Z]\w+)\)\.$", scraped, re.MULTILINE))

    assert kinds == dict(re.findall(r"^\| `(\w+)` \| (counter|gauge|summary) \|", DOCUMENT, re.MULTILINE))
    assert names_in_kafka == dict(re.findall(r"^\| `(\w+)` .*\| ([A-Z]\w+) \|$", DOCUMENT, re.MULTILINE))
