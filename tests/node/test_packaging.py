"""The compose files of the examples and the systemd units start brokers, without containers or systemd."""

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from tests.conftest import READY_LINE, read_line
from tests.free_ports import free_port
from tests.objects import s3_servers
from tests.required import require_tool

EXAMPLES = Path(__file__).parents[2] / "examples/object-store"
ON_A_DISK = EXAMPLES.parent / "systemd/pipeline-broker.service"
WAIT_SECONDS = 30


def started(arguments, environment, tmp_path):
    stderr = (tmp_path / f"stderr-{free_port()}").open("wb")
    with stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline_broker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, **environment},
        )


def ended(*processes):
    for process in processes:
        process.terminate()
    codes = [process.wait(WAIT_SECONDS) for process in processes]
    for process in processes:
        process.stdout.close()
    return codes


def placed(arguments, ports, data):
    """Return the arguments with free ports and a directory of the test instead of the container's."""
    text = [re.sub(r"\b909\d\b", lambda found: str(ports[found[0]]), each) for each in arguments]
    return [data if each == "/tmp/data" else "127.0.0.1" if each == "0.0.0.0" else each for each in text]


def test_a_broker_of_the_compose_file_serves_and_its_standby_takes_over(tmp_path):
    services = yaml.safe_load((EXAMPLES / "compose.yaml").read_text(encoding="utf-8"))["services"]
    store = services["store"]
    assert store["environment"].keys() == {"ROOT_ACCESS_KEY_ID", "ROOT_SECRET_ACCESS_KEY"}
    ports = {"9092": free_port(), "9093": free_port()}
    with s3_servers.open_versitygw(tmp_path / "gateway") as address:
        (tmp_path / "gateway/records").mkdir()
        processes = {}
        for name in ("broker", "standby"):
            environment = services[name]["environment"]
            assert environment["AWS_ENDPOINT_URL"] == "http://store:7070"
            own = {**environment, **s3_servers.environment(address)}
            arguments = placed(services[name]["command"], ports, str(tmp_path / name))
            processes[name] = started(arguments, own, tmp_path)
            assert read_line(processes[name], WAIT_SECONDS) == "standing by"
            if name == "broker":
                assert int(READY_LINE.fullmatch(read_line(processes[name], WAIT_SECONDS))["port"]) == ports["9092"]
        assert ended(processes["broker"]) == [0]
        assert int(READY_LINE.fullmatch(read_line(processes["standby"], WAIT_SECONDS))["port"]) == ports["9093"]
        assert ended(processes["standby"]) == [0]


def test_the_broker_of_the_compose_file_for_a_disk_serves_both_listeners_and_is_healthy(tmp_path):
    folder = EXAMPLES.parent / "container"
    service = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))["services"]["broker"]
    assert (folder / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    ports = {port: free_port() for port in ("19092", "9092", "9308")}

    def here(text):
        for port, own in ports.items():
            text = re.sub(rf"\b{port}\b", str(own), text)
        return text.replace("0.0.0.0", "127.0.0.1").replace("INSIDE://broker", "INSIDE://127.0.0.1")

    arguments = [str(tmp_path / "data") if each == "/data" else here(each) for each in service["command"]]
    process = started(arguments, {}, tmp_path)
    assert READY_LINE.fullmatch(read_line(process, WAIT_SECONDS))
    kind, program, *check = service["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    subprocess.run([sys.executable, *map(here, check)], check=True, timeout=WAIT_SECONDS)
    for port in (ports["19092"], ports["9092"]):
        metadata = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=WAIT_SECONDS)
        assert [broker.port for broker in metadata.brokers.values()] == [port]
    assert ended(process) == [0]
    published = {each.split(":")[-1] for each in service["ports"]}
    assert published == {"9092", "9308"}, "clients of other machines are refused"
    assert all(each.startswith("127.0.0.1:") for each in service["ports"])


def unit(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_the_unit_starts_a_broker_of_its_environment_file(tmp_path):
    fields = unit(EXAMPLES / "pipeline-broker@.service")
    own = {
        "STORE": f"file://{tmp_path}/store",
        "HOST": "localhost",
        "PORT": str(free_port()),
        "CACHE_DIRECTORY": str(tmp_path / "cache"),
    }
    command = re.sub(r"\$\{(\w+)\}", lambda found: shlex.quote(own[found[1]]), fields["ExecStart"])
    program, *arguments = shlex.split(command)
    assert program == "/opt/pipeline-broker/bin/pipeline-broker"
    here = ["127.0.0.1" if each == "0.0.0.0" else each for each in arguments]
    process = started([*here, "--set", "broker.session.timeout.ms=2000"], {}, tmp_path)
    assert read_line(process, WAIT_SECONDS) == "standing by"
    assert READY_LINE.fullmatch(read_line(process, WAIT_SECONDS))
    assert ended(process) == [0]
    assert (fields["KillSignal"], fields["Restart"], fields["DynamicUser"]) == ("SIGTERM", "always", "yes")


def test_the_unit_of_one_machine_starts_a_broker_of_its_settings(tmp_path):
    fields = unit(ON_A_DISK)
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:0\n")
    command = fields["ExecStart"].replace("${STATE_DIRECTORY}", str(tmp_path / "state"))
    program, *arguments = shlex.split(command.replace("/etc/pipeline-broker", str(tmp_path)))
    assert program == "/opt/pipeline-broker/bin/pipeline-broker"
    process = started(arguments, {}, tmp_path)
    assert READY_LINE.fullmatch(read_line(process, WAIT_SECONDS))
    assert ended(process) == [0]


# Records users, and fails to enable a unit of which something is missing. The arguments of `install` are GNU's.
SYSTEM = {
    "useradd": 'for user; do :; done; echo "$user" >> "$ROOT/users"',
    "install": """owner= && for each; do
    [ -z "$next" ] || { grep -qx "$each" "$ROOT/users" || exit 1; next=; }
    case $each in --owner) next=1 ;; esac
done
set -- $(printf '%s\\n' "$@" | sed '/^--owner$/,+1d')
exec /usr/bin/install "$@" """,
    "python3": 'mkdir -p "$3/bin" && cp "$ROOT/bin/pip" "$3/bin"',
    "pip": """wheel=${2%%[*}; [ -f "$wheel" ] || exit 1
echo > "${0%/*}/pipeline-broker" && chmod +x "${0%/*}/pipeline-broker" """,
    "systemctl": """case $1 in
daemon-reload) [ -f "$ROOT/etc/systemd/system/$UNIT" ] && touch "$ROOT/reloaded" ;;
enable)
    [ -f "$ROOT/reloaded" ] && [ -f "$ROOT/$CONFIG" ] && [ -x "$ROOT/opt/pipeline-broker/bin/pipeline-broker" ] &&
        touch "$ROOT/enabled" ;;
esac""",
}


@pytest.mark.parametrize(
    ("path", "settings"), [(EXAMPLES / "pipeline-broker@.service", "first.env"), (ON_A_DISK, "server.properties")]
)
def test_the_commands_of_a_unit_need_only_their_three_files_and_work_in_their_order(path, settings, tmp_path):
    text = path.read_text(encoding="utf-8")
    commands = re.findall(r"^#     ((?:useradd|install|python3|/opt|systemctl) ?.*)$", text, re.MULTILINE)
    root, folder = tmp_path / "root", tmp_path / "folder"
    for each in (root / "etc/systemd/system", root / "opt", root / "bin", folder):
        each.mkdir(parents=True)
    for name, script in SYSTEM.items():
        (root / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (root / "bin" / name).chmod(0o755)
    for name in (
        settings,
        path.name,
        f"pipeline_broker-{importlib.metadata.version('pipeline-broker')}-py3-none-any.whl",
    ):
        (folder / name).touch()
    script = re.sub(r"(?<![\w.])/(?=etc|opt)", f"{root}/", "\n".join(commands))
    own = {"PATH": f"{root}/bin:{os.environ['PATH']}", "ROOT": str(root), "UNIT": path.name}
    own["CONFIG"] = f"etc/pipeline-broker/{settings}"
    result = subprocess.run(["sh", "-euxc", script], cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert (root / "enabled").exists(), result.stderr
    assert (root / own["CONFIG"]).stat().st_mode & 0o777 == 0o600
    assert (root / own["CONFIG"]).parent.stat().st_mode & 0o777 == 0o700
    fields = unit(path)
    user = fields.get("User")
    assert (root / "users").read_text().split() == [user] if user else fields["DynamicUser"] == "yes"


@pytest.mark.parametrize("unit", [EXAMPLES / "pipeline-broker@.service", ON_A_DISK], ids=lambda path: path.name)
def test_systemd_accepts_the_units(unit, tmp_path):
    verify = require_tool("systemd-analyze")
    program = tmp_path / "pipeline-broker"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = unit.read_text(encoding="utf-8")
    path = tmp_path / unit.name.replace("@", "@first")
    path.write_text(text.replace("/opt/pipeline-broker/bin/pipeline-broker", str(program)))
    said = subprocess.run(
        [verify, "verify", "--man=no", "--recursive-errors=no", str(path)], capture_output=True, text=True, check=False
    )
    if "SYSTEMD" in said.stderr and "connect" in said.stderr:
        pytest.skip("systemd-analyze cannot look at units here")
    complaints = [line for line in said.stderr.splitlines() if "pipeline-broker" in line]
    assert (said.returncode, complaints) == (0, [])
