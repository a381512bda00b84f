import sys
import types

import pytest

from pipeline_broker._stages_check import OURS, ShadowedStagesError, ensure_stages


@pytest.fixture
def stages_not_loaded(monkeypatch):
    for name in [name for name in sys.modules if name == "stages" or name.startswith("stages.")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("stages_not_loaded")
def test_our_stages_is_accepted_without_being_imported():
    ensure_stages()
    assert "stages" not in sys.modules


@pytest.mark.usefixtures("stages_not_loaded")
def test_a_package_that_is_found_first_is_named(monkeypatch, tmp_path):
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ShadowedStagesError) as caught:
        ensure_stages()
    assert str(tmp_path / "stages" / "__init__.py") in str(caught.value)
    assert str(OURS) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("stages_not_loaded")
def test_a_package_that_is_loaded_already_is_named(monkeypatch):
    foreign = types.ModuleType("stages")
    foreign.__file__ = "/somewhere/stages.py"
    monkeypatch.setitem(sys.modules, "stages", foreign)
    with pytest.raises(ShadowedStagesError, match=r"/somewhere/stages\.py"):
        ensure_stages()


@pytest.mark.usefixtures("stages_not_loaded")
def test_no_package_at_all_is_said(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ShadowedStagesError, match="not completely installed"):
        ensure_stages()
