"""`python -m pipeline_broker`, which is the same as `pipeline-broker`."""

from pipeline_broker.cli import main

if __name__ == "__main__":
    main(prog_name="pipeline-broker")
