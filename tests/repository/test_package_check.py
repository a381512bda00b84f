import sys
import types

import pytest

from pipeline_broker._package_check import FOLDER, ShadowedPackageError, ensure_package


@pytest.fixture(params=["stages", "spark_analysis"])
def package(request, monkeypatch):
    """A package that is not loaded yet."""
    for name in [name for name in sys.modules if name.split(".")[0] == request.param]:
        monkeypatch.delitem(sys.modules, name)
    return request.param


def test_our_package_is_accepted_without_being_imported(package):
    ensure_package(package)
    assert package not in sys.modules


def test_a_package_that_is_found_first_is_named(package, monkeypatch, tmp_path):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ShadowedPackageError) as caught:
        ensure_package(package)
    assert str(tmp_path / package / "__init__.py") in str(caught.value)
    assert str(FOLDER / package) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_package_that_is_loaded_already_is_named(package, monkeypatch):
    foreign = types.ModuleType(package)
    foreign.__file__ = "/somewhere/it.py"
    monkeypatch.setitem(sys.modules, package, foreign)
    with pytest.raises(ShadowedPackageError, match=r"/somewhere/it\.py"):
        ensure_package(package)


def test_no_package_at_all_is_said(package, monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ShadowedPackageError, match="not completely installed"):
        ensure_package(package)
