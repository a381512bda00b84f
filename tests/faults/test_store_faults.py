"""Rules about requests to an object store, and a broker that loses nothing by them."""

import threading

import pytest

from pipeline_broker.faults.faults import Faults
from pipeline_broker.faults.faulty_store import FaultyStore
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule_text import parse_arguments, parse_rule
from pipeline_broker.faults.store_faults import StoreFaults
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.store import Changed, Exists, Missing, Unavailable, Unsure
from pipeline_broker.objects.store_around import Operation, StoreRequest

WAIT_SECONDS = 20


@pytest.fixture
def inner():
    return MemoryStore()


@pytest.fixture
def store(inner):
    return FaultyStore(inner)


@pytest.fixture
def faults(store):
    return Faults(None, lambda: 0, lambda: None, store=store.rules)


def test_a_store_without_rules_is_unchanged(store, inner):
    store.create("a", [b"x"])
    assert bytes(inner.read("a", 0, 9).data) == b"x"
    assert "rules" not in vars(store), "the module of effects is not imported"


def test_an_answer_is_lost_before_or_after_the_request_is_carried_out(store, inner, faults):
    faults.when_store("put", nth=2).unsure()
    faults.when_store("put", nth=3).unsure("before")
    store.create("first", [b"1"])
    for name in ("second", "third"):
        with pytest.raises(Unsure, match="a fault rule"):
            store.create(name, [b"1"])
    assert [each.name for each in inner.list("")] == ["first", "second"]
    store.create("third", [b"1"])


def test_only_conditional_writes_are_unsure(store, inner, faults):
    faults.when_store("get").unsure()
    faults.when_store("upload").unsure()
    faults.when_store("delete").unsure()
    inner.create("a", [b"1"])
    with pytest.raises(Unavailable):
        store.read("a", 0, 1)
    with pytest.raises(Unavailable):
        store.upload("b", [b"2"])
    with pytest.raises(Unavailable):
        store.delete(["a"])
    assert [each.name for each in inner.list("")] == ["b"]


def test_an_error_is_a_store_error_and_nothing_is_written(store, inner, faults):
    tag = inner.create("a", [b"1"])
    conflict = faults.when_store("put").error("conflict")
    with pytest.raises(Exists):
        store.create("b", [b"2"])
    with pytest.raises(Changed):
        store.replace("a", [b"2"], tag)
    faults.remove(conflict.number)
    faults.when_store("list").error()
    with pytest.raises(Unavailable):
        store.list("")
    assert bytes(inner.read("a", 0, 1).data) == b"1"
    with pytest.raises(Missing):
        inner.read("b", 0, 1)


def test_a_rule_is_about_names_and_about_kinds_of_puts(store, faults):
    rule = faults.when_store("create", name="wal/*").error()
    tag = store.create("files/1", [b"1"])
    store.replace("files/1", [b"2"], tag)
    store.upload("wal/2", [b"3"])
    with pytest.raises(Unavailable):
        store.create("wal/1", [b"1"])
    assert (rule.matched, rule.hits, str(rule)) == (1, 1, "store create name=wal/*: error unavailable")


def test_an_outage_fails_all_requests_until_it_ends_or_its_rule_is_removed():
    now, done = [100.0], []
    rules = StoreFaults(lambda _: None, lambda: now[0])
    faults = Faults(None, lambda: 0, lambda: None, store=rules)

    def ask(operation):
        rules.ask(StoreRequest(operation, "a"), lambda: done.append(operation))

    rule = faults.when_store("put", nth=2).outage(30)
    ask(Operation.CREATE)
    with pytest.raises(Unsure):
        ask(Operation.REPLACE)
    for operation, error in ((Operation.READ, Unavailable), (Operation.CREATE, Unsure), (Operation.LIST, Unavailable)):
        with pytest.raises(error):
            ask(operation)
    now[0] += 30
    ask(Operation.READ)
    assert rule.hits == 1
    again = faults.when_store("get", times=1).outage(30)
    with pytest.raises(Unavailable):
        ask(Operation.READ)
    faults.remove(again.number)
    ask(Operation.READ)
    assert done == [Operation.CREATE, Operation.READ, Operation.READ]


def test_a_pause_holds_until_released_and_a_delay_until_its_rule_is_removed(store, inner, faults):
    for make in (lambda maker: maker.pause(), lambda maker: maker.delay(3000)):
        rule = make(faults.when_store("put", nth=1))
        name = f"of rule {rule.number}".replace(" ", "-")
        writer = threading.Thread(target=store.create, args=(name, [b"1"]))
        writer.start()
        deadline = threading.Event()
        for _ in range(WAIT_SECONDS * 100):
            if faults.held_by(rule.number):
                break
            deadline.wait(0.01)
        assert faults.held_by(rule.number) == 1
        assert name not in [each.name for each in inner.list("")]
        if rule.number == 1:
            assert faults.release(rule.number)
        else:
            faults.clear()
        writer.join(WAIT_SECONDS)
        assert not writer.is_alive()
        assert name in [each.name for each in inner.list("")]


def test_a_settled_store_overcomes_all_faults(store, inner, faults):
    for number, make in enumerate(("unsure", "error", "error")):
        getattr(faults.when_store("put", nth=number + 1), make)(*(["conflict"] if number == 1 else []))
    SettledStore(store, lambda _, __: None).create("a", [b"x" * 70])
    assert inner.read("a", 0, 99).size_bytes == 70


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("store=put nth=3 unsure=after", "store put nth=3: no answer, all of it done"),
        ("store=GET name=bulk/* error=UNAVAILABLE", "store get name=bulk/*: error unavailable"),
        ("store=put every=2 unsure=before", "store put every=2: no answer, nothing done"),
        ("store=delete times=1 outage=30s", "store delete times=1: outage 30s"),
        ("store=list delay=50ms", "store list: delay 50ms"),
        ("store=create pause", "store create: pause at commit"),
    ],
)
def test_rules_about_stores_are_parsed(text, shown, faults):
    assert str(faults.add(*parse_arguments(text.split()))) == shown


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"store": "put"}, "a rule needs exactly one effect of error, delay, pause, unsure, outage; this one has none"),
        ({"store": "post", "error": "conflict"}, "unknown store request 'post'"),
        ({"store": "put", "error": "EIO"}, "unknown store error 'EIO'"),
        ({"store": "put", "unsure": "soon"}, "unknown moment 'soon'"),
        ({"store": "put", "outage": 0}, "an outage in seconds must be above 0"),
        ({"store": "put", "path": "*", "outage": "1s"}, "path does not apply to a rule about store"),
        ({"store": "put", "crash": True}, "a rule needs exactly one effect of"),
        ({"api": "Produce", "unsure": "after"}, "a rule needs exactly one effect of"),
        ({"api": "Produce", "store": "put", "delay": 1}, "exactly one of api"),
    ],
)
def test_an_invalid_rule_is_one_line(fields, line):
    with pytest.raises(FaultError) as refused:
        parse_rule(fields)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_broker_without_a_store_rejects_rules_about_it():
    faults = Faults(None, lambda: 0, lambda: None)
    with pytest.raises(FaultError, match="a store rule needs an object store"):
        faults.when_store("put").unsure()
    with pytest.raises(FaultError, match="a store rule needs an object store"):
        faults.add(*parse_arguments(["store=put", "delay=1s"]))
