"""The published wheel: one for all packages, which serves wherever it is installed and started from."""

import os
import re
import signal
import site
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.repository.sources import PACKAGES, ROOT
from tests.required import absent

RUN_SECONDS_MAX = 60

pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=RUN_SECONDS_MAX)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel, tmp_path_factory):
    """The folder of programs of an environment that holds the wheel, and the running one's dependencies behind it."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    subprocess.run(
        [*command, "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)],
        check=True,
        timeout=RUN_SECONDS_MAX,
    )
    # a path in a .pth file is only added: the .pth files found there, an editable install of ours, have no say
    packages = environment / "lib" / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix).relative_to("lib")
    (packages / "dependencies.pth").write_text("\n".join([sysconfig.get_path("purelib"), *site.getsitepackages()]))
    return environment / "bin"


@pytest.fixture
def shadowing_folder(tmp_path):
    """A folder with a package of its own that happens to be called stages."""
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "__init__.py").write_text("raise RuntimeError('this is not the stages you look for')\n")
    return tmp_path


def run(command, folder):
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS_MAX,
        env=clean_environment(),
    )


def clean_environment():
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONSAFEPATH"}}


def test_the_wheel_holds_the_four_packages_and_its_metadata_only(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    metadata = {top for top in tops if top.endswith(".dist-info")}
    assert tops - metadata == set(PACKAGES)
    assert len(metadata) == 1


def test_the_documents_install_this_wheel(wheel):
    documents = [ROOT / "README.md", ROOT / "examples/README.md", *ROOT.glob("docs/**/*.md")]
    named = re.findall(r"[\w.-]+\.whl", "\n".join(path.read_text(encoding="utf-8") for path in documents))
    assert {name for name in named if "none-any" in name} == {wheel.name}


def test_the_wheel_is_pure_unless_asked_for(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")


def test_the_wheel_holds_every_file_of_the_packages(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, check=False, capture_output=True, text=True)
    if listed.returncode:
        absent("this is no git checkout: nothing says which files belong to the packages")
    tracked = {name for name in listed.stdout.split() if (ROOT / name).exists()}
    assert tracked <= names
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_the_wheel_tells_pytest_of_the_plugin(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
    assert "[pytest11]\npipeline_broker = pipeline_broker.pytest_plugin" in archive.read(name).decode()


def test_pytest_finds_the_plugin_by_itself_in_a_folder_of_a_stranger(scripts, tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it(kafka_broker, kafka_topic): assert kafka_broker.topics()\n")
    result = run([scripts / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"], tmp_path)
    assert "1 passed" in result.stdout, result.stdout + result.stderr


def test_a_broker_is_embedded_from_the_wheel(scripts, tmp_path):
    program = "from pipeline_broker import EmbeddedBroker\nwith EmbeddedBroker() as broker: print(broker.topics())"
    result = run([scripts / "python", "-c", program], tmp_path)
    assert (result.returncode, result.stdout) == (0, "{}\n"), result.stderr


def test_the_package_is_imported_in_no_time_and_without_trio_or_what_needs_it(scripts, tmp_path):
    """Processor time, so that a busy machine does not count; it is less than a millisecond."""
    program = (
        "import sys, time\n"
        "begun = time.process_time(); import pipeline_broker; spent = time.process_time() - begun\n"
        "print(sorted({'trio', 'attrs', 'click', 'stages'} & set(sys.modules)), spent < 0.12)"
    )
    result = run([scripts / "python", "-c", program], tmp_path)
    assert (result.returncode, result.stdout) == (0, "[] True\n"), result.stderr


def test_the_command_helps_beside_a_foreign_stages(scripts, shadowing_folder):
    result = run([scripts / "pipeline-broker", "--help"], shadowing_folder)
    assert result.returncode == 0, result.stderr
    assert "serve" in result.stdout


def test_the_command_serves_beside_a_foreign_stages(scripts, shadowing_folder):
    process = subprocess.Popen(
        [scripts / "pipeline-broker", "serve", "--port", "0", "--data", str(shadowing_folder / "data")],
        cwd=shadowing_folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    with process:
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=RUN_SECONDS_MAX)
    assert line.startswith("listening on 127.0.0.1:"), errors
    assert process.returncode == 0, errors


def test_the_module_beside_a_foreign_stages_ends_with_one_line_that_names_it(scripts, shadowing_folder):
    result = run([scripts / "python", "-m", "pipeline_broker", "serve", "--port", "0"], shadowing_folder)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert str(shadowing_folder / "stages" / "__init__.py") in line


def test_importing_the_package_beside_a_foreign_stages_is_no_error(scripts, shadowing_folder):
    result = run([scripts / "python", "-c", "import pipeline_broker"], shadowing_folder)
    assert (result.returncode, result.stderr) == (0, "")
