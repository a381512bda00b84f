"""pipeline-broker: a Kafka-compatible broker, and `EmbeddedBroker`, which runs one inside a Python process.

Programs and tests import the names of `__all__` from here. Importing the package imports nothing else; each name is
imported on first access.
"""

# Type checkers treat this name as True. Importing `typing` for it would cost every program milliseconds.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pipeline_broker.base.error_code import ErrorCode
    from pipeline_broker.embedded.embedded_broker import EmbeddedBroker
    from pipeline_broker.embedded.embedded_cluster import ClusterBroker, EmbeddedCluster
    from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError, WaitTimeoutError
    from pipeline_broker.embedded.fault_rules import EmbeddedFaults
    from pipeline_broker.embedded.island import Island
    from pipeline_broker.embedded.life import Running
    from pipeline_broker.embedded.shown import Group, Member, Record, Snapshot
    from pipeline_broker.faults import effects
    from pipeline_broker.faults.names import FaultError
    from pipeline_broker.faults.rule import Rule
    from pipeline_broker.faults.rule_makers import DiskRuleMaker, RuleMaker, StoreRuleMaker
    from pipeline_broker.faults.subject import Subject
    from pipeline_broker.objects.memory_store import MemoryStore
    from pipeline_broker.telemetry.recent_requests import AnsweredRequest

__all__ = [
    "AnsweredRequest",
    "ClusterBroker",
    "DiskRuleMaker",
    "EmbeddedBroker",
    "EmbeddedBrokerError",
    "EmbeddedCluster",
    "EmbeddedFaults",
    "ErrorCode",
    "FaultError",
    "Group",
    "Island",
    "Member",
    "MemoryStore",
    "Record",
    "RefusedError",
    "Rule",
    "RuleMaker",
    "Running",
    "Snapshot",
    "StoreRuleMaker",
    "Subject",
    "WaitTimeoutError",
    "effects",
]
# The names of each module.
_MODULES = {
    "base.error_code": "ErrorCode",
    "embedded.embedded_broker": "EmbeddedBroker",
    "embedded.embedded_cluster": "ClusterBroker EmbeddedCluster",
    "embedded.errors": "EmbeddedBrokerError RefusedError WaitTimeoutError",
    "embedded.fault_rules": "EmbeddedFaults",
    "embedded.island": "Island",
    "embedded.life": "Running",
    "embedded.shown": "Group Member Record Snapshot",
    "faults.effects": "effects",
    "faults.names": "FaultError",
    "faults.rule": "Rule",
    "faults.rule_makers": "DiskRuleMaker RuleMaker StoreRuleMaker",
    "faults.subject": "Subject",
    "objects.memory_store": "MemoryStore",
    "telemetry.recent_requests": "AnsweredRequest",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    from pipeline_broker._package_check import ensure_package  # noqa: PLC0415 - imported on first access

    ensure_package("stages")
    (path,) = (path for path, names in _MODULES.items() if name in names.split())
    module = import_module(f"{__name__}.{path}")
    return module if path.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
