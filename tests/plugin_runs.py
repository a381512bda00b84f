"""How tests run pytest with the plugin, wherever they do.

Rules: no plugin is loaded by itself, whatever is installed here: that is sooner, and the tests of the wheel show that
pytest finds this one. pytest-xdist is named where it is wanted.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLUGIN = "pipeline_broker.pytest_plugin"
RUN_SECONDS_MAX = 100


def run_python(folder, *arguments, **environment):
    """Run Python in a folder, with this repository's packages."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS_MAX,
    )


def run_pytest(folder, *arguments):
    """Run pytest in a folder, with the plugin."""
    workers = ("-p", "xdist") if "-n" in arguments else ()
    command = ("-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "-p", PLUGIN, *workers, *arguments)
    return run_python(folder, *command, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", COLUMNS="200")
