"""Rules are added and removed, and the broker restarts: decisions always follow from the remaining rules."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from pipeline_broker.security.acl import AclFilter, AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.security.acls import Acls
from pipeline_broker.security.authorizer import Authorizer
from tests.security.test_authorizer import ALICE, ANY_RULE, BOB, HOST, OPERATIONS, TOPIC, bindings, covers, model, names

ROOT = "User:root"
STEPS = 25
EXAMPLES = 60
filters = st.builds(
    AclFilter,
    st.sampled_from([ResourceType.ANY, TOPIC]),
    st.none() | names | st.just("*"),
    st.sampled_from([PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from([None, None, "User:alice", "User:*"]),
    st.sampled_from([None, None, HOST, "*"]),
    st.sampled_from([AclOperation.ANY, AclOperation.ANY, AclOperation.READ, AclOperation.ALL]),
    st.sampled_from(PermissionType).filter(bool),
)


def means(wanted, each):
    """Return whether a filter matches a rule, spelled out."""
    pairs = [
        (wanted.resource_type, ResourceType.ANY, each.resource_type),
        (wanted.principal, None, each.principal),
        (wanted.host, None, each.host),
        (wanted.operation, AclOperation.ANY, each.operation),
        (wanted.permission, PermissionType.ANY, each.permission),
    ]
    if any(asked not in (everything, own) for asked, everything, own in pairs):
        return False
    name = wanted.resource_name
    if wanted.pattern_type is PatternType.MATCH:
        return name is None or covers(each, each.resource_type, name)
    return name in (None, each.resource_name) and wanted.pattern_type in (PatternType.ANY, each.pattern_type)


class RulesOverRestarts(RuleBasedStateMachine):
    """The rules, the records on disk, and a set of rules as the model."""

    added = Bundle("added")

    def __init__(self):
        super().__init__()
        self.acls = Acls()
        self.disk = {}
        self.expected = set()

    def _write(self, write):
        for record in write.records:  # keep the last record of each key, as compaction does
            self.disk[record.key] = record.value
        self.acls.durable(write)

    @rule(target=added, some=st.lists(bindings, min_size=1, max_size=3))
    def add(self, some):
        self._write(self.acls.add(some))
        self.expected |= set(some)
        return multiple(*some)

    @rule(one=consumes(added))
    def remove_one(self, one):
        self._write(self.acls.remove([one]))
        self.expected.discard(one)

    @rule(wanted=filters)
    def remove_by_filter(self, wanted):
        found = self.acls.matching(wanted)
        assert found == sorted(each for each in self.expected if means(wanted, each))
        self._write(self.acls.remove(found))
        self.expected -= set(found)

    @rule()
    def restart(self):
        self.acls = Acls()
        for key, value in self.disk.items():
            self.acls.replay(key, value)

    @rule(
        principal=st.sampled_from([ALICE, BOB]),
        operation=st.sampled_from(OPERATIONS),
        name=names,
        everyone=st.booleans(),
    )
    def decide(self, principal, operation, name, everyone):
        authorizer = Authorizer(self.acls, [ROOT], allow_everyone=everyone)
        decided = authorizer.is_allowed(principal, HOST, operation, TOPIC, name)
        assert decided == model(self.expected, principal, HOST, operation, TOPIC, name, everyone=everyone)

    @invariant()
    def the_rules_are_those_that_were_added_and_not_removed(self):
        assert self.acls.matching(ANY_RULE) == sorted(self.expected)


TestRulesOverRestarts = RulesOverRestarts.TestCase
TestRulesOverRestarts.settings = settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
