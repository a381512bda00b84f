"""A scrape shows the requests to an object store, its journal and its lease."""

from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.base.steps import finished
from pipeline_broker.broker.store_view import CacheState, StoreView
from pipeline_broker.log.object_journal.journal_state import JournalState
from pipeline_broker.objects.lease_keeper import LeaseState
from pipeline_broker.objects.store_around import Operation
from pipeline_broker.objects.store_figures import StoreFigures
from pipeline_broker.objects.watched_store import EndedRequest, Outcome
from pipeline_broker.telemetry.exposition import render
from pipeline_broker.telemetry.store_metrics import store_families

MS = 1_000_000


def scraped(journal=None):
    figures = StoreFigures(lambda: 9_000 * MS)
    for operation, outcome, took_ms in (
        (Operation.CREATE, Outcome.DONE, 51),
        (Operation.CREATE, Outcome.DONE, 49),
        (Operation.CREATE, Outcome.UNSURE, 30_000),
        (Operation.CREATE, Outcome.EXISTS, 40_000),
        (Operation.READ, Outcome.MISSING, 2),
        (Operation.LIST, Outcome.UNAVAILABLE, 1),
    ):
        figures.add(EndedRequest(operation, "x", 10, 3, 0, took_ms * MS, outcome, "why"))
    text = finished(render(store_families(StoreView(figures.totals(), CacheState(7, 2, 1 << 20), journal)))).decode()
    return {
        (sample.name.removeprefix("pipeline_broker_"), *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_are_shown_by_outcome_and_duration():
    found = scraped()
    create = (("kind", "put"), ("operation", "create"))
    assert found["store_requests_total", *create, ("outcome", "done")] == 2
    assert found["store_requests_total", *create, ("outcome", "unsure")] == 1
    assert found["store_unsure_total",] == 1
    assert found["store_retries_total",] == 1
    assert (found["store_sent_bytes_total",], found["store_received_bytes_total",]) == (60, 18)
    bounds = {bound: found["store_request_seconds_bucket", ("kind", "put"), ("le", bound)] for bound in
              ("0.025", "0.05", "0.1", "30", "+Inf")}  # fmt: skip
    assert bounds == {"0.025": 0, "0.05": 1, "0.1": 2, "30": 2, "+Inf": 3}
    assert found["store_request_seconds_count", ("kind", "put")] == 3
    assert found["store_request_seconds_sum", ("kind", "put")] == 40.1
    assert (found["store_is_out",], found["store_outage_seconds_total",]) == (1, 18.999)
    assert [found[f"store_cache_{name}",] for name in ("hits_total", "misses_total", "bytes")] == [7, 2, 1 << 20]


def test_a_journal_in_the_store_is_shown_with_its_lease():
    assert not any(name[0].startswith("journal") for name in scraped())
    found = scraped(JournalState(3, 12, 5_000, 2, True, LeaseState(False, 4.5, False)))
    shown = {name[0].removeprefix("journal_"): value for name, value in found.items() if name[0].startswith("journal")}
    assert shown == {
        "generation": 3,
        "unarchived_slots": 12,
        "unarchived_bytes": 5_000,
        "slots_in_flight": 2,
        "is_fenced": 1,
        "lease_is_held": 0,
        "lease_age_seconds": 4.5,
    }
