"""A Kafka-compatible broker; `EmbeddedBroker` runs one inside a Python process.

Rules of this file: lazy; what is named here is imported when it is asked for.
"""

TYPE_CHECKING = False  # type checkers know better; to import `typing` for it would cost every program milliseconds
if TYPE_CHECKING:
    from pipeline_broker.embedded.embedded_broker import EmbeddedBroker

__all__ = ["EmbeddedBroker"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipeline_broker._stages_check import ensure_stages  # noqa: PLC0415 - nobody pays for what is not asked for

    ensure_stages()
    from pipeline_broker.embedded.embedded_broker import EmbeddedBroker  # noqa: PLC0415 - see above

    return EmbeddedBroker
