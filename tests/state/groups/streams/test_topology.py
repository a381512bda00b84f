"""Topologies of streams groups: the checks of a member's topology, and the partition counts of internal topics."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.streams.internal_topics import StreamsStatus, TopologyProblem, configure
from pipeline_broker.state.groups.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
    TopologyError,
    check_topology,
)


def internal(name, partitions=0, replication_factor=0, **configs):
    return TopicInfo(name, partitions, replication_factor, tuple(configs.items()))


def word_count(**changes):
    """Return a topology that repartitions lines by word and counts them."""
    first = Subtopology("0", source_topics=("lines",), repartition_sink_topics=("words",))
    second = Subtopology(
        "1", repartition_source_topics=(internal("words"),), state_changelog_topics=(internal("counts", cleanup="x"),)
    )
    return Topology(0, (first._replace(**changes), second))


def configured(*subtopologies, **existing):
    return configure(Topology(3, subtopologies), existing.get)


def invalid(*subtopologies, **existing):
    with pytest.raises(TopologyError) as raised:
        configured(*subtopologies, **existing)
    assert raised.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    return raised.value.message


def problem(*subtopologies, **existing):
    found = configured(*subtopologies, **existing)
    assert found.subtopologies is None
    assert found.topics_to_create == ()
    return found.problem


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"source_topic_regex": ("a.*",)}, ErrorCode.INVALID_REQUEST, "Regular expressions"),
        ({"state_changelog_topics": (internal("log", 2),)}, ErrorCode.STREAMS_INVALID_TOPOLOGY, "topic log must have"),
        ({"id": "1"}, ErrorCode.STREAMS_INVALID_TOPOLOGY, "an id of its own"),
        (
            {"copartition_groups": (CopartitionGroup((1,)),)},
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "subtopology 0 names topic 1 of 1",
        ),
        (
            {"copartition_groups": (CopartitionGroup((-1,)),)},
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "names topic -1 of 1",
        ),
        (
            {"copartition_groups": (CopartitionGroup((0,), (), (0,)),)},
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "names topic 0 of 0",
        ),
    ],
)
def test_a_contradictory_topology_is_rejected(changes, code, message):
    with pytest.raises(TopologyError, match=message) as raised:
        check_topology(word_count(**changes))
    assert raised.value.code == code


def test_a_negative_epoch_is_rejected():
    with pytest.raises(TopologyError, match="non-negative"):
        check_topology(word_count()._replace(epoch=-1))


@pytest.mark.parametrize(
    ("subtopologies", "message"),
    [
        (tuple(Subtopology(str(number)) for number in range(501)), "501 subtopologies, but 500"),
        ((Subtopology("0", ("in",) * 5001),), "5001 names of topics, but 5000"),
        ((Subtopology("0", ("in",), copartition_groups=(CopartitionGroup((0,) * 4999),)),), "5001 names"),
    ],
)
def test_a_topology_has_a_maximum_size(subtopologies, message):
    with pytest.raises(TopologyError, match=message) as raised:
        check_topology(Topology(0, subtopologies))
    assert raised.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_topology_of_the_maximum_size_is_accepted():
    parts = [Subtopology(str(number), ("in",)) for number in range(499)]
    last = Subtopology("499", ("in",), copartition_groups=(CopartitionGroup((0,) * 4499),))
    check_topology(Topology(0, (*parts, last)))


def test_a_topology_has_a_maximum_number_of_tasks():
    parts = [Subtopology(str(number), ("a",)) for number in range(3)]
    message = "The topology has 5001 tasks, but 5000 is the maximum."
    assert invalid(*parts, a=1667) == message
    assert configured(*parts, a=1666).problem is None


def test_a_valid_topology_is_accepted():
    check_topology(word_count(copartition_groups=(CopartitionGroup((0,)),)))


def test_a_topology_requires_sources_and_internal_topics():
    assert word_count().required_topics == {"lines", "words", "counts"}


def test_missing_internal_topics_get_the_partitions_of_the_source():
    found = configure(word_count(), {"lines": 4}.get)
    assert [(part.id, part.tasks, part.is_stateful) for part in found.subtopologies] == [
        ("0", 4, False),
        ("1", 4, True),
    ]
    assert found.topics_to_create == (internal("counts", 4, -1, cleanup="x"), internal("words", 4, -1))
    detail = "Internal topics are missing: counts, words"
    assert found.problem == TopologyProblem(StreamsStatus.MISSING_INTERNAL_TOPICS, detail)


def test_a_topology_with_all_topics_has_no_problem():
    found = configure(word_count(), {"lines": 4, "words": 4, "counts": 4}.get)
    assert (found.problem, found.topics_to_create) == (None, ())
    assert found.subtopologies[1].input_topics == {"words"}


def test_a_replication_factor_of_the_client_is_kept():
    part = Subtopology("0", ("in",), state_changelog_topics=(internal("log", 0, 3),))
    assert configured(part, **{"in": 1}).topics_to_create == (internal("log", 1, 3),)


def test_missing_sources_are_named_and_counted():
    part = Subtopology("0", ("e", "b", "a", "d", "c"))
    detail = "Source topics a, b, d and 1 additional topics are missing."
    assert problem(part, c=1) == TopologyProblem(StreamsStatus.MISSING_SOURCE_TOPICS, detail)


def test_three_missing_sources_are_all_named():
    assert problem(Subtopology("0", ("a", "b", "c"))).detail == "Source topics a, b, c are missing."


def test_an_existing_internal_topic_with_another_count_is_a_problem():
    detail = "Existing topic counts has different number of partitions: expected 4, found 3"
    found = configure(word_count(), {"lines": 4, "words": 4, "counts": 3}.get)
    assert found.problem == TopologyProblem(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)


def test_an_existing_repartition_topic_decides_the_number_of_tasks():
    found = configure(word_count(), {"lines": 4, "words": 7}.get)
    assert found.problem.detail == ("Existing topic words has different number of partitions: expected 4, found 7")


def test_the_largest_source_decides():
    first = Subtopology("0", ("a", "b"), repartition_sink_topics=("r",))
    second = Subtopology("1", ("c",), repartition_source_topics=(internal("r"),))
    found = configured(first, second, a=2, b=5, c=3)
    assert [part.tasks for part in found.subtopologies] == [5, 5]


def test_a_chain_of_repartition_topics_is_followed_in_any_order():
    third = Subtopology("2", repartition_source_topics=(internal("s"),))
    second = Subtopology("1", repartition_source_topics=(internal("r"),), repartition_sink_topics=("s",))
    first = Subtopology("0", ("a",), repartition_sink_topics=("r",))
    found = configured(third, second, first, a=6)
    assert [(part.id, part.tasks) for part in found.subtopologies] == [("0", 6), ("1", 6), ("2", 6)]


def test_a_loop_of_repartition_topics_is_invalid():
    first = Subtopology("0", repartition_source_topics=(internal("r"),), repartition_sink_topics=("s",))
    second = Subtopology("1", repartition_source_topics=(internal("s"),), repartition_sink_topics=("r",))
    assert "loops" in invalid(first, second)


def test_a_repartition_topic_without_a_writer_is_invalid():
    part = Subtopology("0", repartition_source_topics=(internal("r"),))
    assert "never used as a sink" in invalid(part)


def test_a_subtopology_without_sources_is_invalid():
    assert invalid(Subtopology("0")) == "No source topics found for subtopology 0"


def test_a_flexible_repartition_topic_gets_the_count_of_its_copartitioned_source():
    first = Subtopology("0", ("a",), repartition_sink_topics=("r",))
    group = CopartitionGroup((0,), (), (0,))
    second = Subtopology("1", ("b",), repartition_source_topics=(internal("r"),), copartition_groups=(group,))
    found = configured(first, second, a=2, b=5)
    assert [(topic.name, topic.partitions) for topic in found.topics_to_create] == [("r", 5)]


def test_a_fixed_repartition_topic_must_match_its_copartitioned_source():
    first = Subtopology("0", ("a",), repartition_sink_topics=("r",))
    group = CopartitionGroup((0,), (), (0,))
    second = Subtopology("1", ("b",), repartition_source_topics=(internal("r", 4),), copartition_groups=(group,))
    detail = (
        "Number of partitions [4] of repartition topic [r] doesn't match number of partitions [5] of the source topic."
    )
    assert problem(first, second, a=2, b=5) == TopologyProblem(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)


def test_copartitioned_sources_need_equal_counts():
    part = Subtopology("0", ("b", "a"), copartition_groups=(CopartitionGroup((0, 1)),))
    detail = "Following topics do not have the same number of partitions: [{a=2, b=3}]"
    assert problem(part, a=2, b=3) == TopologyProblem(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)


def test_flexible_repartition_topics_get_the_largest_count_of_their_group():
    first = Subtopology("0", ("a",), repartition_sink_topics=("r",))
    second = Subtopology("1", ("b",), repartition_sink_topics=("s",))
    group = CopartitionGroup((), (), (0, 1))
    topics = (internal("r"), internal("s"))
    third = Subtopology("2", repartition_source_topics=topics, copartition_groups=(group,))
    found = configured(first, second, third, a=2, b=5)
    assert [topic.partitions for topic in found.topics_to_create] == [5, 5]


def test_a_fixed_repartition_topic_decides_for_its_group():
    first = Subtopology("0", ("a",), repartition_sink_topics=("r", "s"))
    group = CopartitionGroup((), (), (0, 1))
    topics = (internal("r", 3), internal("s"))
    second = Subtopology("1", repartition_source_topics=topics, copartition_groups=(group,))
    found = configured(first, second, a=7)
    assert [topic.partitions for topic in found.topics_to_create] == [3, 3]


def test_differently_fixed_repartition_topics_are_a_problem():
    first = Subtopology("0", ("a",), repartition_sink_topics=("r", "s"))
    group = CopartitionGroup((), (), (0, 1))
    topics = (internal("r", 3), internal("s", 4))
    second = Subtopology("1", repartition_source_topics=topics, copartition_groups=(group,))
    detail = "Following topics do not have the same number of partitions: [{r=3, s=4}]"
    assert problem(first, second, a=7) == TopologyProblem(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)
