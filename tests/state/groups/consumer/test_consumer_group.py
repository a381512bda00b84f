"""Queries of a consumer group after arbitrary updates, compared with a model that recomputes them from all members."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.consumer.member import ClassicMetadata, MemberMetadata
from pipeline_broker.state.groups.consumer.updates import GroupEpoch, ResolvedRegex, Subject
from pipeline_broker.state.groups.modern.member import NO_ASSIGNMENT, REMOVED, CurrentAssignment, MemberState
from pipeline_broker.state.groups.modern.updates import TargetEpoch, Update

MEMBERS, TOPICS, REGEXES, PROTOCOLS = "abc", "tuv", ("t.*", "u"), ("range", "sticky")
names = st.frozensets(st.sampled_from(TOPICS))


@st.composite
def member_updates(draw):
    member_id = draw(st.sampled_from(MEMBERS))
    protocols = draw(st.lists(st.sampled_from(PROTOCOLS), unique=True))
    metadata = MemberMetadata(
        instance_id=draw(st.sampled_from([None, f"i-{member_id}"])),
        topic_names=draw(names),
        topic_regex=draw(st.sampled_from(["", *REGEXES])),
        server_assignor=draw(st.sampled_from([None, "uniform", "range"])),
        classic=draw(st.sampled_from([None, ClassicMetadata(1, tuple((name, b"") for name in protocols))])),
    )
    return Update(Subject.MEMBER, member_id, draw(st.sampled_from([metadata, metadata, None])))


@st.composite
def current_updates(draw):
    """Assignments in which each member owns only partitions of its own number."""
    member_id = draw(st.sampled_from(MEMBERS))
    owned = {MEMBERS.index(member_id): 2}
    topics = draw(st.lists(st.sampled_from([b"t", b"u"]), unique=True))
    count = draw(st.integers(0, len(topics)))
    current = CurrentAssignment(
        member_epoch=draw(st.integers(1, 2)),
        state=draw(st.sampled_from([MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS])),
        assigned=dict.fromkeys(topics[:count], owned),
        revoking=dict.fromkeys(topics[count:], owned),
    )
    return Update(Subject.CURRENT, member_id, draw(st.sampled_from([current, current, None])))


UPDATES = st.one_of(
    member_updates(),
    current_updates(),
    st.builds(
        Update,
        st.just(Subject.TARGET),
        st.sampled_from(MEMBERS),
        st.none() | st.dictionaries(st.sampled_from([b"t", b"u"]), st.frozensets(st.integers(0, 2))),
    ),
    st.builds(
        Update,
        st.just(Subject.REGEX),
        st.sampled_from(REGEXES),
        st.none() | st.builds(ResolvedRegex, names, st.just(0), st.just(0)),
    ),
    st.builds(Update, st.just(Subject.GROUP_EPOCH), st.just(""), st.none() | st.just(GroupEpoch(2, 77))),
    st.builds(Update, st.just(Subject.TARGET_EPOCH), st.just(""), st.none() | st.just(TargetEpoch(2, 99))),
)


def check(group, model):
    """Compare a group with a model that maps subject and name to the last value."""
    metadata = {name: value for (subject, name), value in model.items() if subject is Subject.MEMBER}
    current = {name: value for (subject, name), value in model.items() if subject is Subject.CURRENT}
    resolved = {name: value for (subject, name), value in model.items() if subject is Subject.REGEX}
    target = {name: value for (subject, name), value in model.items() if subject is Subject.TARGET}
    said = list(metadata.values())
    assert set(group.members) == set(metadata)
    assert group.is_empty == group.is_deletable_unasked == (not metadata)
    matched = [resolved[it.topic_regex].topics for it in said if it.topic_regex in resolved]
    topics = frozenset().union(*(it.topic_names for it in said), *matched)
    assert group.subscribed_topics == topics
    assert [group.is_subscribed_to(topic) for topic in TOPICS] == [topic in topics for topic in TOPICS]
    assert set(group.subscribed_regexes) == {it.topic_regex for it in said} - {""}
    for regex in REGEXES:
        assert group.regex_members(regex) == sum(it.topic_regex == regex for it in said)
    for it in said:
        also = resolved[it.topic_regex].topics if it.topic_regex in resolved else frozenset()
        assert group.topics_of(it) == it.topic_names | also
    assignors = Counter(it.server_assignor for it in said if it.server_assignor is not None)
    if assignors:
        assert assignors[group.preferred_assignor] == max(assignors.values())
    else:
        assert group.preferred_assignor is None
    classic = [{name for name, _ in it.classic.protocols} for it in said if it.classic is not None]
    assert group.classic_members == len(classic)
    for name in PROTOCOLS:
        assert group.supports_classic({name: b""}) == all(name in each for each in classic)
    for number, member_id in enumerate(MEMBERS):
        found = group.static_member(f"i-{member_id}")
        is_static = member_id in metadata and metadata[member_id].instance_id is not None
        assert (None if found is None else found.member_id) == (member_id if is_static else None)
        held = current.get(member_id, NO_ASSIGNMENT)
        assert group.target_of(member_id) == target.get(member_id, {})
        for topic_id in (b"t", b"u"):
            owns = topic_id in held.assigned or topic_id in held.revoking
            assert group.owner(topic_id, number) == (member_id if owns else None)
    epoch, target_epoch = model.get((Subject.GROUP_EPOCH, "")), model.get((Subject.TARGET_EPOCH, ""))
    assert (group.epoch, group.metadata_hash) == ((0, 0) if epoch is None else (2, 77))
    assert (group.assignment_epoch, group.assigned_ms) == ((0, 0) if target_epoch is None else (2, 99))
    is_stable = all(current.get(each, NO_ASSIGNMENT).is_reconciled_to(group.assignment_epoch) for each in metadata)
    expected = "Stable" if is_stable else "Reconciling"
    expected = "Assigning" if group.epoch > group.assignment_epoch else expected
    assert group.state_name == (expected if metadata else "Empty")


def apply(model, update):
    key = update.subject, update.name
    if update.subject is Subject.CURRENT:
        if (Subject.MEMBER, update.name) not in model:
            if update.value is None:
                return
            model[Subject.MEMBER, update.name] = MemberMetadata()
        model[key] = REMOVED if update.value is None else update.value
    elif update.value is None:
        model.pop(key, None)
        if update.subject is Subject.MEMBER:
            model.pop((Subject.CURRENT, update.name), None)
    else:
        model[key] = update.value


@given(st.lists(UPDATES, max_size=25))
def test_queries_match_a_model_after_any_updates(updates):
    group, model = ConsumerGroup("g"), {}
    for update in updates:
        before = group.copy()
        check(before, model)
        group.apply(update)
        check(before, model)
        apply(model, update)
        check(group, model)
    anew = ConsumerGroup("g")
    for (subject, name), value in sorted(model.items(), key=lambda each: each[0][0] is Subject.CURRENT):
        anew.apply(Update(subject, name, value))
    assert group.memory.count == group.copy().memory.count == anew.memory.count
    for subject, name in list(model):
        group.apply(Update(subject, name, None))
    for name in MEMBERS:
        group.apply(Update(Subject.MEMBER, name, None))
    assert group.memory.count == 0
    assert group.delete_offsets_error() is ErrorCode.NONE
