"""The test that docs/testing.md shows for an application of FastStream, on both of its clients and in both modes."""

import pytest

from tests.documents import blocks_run_by
from tests.plugin_runs import run_pytest

pytestmark = pytest.mark.clients

CLIENTS = ("kafka", "confluent")
IN_BOTH_MODES = """
import pytest

pytestmark = pytest.mark.kafka(mode=["classic", "pipelined"])
"""


def test_an_application_is_served_on_both_clients_in_both_modes(tmp_path):
    (block,) = blocks_run_by("tests/embedded/test_faststream.py")
    assert "faststream.kafka" in block.text
    for client in CLIENTS:
        text = block.text.replace("faststream.kafka", f"faststream.{client}").replace("billing", f"billing-{client}")
        (tmp_path / f"test_{client}.py").write_text(text + IN_BOTH_MODES, encoding="utf-8")
    result = run_pytest(tmp_path, "-q")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 passed" in result.stdout
