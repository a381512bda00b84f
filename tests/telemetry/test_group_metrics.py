"""A scrape shows committed offsets and lag of groups, within a bound."""

import attrs
from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.base.steps import finished
from pipeline_broker.broker.group_views import GroupOffsets, OffsetView
from pipeline_broker.telemetry import group_metrics
from pipeline_broker.telemetry.exposition import LABEL_CHARACTERS_MAX, render
from pipeline_broker.telemetry.group_metrics import PARTITIONS_MAX, group_families


def scraped(groups):
    """Samples by name and labels, as Prometheus reads them."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(finished(render(group_families(groups))).decode())
        for sample in family.samples
    }


def offset(topic, partition, committed, end):
    return OffsetView(topic=topic, partition=partition, committed=committed, end=end)


def group_of(name, members, offsets):
    def read():
        yield
        return offsets

    return GroupOffsets(name, members, len(offsets), read)


def test_offsets_and_lag_have_the_names_of_kafka_exporter():
    group = group_of("billing", 2, [offset("orders", 0, 7, 10), offset("orders", 1, 5, 5), offset("pay", 0, 1, 9)])
    assert scraped([group]) == {
        ("kafka_consumergroup_members", "billing"): 2,
        ("kafka_consumergroup_current_offset", "billing", "orders", "0"): 7,
        ("kafka_consumergroup_current_offset", "billing", "orders", "1"): 5,
        ("kafka_consumergroup_current_offset", "billing", "pay", "0"): 1,
        ("kafka_consumergroup_current_offset_sum", "billing", "orders"): 12,
        ("kafka_consumergroup_current_offset_sum", "billing", "pay"): 1,
        ("kafka_consumergroup_lag", "billing", "orders", "0"): 3,
        ("kafka_consumergroup_lag", "billing", "orders", "1"): 0,
        ("kafka_consumergroup_lag", "billing", "pay", "0"): 8,
        ("kafka_consumergroup_lag_sum", "billing", "orders"): 3,
        ("kafka_consumergroup_lag_sum", "billing", "pay"): 8,
        ("pipeline_broker_consumergroup_partitions_left_out",): 0,
    }


def test_a_deleted_partition_has_no_lag():
    found = scraped([group_of("billing", 0, [offset("gone", 0, 7, None)])])
    assert found["kafka_consumergroup_current_offset", "billing", "gone", "0"] == 7
    assert not any("lag" in name for name, *_ in found)


def test_omitted_groups_are_counted_and_so_are_smaller_ones_after_them():
    large = group_of("a", 0, [offset("t", number, 1, 1) for number in range(PARTITIONS_MAX)])
    found = scraped([large, attrs.evolve(large, group_id="b", partitions=3, read=None)])
    assert found["pipeline_broker_consumergroup_partitions_left_out",] == 3
    assert {labels[0] for name, *labels in found if name == "kafka_consumergroup_lag"} == {"a"}


def test_groups_without_offsets_are_bounded_too(monkeypatch):
    monkeypatch.setattr(group_metrics, "GROUPS_MAX", 3)
    found = scraped(
        [None, *(group_of(f"g{number}", 1, []) for number in range(5)), group_of("h", 1, [offset("t", 0, 1, 1)])]
    )
    assert {labels[0] for name, *labels in found if name == "kafka_consumergroup_members"} == {"g0", "g1", "g2"}
    assert found["pipeline_broker_consumergroup_partitions_left_out",] == 1


def test_a_long_name_is_cut_in_every_line():
    """A group of 32 KB has a line for each of its partitions."""
    group = group_of("g" * 32_000, 1, [offset("t", number, 1, 1) for number in range(100)])
    text = finished(render(group_families([group])))
    assert len(text) < 300 * (LABEL_CHARACTERS_MAX + 200)
