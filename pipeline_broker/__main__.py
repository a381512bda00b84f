"""`python -m pipeline_broker` is the console script."""

from pipeline_broker.cli import main

if __name__ == "__main__":
    main(prog_name="pipeline-broker")
