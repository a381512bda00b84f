"""The tests of docs/guides/coming-from.md, each before and after.

An embedded broker stands for the container of testcontainers.
"""

import pytest

from tests.documents import blocks_run_by
from tests.plugin_runs import run_pytest

pytestmark = pytest.mark.clients

CONTAINER = """
from pipeline_broker import EmbeddedBroker


class KafkaContainer(EmbeddedBroker):
    def get_bootstrap_server(self):
        return self.bootstrap_servers
"""


def test_the_test_passes_here_with_a_container_and_with_the_mock_cluster(tmp_path):
    after, container, mock = (block.text for block in blocks_run_by("tests/embedded/test_coming_from.py"))
    application = after.partition("\n\n\ndef test_")[0]
    fixture = container.index("@pytest.fixture")
    test = container.index("def test_")
    imports = container[:fixture]
    without_container = imports.replace("from testcontainers.kafka import KafkaContainer\n", "")
    (tmp_path / "testcontainers").mkdir()
    (tmp_path / "testcontainers" / "kafka.py").write_text(CONTAINER, encoding="utf-8")
    (tmp_path / "conftest.py").write_text("import sys\nsys.path.insert(0, '.')\n", encoding="utf-8")
    files = {
        "test_after.py": after,
        "test_container.py": f"{imports}\n{application}\n\n\n{container[fixture:]}",
        "test_mock.py": f"{without_container}\n{application}\n\n\n{mock}\n\n{container[test:]}",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    result = run_pytest(tmp_path, "-q")
    assert "3 passed" in result.stdout, result.stdout + result.stderr
