"""Limits that are constants of the source, with the meanings that stand beside them."""

import ast
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["LIMITS", "DeclaredLimit", "declared_limits", "meanings"]

PACKAGE = Path(__file__).parent.parent / "pipeline_broker"
LIMITS: dict[str, dict[str, str]] = {
    "requests": {
        "apis/call.py": "REQUEST_COST_MAX",
        "wire/primitives.py": "RESPONSE_BYTES_MAX ELEMENTS_MAX",
        "apis/registry.py": "DECIDED_AT_ONCE_MAX SHARE_STATES_MAX SCRAM_USERS_MAX",
        "broker/broker.py": "LARGE_REQUESTS_MAX LONG_BATCHES_MAX",
        "records/record_walk.py": "RECORDS_A_TURN",
        "apis/data/internal_topics.py": "STATE_RECORDS_MAX",
        "base/patterns.py": "LENGTH_MAX READING_COST_MAX PROGRAM_SIZE_MAX MATCH_WORK_MAX",
        "security/encrypted_keys.py": "ROUNDS_MAX SCRYPT_BYTES_MAX SCRYPT_WORK_BYTES_MAX",
        "security/pem.py": "KEY_BYTES_MAX",
        "security/pkcs12.py": "STORE_ROUNDS_MAX",
    },
    "Kafka clients": {
        "log/producers/producer_state.py": "PRODUCERS_MAX GAPS_REMEMBERED",
        "security/delegation_tokens.py": "TOKENS_MAX RENEWERS_MAX",
        "quotas/meters.py": "METERS_MAX NAME_BYTES_MAX",
        "state/client_metrics.py": "CLIENTS_MAX CLIENTS_BYTES_MAX PATTERNS_MAX",
        "telemetry/client_metrics_file.py": "CLIENTS_MAX CLIENT_BYTES_MAX POINTS_MAX",
        "telemetry/pushed_metrics.py": "FIELDS_MAX ATTRIBUTES_MAX TEXT_CHARACTERS_MAX",
        "apis/produce_template.py": "TEMPLATES_MAX",
        "apis/cluster/api_versions.py": "CLIENT_ID_CHARACTERS_MAX SOFTWARE_CHARACTERS_MAX",
        "state/groups/streams/topology.py": "SUBTOPOLOGIES_MAX NAMES_MAX",
        "state/groups/streams/internal_topics.py": "TASKS_MAX",
        "state/groups/streams/group.py": "OFFSETS_MAX",
        "broker/streams_topics.py": "ERRORS_MAX",
        "broker/dead_letters.py": "AT_ONCE_MAX GROUP_ID_BYTES_MAX",
        "node/own_requests.py": "WAITING_MAX",
        "state/groups/offset_records.py": "TOPICS_REMEMBERED",
        "state/transactions/records.py": "KEYS_REMEMBERED PARTITIONS_REMEMBERED",
        "base/patterns.py": "REMEMBERED_BYTES_MAX MEMORY_BYTES_MAX",
        "security/authorizer.py": "ADDRESSES_MAX",
    },
    "security": {
        "security/offer.py": "LINE_USERS_MAX",
        "security/principal_mapping.py": "RULES_MAX NAME_CHARS_MAX",
        "security/certificates.py": "DN_BYTES_MAX",
        "security/pem.py": "FILE_BYTES_MAX",
        "security/basic_users.py": "FILE_BYTES_MAX USERS_MAX",
        "security/signed_tokens.py": "FILE_BYTES_MAX KEYS_MAX",
        "security/refusals.py": "SOURCES_MAX ROWS_OF_SOURCE_MAX TEXT_CHARS_MAX",
    },
    "HTTP, metrics and logs": {
        "node/control_commands.py": "REQUESTS_MAX SHOWN_MAX WAIT_SECONDS_MAX",
        "web/http_requests.py": "HEADER_BYTES_MAX HEADER_LINES_MAX PIECES_MAX",
        "web/messages.py": "ANSWER_BYTES_MAX",
        "dashboard/record_reader.py": "PAGE_BYTES_MAX PAGE_UNPACKED_BYTES_MAX BATCH_RECORDS_MAX "
        "PAGE_RECORDS_WALKED_MAX",
        "dashboard/records.py": "PARTITIONS_READ_MAX",
        "dashboard/history.py": "GROUPS_KEPT_MAX TOPICS_KEPT_MAX",
        "dashboard/origins.py": "FULL_NAME_CHARACTERS_MAX",
        "telemetry/sampled_rows.py": "ROWS_MAX",
        "dashboard/watched_pipeline.py": "ORIGINS_MAX",
        "dashboard/viewers.py": "VIEWERS_MAX",
        "telemetry/topic_metrics.py": "TOPICS_MAX",
        "telemetry/group_metrics.py": "GROUPS_MAX PARTITIONS_MAX",
        "telemetry/partition_metrics.py": "PARTITIONS_MAX",
        "telemetry/exposition.py": "LABEL_CHARACTERS_MAX",
        "telemetry/network_metrics.py": "SOFTWARE_MAX",
        "telemetry/request_log.py": "REQUESTS_MAX BYTES_MAX",
        "telemetry/bounded_log.py": "LINES_MAX CALL_SITES_MAX CHARS_MAX TRACEBACK_CHARS_MAX",
    },
    "the schema registry": {
        "schema_registry/state.py": "TEXT_BYTES_MAX VERSIONS_MAX REFERENCES_OF_ALL_MAX SUBJECTS_WITH_SETTINGS_MAX",
        "schema_registry/schema_index.py": "EXPECTED_MAX",
        "worker/child.py": "MEMORY_BYTES_MAX FILE_BYTES_MAX",
        "worker/work.py": "OUTCOME_BYTES_MAX",
        "node/worker_process.py": "WAITING_MAX",
        "schema_registry/formats.py": "REMEMBERED_MAX REMEMBERED_CHARACTERS_MAX NAMES_CHARACTERS_MAX",
        "node/known_schemas.py": "NAMED_SCHEMAS_MAX",
    },
    "files and objects": {
        "log/journal/segment.py": "SEGMENT_FILE_BYTES_MAX",
        "log/journal/writer_room.py": "RESUME_BYTES",
        "log/archive/local/manifest_file.py": "MANIFEST_BYTES_MAX DOUBTFUL_BYTES_MAX",
        "log/archive/local/local_store.py": "RANGES_LENT_MAX",
        "log/archive/verified_batches.py": "BATCHES_MAX",
        "files/window.py": "WINDOW_BYTES",
        "log/journal/segment_window.py": "DOUBTFUL_BYTES_MAX",
        "objects/slot_reader.py": "FIRST_READ_BYTES INDEX_BYTES_MAX",
        "config/sources.py": "FILE_BYTES_MAX",
        "faults/rule_file.py": "FILE_BYTES_MAX",
        "node/control_token.py": "FILE_BYTES_MAX",
        "client/bearer_tokens.py": "TOKEN_BYTES_MAX",
        "traces/ring_file.py": "FILE_BYTES_MAX",
        "inspect/leftovers.py": "NAMED_MAX",
    },
}
"""Sections of docs/reference/bounds.md, each with modules and the names of their limits."""


class DeclaredLimit(NamedTuple):
    """A limit as the page shows it."""

    meaning: str
    value: str
    name: str
    module: str


def declared_limits(section: str) -> Iterator[DeclaredLimit]:
    """Yield the limits of a section.

    Raises:
        ValueError: a limit has no text beside it.
    """
    for path, names in LIMITS[section].items():
        found = meanings(PACKAGE / path)
        module = importlib.import_module(f"pipeline_broker.{path.removesuffix('.py').replace('/', '.')}")
        for name in names.split():
            if name not in found:
                raise ValueError(f"{path}: {name} has no text")
            yield DeclaredLimit(found[name], _shown(name, getattr(module, name)), name, path)


def meanings(path: Path) -> dict[str, str]:
    """Return the first paragraph of the text below each constant of a module."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    found = {}
    for node, following in itertools.pairwise(body):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and isinstance(following, ast.Expr):
            text = ast.literal_eval(following.value) if isinstance(following.value, ast.Constant) else ""
            found[target.id] = " ".join(str(text).split("\n\n")[0].split())
    return found


def _shown(name: str, value: float) -> str:
    """Return a value with the unit that its name ends with."""
    if "BYTES" not in name:
        return f"{value:,}"
    power = max(power for power in (0, 10, 20, 30) if value >= 1 << power)
    return f"{value / (1 << power):,.4g} {('bytes', 'KiB', 'MiB', 'GiB')[power // 10]}"
