"""The modes of an experiment: presets of the broker, with the axes that are overridden in them.

Rules of this file: data only. A mode is what the results call one way to start a broker.
"""

MODES: dict[str, tuple[str, dict[str, str]]] = {
    "classic": ("classic", {}),
    "pipelined": ("pipelined", {}),
    "mute-off": ("classic", {"pipeline.in.flight": "64"}),
    "group-commit": ("classic", {"pipeline.commit": "group"}),
    "own-queues": ("classic", {"pipeline.queues": "8"}),
    "both": ("classic", {"pipeline.in.flight": "64", "pipeline.commit": "group"}),
}
"""Of each mode the preset that the broker is started with, and the properties that go over it."""
COMPARED_MODES = ("classic", "pipelined")
KAFKA_MODES = ("kafka-synced", "kafka")
"""Apache Kafka as it would have to run to lose nothing on one machine, and with its defaults."""
OTHER_BROKER = "other"
ABLATION_MODES = ("mute-off", "group-commit", "both")
"""Two of the three axes between classic and pipelined, alone and together."""
AXIS_MODES = ("mute-off", "group-commit", "own-queues", "both")
"""All three axes alone. With the queues too, `both` would be pipelined."""
