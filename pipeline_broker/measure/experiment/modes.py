"""The modes of an experiment: presets of the broker with overridden properties, and names for other brokers."""

MODES: dict[str, tuple[str, dict[str, str]]] = {
    "classic": ("classic", {}),
    "pipelined": ("pipelined", {}),
    "mute-off": ("classic", {"pipeline.in.flight": "64"}),
    "group-commit": ("classic", {"pipeline.commit": "group"}),
    "own-queues": ("classic", {"pipeline.queues": "8"}),
    "both": ("classic", {"pipeline.in.flight": "64", "pipeline.commit": "group"}),
}
"""The preset of each mode, and the properties that override it."""
COMPARED_MODES = ("classic", "pipelined")
KAFKA_MODES = ("kafka-synced", "kafka")
"""Apache Kafka with a flush after each message, without which one node can lose data, and with its defaults."""
OTHER_BROKER = "other"
ABLATION_MODES = ("mute-off", "group-commit", "both")
"""Two of the three axes between classic and pipelined, each alone and both together."""
AXIS_MODES = ("mute-off", "group-commit", "own-queues", "both")
"""Each of the three axes alone, and two together; all three would be pipelined."""
