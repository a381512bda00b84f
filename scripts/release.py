"""Create a release: `make release VERSION=0.2.0`.

Builds the changelog from changelog.d, sets the version, and commits both. Then it builds sdist and wheel into dist/,
and tests them in an empty environment of every Python on this machine. The commit is tagged only after that. If any
step fails, the commit is undone. Nothing is pushed or uploaded.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"
DIST = ROOT / "dist"
VERSION = re.compile(r"\d+\.\d+\.\d+")
INSTALLS = ("README.md", "examples/README.md", "docs/start/first-hour.md")  # they name the wheel
WHEEL = re.compile(r"pipeline_broker-[0-9.]+-py3")
LINE = re.compile(r'^version = "(.*)"$', re.MULTILINE)
PYTHON_MIN = (3, 11)
SMOKE_TEST = """
import subprocess
import sys


def test_the_fixtures_are_found(kafka_broker, kafka_topic):
    kafka_broker.produce(kafka_topic, "value", key="key")
    kafka_broker.assert_records(kafka_topic, ["value"])


def test_the_commands_reach_a_broker(kafka_broker, kafka_topic):
    def run(*arguments, given=""):
        command = [sys.executable, "-P", "-m", "pipeline_broker", *arguments, "-b", kafka_broker.bootstrap_servers]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=60).stdout

    run("produce", kafka_topic, given="one\\ntwo\\n")
    assert run("consume", kafka_topic, "--exit") == "one\\ntwo\\n"
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Return the standard output of a command; exit if it fails."""
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout


def reasons_against(version: str, now: str, changes: str, fragments: list[Path]) -> list[str]:
    """Return the reasons why a release is impossible.

    Args:
        version: the requested version.
        now: the version in pyproject.toml.
        changes: the output of `git status --porcelain`.
        fragments: files of changelog.d.
    """
    found = []
    if not VERSION.fullmatch(version):
        found.append(f"VERSION={version} is not a version: give three numbers, such as 0.2.0")
    elif tuple(map(int, version.split("."))) <= tuple(map(int, now.split("."))):
        found.append(f"{version} is not above {now}, the version in pyproject.toml: give a higher one")
    if changes:
        found.append("the working tree has changes that are not committed: commit or stash them")
    if not fragments:
        found.append("changelog.d contains no changes: add a fragment")
    return found


def pythons() -> list[Path]:
    """Return the Pythons of this machine that the package supports, one for each minor version."""
    found = {}
    candidates = [Path(sys.executable), *(Path.home() / ".pyenv" / "versions").glob("*/bin/python")]
    candidates += [Path(path) for minor in range(11, 20) if (path := shutil.which(f"python3.{minor}"))]
    for python in candidates:
        code = "import sys; print(*sys.version_info[:2])"
        result = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        if not result.returncode and (minor := tuple(map(int, result.stdout.split()))) >= PYTHON_MIN:
            found.setdefault(minor, python)
    return [found[minor] for minor in sorted(found)]


def check(python: Path, package: Path) -> str:
    """Install a wheel or an sdist into an empty environment and test it; return the output of its `--version`."""
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        run(python, "-m", "venv", folder / "environment")
        inside = folder / "environment" / "bin"
        run(inside / "python", "-m", "pip", "install", "--quiet", package, "pytest>=8,<9.2", cwd=folder)
        (folder / "test_smoke.py").write_text(SMOKE_TEST, encoding="utf-8")
        run(inside / "python", "-m", "pytest", "-q", "test_smoke.py", cwd=folder)
        return run(inside / "pipeline-broker", "--version", cwd=folder).strip()


def build(version: str) -> list[Path]:
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build")
    return [DIST / f"pipeline_broker-{version}.tar.gz", DIST / f"pipeline_broker-{version}-py3-none-any.whl"]


def write(version: str) -> None:
    PYPROJECT.write_text(
        LINE.sub(f'version = "{version}"', PYPROJECT.read_text(encoding="utf-8"), count=1), encoding="utf-8"
    )
    for document in INSTALLS:
        text = (ROOT / document).read_text(encoding="utf-8")
        (ROOT / document).write_text(WHEEL.sub(f"pipeline_broker-{version}-py3", text), encoding="utf-8")
    run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version)
    run("git", "add", "--all", "pyproject.toml", "CHANGELOG.md", "changelog.d", *INSTALLS)
    run("git", "commit", "--quiet", "--message", f"Release {version}")


def release(version: str) -> None:
    (now,) = LINE.findall(PYPROJECT.read_text(encoding="utf-8"))
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    if reasons := reasons_against(version, now, run("git", "status", "--porcelain"), fragments):
        raise SystemExit("\n".join(reasons))
    write(version)
    try:
        sdist, wheel = build(version)
        found = pythons()
        for python in found:
            print(f"{wheel.name}, {python}: {check(python, wheel)}", flush=True)
        print(f"{sdist.name}, {found[0]}: {check(found[0], sdist)}", flush=True)
    except BaseException:
        run("git", "reset", "--quiet", "--keep", "HEAD~1")
        raise
    run("git", "tag", f"v{version}")
    print(f"{version} is committed and tagged; dist/ contains the files to upload")


if __name__ == "__main__":
    release(sys.argv[1] if len(sys.argv) > 1 else "")
