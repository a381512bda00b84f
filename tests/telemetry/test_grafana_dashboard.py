"""Every query of the Grafana dashboard finds series in a scrape."""

import json
import re

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import ROOT, start_broker
from tests.metrics_scrape import scrape_in_use

DASHBOARD = json.loads((ROOT / "examples" / "grafana" / "pipeline-broker.json").read_text(encoding="utf-8"))
QUERIES = [
    (panel["title"], target["expr"], target["legendFormat"])
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
]
VARIABLES = {"$__rate_interval": "1m", "$instance": ".*"}
ADDED_BY_PROMETHEUS = {"instance", "job"}


def selectors_of(expression):
    """Every selector of a query, as pairs of a name and its matchers."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
        return
    for part in ("lhs", "rhs", "expr", "vector_selector", "vs"):
        inner = getattr(expression, part, None)
        if inner is not None:
            yield from selectors_of(inner)
    for argument in getattr(expression, "args", None) or ():
        yield from selectors_of(argument)


def parsed(query):
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return promql_parser.parse(query)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """The labels of every series of a broker in use, by name."""
    broker = start_broker(tmp_path_factory.mktemp("broker"), arguments=["--metrics", "0"])
    try:
        scraped = scrape_in_use(broker)
    finally:
        broker.stop()
        broker.process.stdout.close()
    found = {}
    for family in text_string_to_metric_families(scraped):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


@pytest.mark.parametrize(
    ("panel", "query", "legend"), QUERIES, ids=[f"{title}: {legend}" for title, _, legend in QUERIES]
)
def test_every_query_finds_series_with_the_labels_that_it_names(samples, panel, query, legend):
    selectors = list(selectors_of(parsed(query)))
    assert selectors
    for selector in selectors:
        series = [labels for labels in samples[selector.name] if matches(labels, selector.matchers.matchers)]
        assert series, f"{panel}: {selector.name} has no such series"
        for label in re.findall(r"\{\{(\w+)\}\}", legend):
            assert any(label in labels for labels in samples[selector.name]), f"{panel}: {selector.name} has no {label}"


def matches(labels, matchers):
    for matcher in matchers:
        if matcher.name in ADDED_BY_PROMETHEUS or matcher.op == promql_parser.MatchOp.NotEqual or matcher.value == ".*":
            continue
        if labels.get(matcher.name, "") != matcher.value:
            return False
    return True


def test_the_panels_do_not_overlap_and_have_distinct_ids():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert all(x < 24 for x, _ in cells)
