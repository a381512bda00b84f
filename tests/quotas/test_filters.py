"""Filters of DescribeClientQuotas, compared with a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.quotas.entities import QuotaError, entity_of
from pipeline_broker.quotas.filters import Component, Match, check_components, matches

TYPES = ["user", "client-id", "ip"]
NAMES = st.sampled_from(["a", "b", None])
COMPONENTS = st.dictionaries(
    st.sampled_from(TYPES), st.tuples(st.sampled_from(Match), st.sampled_from(["a", "b"])), max_size=3
)


@given(st.dictionaries(st.sampled_from(TYPES), NAMES, min_size=1), COMPONENTS, st.booleans())
def test_an_entity_is_listed_when_every_component_fits(parts, wanted, strict):
    components = [
        Component(kind, match, name if match is Match.EXACT else None) for kind, (match, name) in wanted.items()
    ]
    fits = {
        Match.EXACT: lambda kind, name: parts[kind] == name,
        Match.DEFAULT: lambda kind, _: parts[kind] is None,
        Match.ANY: lambda *_: True,
    }
    expected = all(kind in parts and fits[match](kind, name) for kind, (match, name) in wanted.items())
    if strict:
        expected = expected and set(parts) == set(wanted)
    assert matches(entity_of(parts.items()), components, strict=strict) is expected


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([Component("", Match.ANY)], ErrorCode.INVALID_REQUEST),
        ([Component("user", Match.ANY), Component("user", Match.DEFAULT)], ErrorCode.INVALID_REQUEST),
        ([Component("group", Match.ANY)], ErrorCode.UNSUPPORTED_VERSION),
        ([Component("user", Match.EXACT)], ErrorCode.INVALID_REQUEST),
        ([Component("user", Match.DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([Component("user", Match.ANY, "a")], ErrorCode.INVALID_REQUEST),
        ([Component("user", 3)], ErrorCode.INVALID_REQUEST),
        ([Component("ip", Match.ANY), Component("user", Match.ANY)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_filters_are_rejected(components, code):
    with pytest.raises(QuotaError) as caught:
        check_components(components)
    assert caught.value.code is code


@pytest.mark.parametrize("match", [Match.DEFAULT, Match.ANY])
def test_addresses_may_be_filtered_alone(match):
    check_components([Component("ip", match)])


def test_errors_of_match_types_name_the_fault():
    with pytest.raises(QuotaError, match="MATCH_TYPE_EXACT, but set match string to null"):
        check_components([Component("user", Match.EXACT)])
    with pytest.raises(QuotaError, match="MATCH_TYPE_DEFAULT, but also specified a match string"):
        check_components([Component("user", Match.DEFAULT, "a")])


def test_valid_filters_are_accepted():
    check_components([Component("user", Match.EXACT, "a"), Component("client-id", Match.ANY)])
    check_components([])
