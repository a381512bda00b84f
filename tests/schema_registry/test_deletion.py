"""Soft and permanent deletion: their effects, the references that prevent them, and their cost."""

import json

import pytest

from pipeline_broker.schema_registry.state import RegistryState
from tests.schema_registry.registry_desk import FIRST, REFERENCED, USER, WITH_DEFAULT, RegistryDesk, code


@pytest.fixture
def desk():
    return RegistryDesk()


def test_soft_deleted_versions_are_listed_on_request_and_their_ids_resolve(desk):
    desk.register("a", FIRST)
    desk.register("a", WITH_DEFAULT)
    desk.register("b", FIRST)

    assert desk.ask("DELETE", "/subjects/a/versions/1") == (200, 1)
    assert desk.ask("GET", "/subjects/a/versions") == (200, [2])
    assert desk.ask("GET", "/subjects/a/versions?deleted=true") == (200, [1, 2])
    assert desk.ask("GET", "/subjects/a/versions?deletedOnly=true") == (200, [1])
    assert code(desk.ask("GET", "/subjects/a/versions/1")) == 40402
    assert desk.ask("GET", "/subjects/a/versions/1?deleted=true")[0] == 200
    assert code(desk.ask("DELETE", "/subjects/a/versions/1")) == 40406
    assert desk.ask("DELETE", "/subjects/a") == (200, [2])
    assert desk.ask("GET", "/subjects") == (200, ["b"])
    assert desk.ask("GET", "/subjects?deleted=true") == (200, ["a", "b"])
    assert desk.ask("GET", "/subjects?deletedOnly=true") == (200, ["a"])
    assert code(desk.ask("DELETE", "/subjects/a")) == 40404
    assert desk.ask("GET", "/schemas/ids/2")[0] == 200


def test_deleted_versions_are_looked_up_on_request(desk):
    desk.register("a", FIRST)
    desk.register("a", WITH_DEFAULT)
    for path in ("/subjects/a/versions/1", "/subjects/a"):
        assert desk.ask("DELETE", path)[0] == 200
        assert code(desk.ask("POST", "/subjects/a", {"schema": FIRST})) in {40403, 40401}
        assert desk.ask("POST", "/subjects/a?deleted=true", {"schema": FIRST})[1]["version"] == 1


def test_a_number_that_was_given_is_never_given_again(desk):
    """A version number may return once its subject is deleted permanently, a schema id never."""
    desk.register("a", FIRST)
    desk.ask("DELETE", "/subjects/a/versions/1")
    assert desk.register("a", FIRST) == 1
    assert desk.ask("GET", "/subjects/a/versions?deleted=true") == (200, [1, 2])
    desk.ask("DELETE", "/subjects/a")
    desk.ask("DELETE", "/subjects/a?permanent=true")
    assert desk.register("a", WITH_DEFAULT) == 2
    assert desk.ask("GET", "/subjects/a/versions") == (200, [1])


def test_a_permanent_deletion_needs_a_soft_one_first(desk):
    desk.register("a", FIRST)
    desk.register("a", WITH_DEFAULT)

    assert code(desk.ask("DELETE", "/subjects/a/versions/1?permanent=true")) == 40407
    assert code(desk.ask("DELETE", "/subjects/a?permanent=true")) == 40405
    assert desk.ask("DELETE", "/subjects/a/versions/latest") == (200, 2)
    assert desk.ask("DELETE", "/subjects/a/versions/2?permanent=true") == (200, 2)
    assert code(desk.ask("GET", "/schemas/ids/2")) == 40403
    assert desk.ask("DELETE", "/subjects/a") == (200, [1])
    assert desk.ask("DELETE", "/subjects/a?permanent=true") == (200, [1])
    assert code(desk.ask("GET", "/subjects/a/versions?deleted=true")) == 40401
    assert desk.register("a", FIRST) == 3, "an id is not given twice"


def test_a_subject_is_kept_from_deletion_by_a_reference_to_any_of_its_versions(desk):
    desk.register("child", '"int"')
    desk.ask("PUT", "/config/child", {"compatibility": "NONE"})
    desk.register("child", REFERENCED)
    desk.register("child", '"long"')
    desk.register("parent", USER, references=[{"name": "com.acme.Referenced", "subject": "child", "version": 2}])

    assert code(desk.ask("DELETE", "/subjects/child")) == 42206
    assert desk.ask("GET", "/subjects/child/versions") == (200, [1, 2, 3])


class CountingState(RegistryState):
    """Counts the iterations over all versions."""

    looks = 0

    def all_versions(self):
        self.looks += 1
        return super().all_versions()


def test_the_deletion_of_a_subject_does_not_look_at_the_versions_of_others(desk):
    """The decision takes one turn of the event loop, which blocks all other clients."""
    state = desk.state = CountingState()
    desk.ask("PUT", "/config", {"compatibility": "NONE"})
    for number in range(20):
        desk.register("a", json.dumps({"type": "fixed", "name": f"F{number}", "size": 1}))
    state.looks = 0
    assert len(desk.ask("DELETE", "/subjects/a")[1]) == 20
    assert state.looks == 0
    assert len(desk.ask("DELETE", "/subjects/a?permanent=true")[1]) == 20
    assert state.looks == 0
    assert (list(state.all_versions()), state.schema(1), state.versions_count) == ([], None, 0)
