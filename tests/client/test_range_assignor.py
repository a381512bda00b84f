from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.client.range_assignor import assign_ranges


def test_the_first_members_get_one_partition_more_in_every_topic():
    found = assign_ranges({"b": ["t", "u"], "a": ["u", "t"]}, {"t": 3, "u": 3})
    assert found == {"a": [("t", 0), ("t", 1), ("u", 0), ("u", 1)], "b": [("t", 2), ("u", 2)]}


def test_an_unknown_topic_is_not_assigned():
    assert assign_ranges({"a": ["t"]}, {}) == {"a": []}


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.lists(st.sampled_from("tuv"), unique=True), min_size=1),
    st.dictionaries(st.sampled_from("tuv"), st.integers(0, 9)),
)
def test_every_subscribed_partition_has_one_subscriber_as_owner(subscriptions, partitions):
    found = assign_ranges(subscriptions, partitions)
    owned = [(partition, member) for member, given in found.items() for partition in given]
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    assert sorted(partition for partition, _ in owned) == sorted(
        (topic, number) for topic in wanted for number in range(partitions.get(topic, 0))
    )
    assert all(partition[0] in subscriptions[member] for partition, member in owned)
    for topic in wanted:
        counts = [sum(it[0] == topic for it in found[member]) for member in found if topic in subscriptions[member]]
        assert max(counts) - min(counts) <= 1
