"""`pipeline-broker` whose supervisor kills a hung broker early."""

from pipeline_broker.cli import main
from pipeline_broker.node import heartbeat

if __name__ == "__main__":
    heartbeat.HUNG_SECONDS = heartbeat.SILENT_SECONDS + 1
    main(prog_name="pipeline-broker")
