"""Kafka's eight levels of quotas."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.quotas.entities import CLIENT_ID, USER, entity_of
from pipeline_broker.quotas.limits import Limits, Measured

NAMES = st.sampled_from(["a", "b", None])
ABSENT = "absent"


def entity(user=ABSENT, client_id=ABSENT):
    parts = [(USER, user), (CLIENT_ID, client_id)]
    return entity_of((kind, name) for kind, name in parts if name != ABSENT)


PRECEDENCE = [
    (entity("u", "c"), Measured("u", "c")),
    (entity("u", None), Measured("u", "c")),
    (entity("u"), Measured("u", None)),
    (entity(None, "c"), Measured("u", "c")),
    (entity(None, None), Measured("u", "c")),
    (entity(None), Measured("u", None)),
    (entity(client_id="c"), Measured(None, "c")),
    (entity(client_id=None), Measured(None, "c")),
]


def test_each_level_applies_if_all_before_it_are_unset():
    for level, (_, measured) in enumerate(PRECEDENCE):
        quotas = {which: float(number) for number, (which, _) in enumerate(PRECEDENCE) if number >= level}
        assert Limits(quotas).find("u", "c") == (measured, level), level


def test_without_quotas_there_is_no_limit():
    assert not Limits({})
    assert Limits({}).find("u", "c") is None


def test_quotas_of_other_clients_do_not_apply():
    limits = Limits({entity("u", "c"): 1.0, entity(client_id="d"): 2.0})
    assert limits.find("u", "x") is None
    assert limits.find("x", "c") is None
    assert limits.find("x", "d") == (Measured(None, "d"), 2.0)


@given(
    st.dictionaries(
        st.one_of(
            st.builds(entity, NAMES, NAMES),
            st.builds(entity, NAMES),
            st.builds(lambda name: entity(ABSENT, name), NAMES),
        ),
        st.floats(1, 1e6),
    ),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["a", "b", "c"]),
)
def test_the_first_level_with_a_quota_applies(quotas, user, client_id):
    levels = [
        (entity(user, client_id), Measured(user, client_id)),
        (entity(user, None), Measured(user, client_id)),
        (entity(user), Measured(user, None)),
        (entity(None, client_id), Measured(user, client_id)),
        (entity(None, None), Measured(user, client_id)),
        (entity(None), Measured(user, None)),
        (entity(ABSENT, client_id), Measured(None, client_id)),
        (entity(ABSENT, None), Measured(None, client_id)),
    ]
    found = next(((measured, quotas[which]) for which, measured in levels if which in quotas), None)
    assert Limits(quotas).find(user, client_id) == found
