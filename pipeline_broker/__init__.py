"""pipeline-broker: a Kafka-compatible broker, and `EmbeddedBroker`, which runs one inside a Python process.

Importing the package imports nothing else; `EmbeddedBroker` is imported on first access.
"""

# Type checkers treat this name as True. Importing `typing` for it would cost every program milliseconds.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pipeline_broker.embedded.embedded_broker import EmbeddedBroker

__all__ = ["EmbeddedBroker"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipeline_broker._stages_check import ensure_stages  # noqa: PLC0415 - imported on first access

    ensure_stages()
    from pipeline_broker.embedded.embedded_broker import EmbeddedBroker  # noqa: PLC0415 - see above

    return EmbeddedBroker
