"""docs/reference/metrics.md names what a broker shows, neither more nor less."""

import re
from pathlib import Path

from tests.metrics_scrape import scrape_in_use

ROOT = Path(__file__).parents[2]
NAME_IN_KAFKA = r"[A-Z]\w+|[a-z]+(?:-[a-z]+)*"
WITHOUT_VALUE = {
    "kafka_network_requestchannel_controlplanerequestqueuesize",  # no control plane
    "pipeline_broker_failed_logins_total",  # nobody was refused
    "pipeline_broker_denials_total",
    "pipeline_broker_standby",  # of a standby only
    "pipeline_broker_up",  # of a cluster only, as the next one
    "pipeline_broker_ends_total",
}
"""A metric without a value has no lines."""
DOCUMENT = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")


def test_the_metrics_of_a_broker_in_use_are_those_of_the_document(broker_process, tmp_path):
    store = ("--store", f"file://{tmp_path}/store", "--wal", "objects")
    broker = broker_process(arguments=["--metrics", "0", *store])
    scraped = scrape_in_use(broker)

    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", scraped, re.MULTILINE))
    names_in_kafka = dict(re.findall(rf"^# HELP (\S+) .*\(({NAME_IN_KAFKA})\)\.$", scraped, re.MULTILINE))

    documented = dict(re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram|summary) \|", DOCUMENT, re.MULTILINE))
    in_kafka = dict(re.findall(rf"^\| `(\w+)` .*\| ({NAME_IN_KAFKA}) \|$", DOCUMENT, re.MULTILINE))
    assert kinds == {name: kind for name, kind in documented.items() if name not in WITHOUT_VALUE}
    assert names_in_kafka == {name: in_kafka[name] for name in in_kafka if name not in WITHOUT_VALUE}
    assert documented.keys() >= WITHOUT_VALUE


def test_what_an_operator_watches_is_a_metric_of_the_document():
    watched = set(
        re.findall(r"\b(?:kafka|pipeline_broker)_\w+", (ROOT / "docs/guides/operating.md").read_text(encoding="utf-8"))
    )
    assert len(watched) > 5
    assert watched <= set(re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE))
