"""The example of a test of a FastStream application, on both of its clients and in both modes."""

import pytest

from tests.plugin_runs import FASTSTREAM_CLIENTS, faststream_test, run_pytest

pytestmark = pytest.mark.clients


def test_an_application_is_served_on_both_clients_in_both_modes(tmp_path):
    for client in FASTSTREAM_CLIENTS:
        (tmp_path / f"test_{client}.py").write_text(faststream_test(client), encoding="utf-8")
    result = run_pytest(tmp_path, "-q")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 passed" in result.stdout
