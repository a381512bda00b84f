"""Requests about client quotas, drawn by Hypothesis; what is set is never reached, so nobody is throttled."""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline_broker.wire.messages.configs.alter_client_quotas import AlterClientQuotasRequest
from pipeline_broker.wire.messages.configs.describe_client_quotas import DescribeClientQuotasRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.data_requests import Ask, ask

EXACT, DEFAULT, ANY = range(3)
ENOUGH = 1e9
entities = st.sampled_from(
    [
        [("user", "ann")],
        [("user", "bob")],
        [("user", None)],
        [("client-id", "app")],
        [("client-id", None)],
        [("user", "ann"), ("client-id", "app")],
        [("user", "ann"), ("client-id", None)],
        [("user", None), ("client-id", None)],
        [("ip", "10.1.2.3")],
        [("ip", None)],
    ]
)
strange_entities = st.sampled_from(
    [
        [],
        [("user", "")],
        [("group", "g")],
        [("user", "ann"), ("user", "bob")],
        [("ip", "10.1.2.3"), ("user", "ann")],
        [("ip", "no such address.")],
        [("ip", "")],
    ]
)
operations = st.sampled_from(
    [
        ("producer_byte_rate", ENOUGH),
        ("consumer_byte_rate", 2 * ENOUGH),
        ("request_percentage", ENOUGH + 0.5),
        ("controller_mutation_rate", ENOUGH + 0.25),
        ("connection_creation_rate", ENOUGH),
        ("producer_byte_rate", None),
        ("request_percentage", None),
        ("connection_creation_rate", None),
        ("no_such_quota", None),
    ]
)
strange_operations = st.sampled_from(
    [
        ("producer_byte_rate", 0.0),
        ("producer_byte_rate", -1.0),
        ("consumer_byte_rate", ENOUGH + 0.5),
        ("producer_byte_rate", 1e30),
        ("connection_creation_rate", 2.0**31),
        ("no_such_quota", ENOUGH),
    ]
)


@st.composite
def alter_client_quotas(draw: st.DrawFn, version: int) -> Ask:
    altered = AlterClientQuotasRequest
    entries = []
    for entity in draw(st.lists(entities | entities | strange_entities, min_size=1, max_size=4)):
        ops = draw(st.lists(operations | operations | operations | strange_operations, max_size=3))
        entries.append(
            altered.EntryData(
                [altered.EntityData(kind, name) for kind, name in entity],
                [altered.OpData(key, 0.0 if value is None else value, value is None) for key, value in ops],
            )
        )
    request = AlterClientQuotasRequest(entries, validate_only=draw(st.sampled_from([False, False, True])))
    return Ask(version, lambda _side: request, text=repr(request), changes_quotas=True)


@st.composite
def describe_client_quotas(draw: st.DrawFn, version: int) -> Ask:
    names = {EXACT: ["ann", "app", "10.1.2.3", "nobody"], DEFAULT: [None], ANY: [None]}
    components = []
    for kind in draw(st.lists(st.sampled_from(["user", "client-id", "ip", "user", "client-id"]), max_size=2)):
        match = draw(st.sampled_from([EXACT, EXACT, DEFAULT, ANY]))
        components.append((kind, match, draw(st.sampled_from(names[match]))))
    strange = draw(
        st.sampled_from(
            [None] * 6
            + [("user", EXACT, None), ("user", ANY, "ann"), ("ip", DEFAULT, "x"), ("", ANY, None), ("user", 9, None)]
            + [("group", ANY, None)]
        )
    )
    if strange is not None:
        components = [strange]
    wanted = [DescribeClientQuotasRequest.ComponentData(*component) for component in components]
    return ask(version, DescribeClientQuotasRequest(wanted, draw(st.booleans())))


QUOTA_REQUESTS = {
    ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas,
}
