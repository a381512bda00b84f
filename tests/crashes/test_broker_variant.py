"""Each variant of the broker bites: what it replaces is what the broker uses, and nothing uses the original beside it.

A variant that lost its effect, because a class has moved or a method has another name, would make the tests that must
notice it look for something that is not there, and those that must pass it pass for nothing.
"""

import importlib
import pkgutil
import sys
import types

import pytest

import pipeline_broker
import stages
from tests.crashes import broker_variant
from tests.crashes.broker_variant import VARIANTS, put_in_place

NOT_OF_A_BROKER = (
    "pipeline_broker.__main__",
    "pipeline_broker.commands.upkeep",
    "pipeline_broker.embedded",
    "pipeline_broker.inspect",
)


@pytest.fixture(scope="module")
def modules():
    """All modules that a broker process may load."""
    for package in (pipeline_broker, stages):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.startswith(NOT_OF_A_BROKER):
                importlib.import_module(found.name)
    names = [it for it in sys.modules if it.startswith(("pipeline_broker", "stages"))]
    return [sys.modules[it] for it in names if not it.startswith(NOT_OF_A_BROKER)]


def codes_of(namespace, module):
    """All code that is defined in a module: functions, methods, and what is inside them."""
    for value in list(vars(namespace).values()):
        inner = getattr(value, "__func__", getattr(value, "fget", value))
        inner = getattr(inner, "__wrapped__", inner)
        if isinstance(inner, type) and inner.__module__ == module:
            yield from codes_of(inner, module)
        elif isinstance(inner, types.FunctionType) and inner.__module__ == module:
            yield from nested(inner.__code__)


def nested(code):
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from nested(each)


def uses(module, name):
    """Whether a function of the module looks the name up, or imports it, when it is called."""
    return any(name in code.co_names for code in codes_of(module, module.__name__))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_replaces_what_functions_look_up_when_they_are_called(variant, modules):
    for module, name in VARIANTS[variant]:
        original = getattr(module, name)
        holders = [it for it in modules if vars(it).get(name) is original]
        holders += [it for it in modules if vars(it).get(module.__name__.rsplit(".")[-1]) is module]
        lazy = [it for it in modules if imports_lazily(it, module, name)]
        assert lazy or any(uses(it, name) for it in holders), f"nothing uses {name} of {module.__name__}"


def imports_lazily(user, module, name):
    codes = codes_of(user, user.__name__)
    return any(module.__name__ in code.co_names and name in code.co_names for code in codes)


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_goes_on_with_the_original_of_what_a_variant_replaces(variant, modules, monkeypatch):
    originals = [(name, getattr(module, name)) for module, name in VARIANTS[variant]]
    put_in_place(VARIANTS[variant], monkeypatch.setattr)
    for name, original in originals:
        home = getattr(original, "__module__", None)
        beside = [it.__name__ for it in modules if vars(it).get(name) is original and it.__name__ != home]
        if home is not None and getattr(sys.modules[home], name) is original:  # who imports it later would have it
            beside += [it.__name__ for it in modules if imports_lazily(it, sys.modules[home], name)]
        assert not beside, f"{variant} leaves {name} as it is in {beside}"


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_method_of_a_variant_is_one_of_the_original_or_called_by_the_variant(variant):
    for (module, name), changed in VARIANTS[variant].items():
        if not isinstance(changed, type):
            continue
        original = getattr(module, name)
        own = [key for key, it in vars(changed).items() if isinstance(it, types.FunctionType)]
        replaced = [key for key in own if hasattr(original, key)]
        assert replaced, f"{changed.__name__} replaces nothing of {name}"
        called = {used for code in codes_of(broker_variant, broker_variant.__name__) for used in code.co_names}
        unknown = set(own) - set(replaced) - called
        assert not unknown, f"{name} has no {unknown}, and nothing calls it"


def test_files_of_variants_replace_methods_of_files(tmp_path):
    """They stand around a file, so that a method of another name would be one more."""
    (tmp_path / "file").touch()
    file = broker_variant.SystemFileSystem().open(tmp_path / "file")
    for wrapper in (broker_variant._HeldFile, broker_variant.UnsyncedFile, broker_variant.LateSyncedFile):
        own = [key for key in vars(wrapper) if not key.startswith("_")]
        assert own
        assert [key for key in own if not hasattr(file, key)] == []


@pytest.mark.parametrize(
    ("module", "name", "changed", "complaint"),
    [
        ("pipeline_broker.node.process", "Journal", None, AttributeError),
        ("pipeline_broker.log.journal.journal", "Recovery", broker_variant.RollingJournal, AssertionError),
    ],
)
def test_a_variant_of_what_is_not_there_or_of_something_else_does_not_start(module, name, changed, complaint):
    with pytest.raises(complaint):
        put_in_place({(importlib.import_module(module), name): changed}, put=None)
