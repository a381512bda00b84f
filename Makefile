# The tasks of a newcomer and of a developer; `make help` lists them.
# .venv is made on first use, with the versions of constraints.txt; a second run installs nothing.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
PIP := $(RUN)/python -m pip --disable-pip-version-check --quiet
WORKERS ?= 4
EXAMPLES ?= 2000
CYCLES ?= 200
RUNS ?= 50
POINTS ?= all
SECONDS ?= 1200
SEEDS ?= 10000
LIVE_SECONDS ?= 60
LIVE_MODE ?= pipelined
SEED ?=
ROOM ?= all
SAMPLE ?=
LIMIT ?=
SUITES_DIR ?= ../shared/suites
MODES ?= classic pipelined
SUITES ?=
BROKERS ?=
BOOTSTRAP ?=
COMPARE ?=
PYTEST ?=
comma := ,
COMPILED := build/compiled
# where the compiled packages were made they run, and are made again when a source has changed; COMPILED_FIRST= is the pure ones
COMPILED_FIRST ?= $(if $(wildcard $(COMPILED)),env PYTHONPATH=$(CURDIR)/$(COMPILED))
COMPILED_TESTS ?= tests/repository/test_compiled.py tests/stages tests/records tests/log/partition tests/log/journal tests/apis/data
# constraints.txt has the oldest; the newest is the last one here
SPARK_VERSIONS ?= 4.1.4 4.3.0
SPARK_TESTS ?= tests/pyspark_pipeline_broker/test_source.py tests/pyspark_pipeline_broker/sink/test_sink_in_spark.py
SYSTEM_PACKAGES := chromium chromium-driver default-jdk-headless eatmydata faketime fish fuse libfuse2 maven openssl strace systemd zsh

.DEFAULT_GOAL := help
.PHONY: help serve compare results test compiled test-compiled test-spark lint types contracts docs imports check mutants properties simulate kill kill-points power-cuts exactly-once streams faults hostile soak live live-kill cluster connector plugin-runs bench targets suites wheel release system-packages clean object-faults

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: $(VENV)/serve.stamp $(if $(COMPILED_FIRST),compiled) ## start a broker on 127.0.0.1:9092 with its data in ./data
	@exec $(COMPILED_FIRST) $(RUN)/pipeline-broker serve

compare: $(VENV)/compare.stamp $(if $(COMPILED_FIRST),compiled) ## run both modes and write out/compare/report.html
	@$(COMPILED_FIRST) $(RUN)/pipeline-broker compare --out out/compare $(COMPARE)

results: $(VENV)/compare.stamp $(if $(COMPILED_FIRST),compiled) ## the experiment of docs/evidence/results.md, Apache Kafka beside both modes; writes out/results
	@$(COMPILED_FIRST) $(RUN)/pipeline-broker compare --profile full --with-kafka --out out/results $(COMPARE)

test: $(VENV)/dev.stamp ## run every test (WORKERS=4 at a time)
	PYTHONDONTWRITEBYTECODE= $(RUN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

compiled: $(COMPILED)/built ## compile the request path into build/compiled; serve, compare and results use it from then on

test-compiled: compiled $(VENV)/dev.stamp ## run the tests of the compiled packages against the compiled packages
	PYTHONPATH=$(CURDIR)/$(COMPILED):$(CURDIR) PYTHONSAFEPATH=1 REQUIRE_COMPILED=1 \
		$(RUN)/python -m pytest -o pythonpath= -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(COMPILED_TESTS)

test-spark: $(SPARK_VERSIONS:%=test-spark-%) ## test the data source and the sink with other versions of PySpark (SPARK_VERSIONS="4.1.4 4.3.0")

test-spark-%: build/pyspark-%/py.stamp $(VENV)/dev.stamp
	PYTHONPATH=$(CURDIR)/build/pyspark-$*:$(CURDIR) $(RUN)/python -m pytest -q $(SPARK_TESTS) -k "not killed"

lint: $(VENV)/dev.stamp ## check style and form with ruff
	$(RUN)/ruff check
	$(RUN)/ruff format --check

types: $(VENV)/dev.stamp ## check types with mypy
	$(RUN)/mypy

contracts: $(VENV)/dev.stamp ## check which package imports which
	$(RUN)/lint-imports

imports: $(VENV)/dev.stamp ## check that every file of tests can be imported
	$(RUN)/python -m pytest --collect-only -qq >/dev/null || $(RUN)/python -m pytest --collect-only -q

docs: $(VENV)/dev.stamp ## build the site of docs/ into build/docs; a warning is an error
	@$(RUN)/sphinx-build -q -W --keep-going -b html -d build/docs/.doctrees docs build/docs

check: lint types contracts docs imports ## lint, types, contracts, the docs and what tests import

mutants: $(VENV)/dev.stamp ## change the source in one place at a time: tests of the package must notice (ROOM=quotas SAMPLE=60 SEED= LIMIT=seconds)
	@$(RUN)/python -m tests.mutants.campaign --room $(ROOM) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) $(if $(LIMIT),--seconds-max $(LIMIT))

properties: $(VENV)/dev.stamp ## run the ordering properties at length (EXAMPLES=2000)
	EXAMPLES=$(EXAMPLES) $(RUN)/python -m pytest -m properties --capture=no --timeout=0 $(PYTEST)

simulate: $(VENV)/dev.stamp ## simulate the whole broker (SEEDS=10000 scenarios, or SEED=n shows one; STORE=1: on a store of objects, CLUSTER=1: several brokers)
	@$(RUN)/python -m tests.simulation.campaign $(if $(STORE),--store) $(if $(CLUSTER),--cluster) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

kill: $(VENV)/dev.stamp ## kill the broker under load again and again (CYCLES=200)
	CYCLES=$(CYCLES) $(RUN)/python -m pytest -m kill --capture=no --timeout=0

kill-points: $(VENV)/dev.stamp ## kill the broker at every operation of its file system (POINTS=all)
	POINTS=$(POINTS) $(RUN)/python -m pytest -m kill_points --capture=no --timeout=0

power-cuts: $(VENV)/dev.stamp ## cut the broker's power under load again and again (CYCLES=200)
	CYCLES=$(CYCLES) $(RUN)/python -m pytest -m power_cuts --capture=no --timeout=0

object-faults: $(VENV)/dev.stamp ## kill, stop and cut off a broker on a store of objects, and the store (CYCLES=200 LEDGER=out/object-faults.jsonl)
	CYCLES=$(CYCLES) LEDGER=$(or $(LEDGER),out/object-faults.jsonl) \
		$(RUN)/python -m pytest -m object_faults --capture=no --timeout=0

exactly-once: $(VENV)/dev.stamp ## kill and hold transactional copiers of four clients and their broker (SECONDS=900 LEDGER=out/exactly-once.jsonl)
	SECONDS=$(SECONDS) LEDGER=$(or $(LEDGER),out/exactly-once.jsonl) \
		$(RUN)/python -m pytest -m exactly_once --capture=no --timeout=0

streams: $(VENV)/dev.stamp ## kill instances of Kafka Streams applications and their broker (SECONDS=900 LEDGER=out/streams.jsonl AGAINST=kafka)
	SECONDS=$(SECONDS) AGAINST=$(AGAINST) LEDGER=$(or $(LEDGER),out/streams.jsonl) \
		$(RUN)/python -m pytest -m kafka_streams --capture=no --timeout=0

faults: $(VENV)/dev.stamp ## all faults at length (CYCLES=200 POINTS=all SECONDS=1200 LEDGER=out/faults.jsonl)
	AT_LENGTH=1 CYCLES=$(CYCLES) POINTS=$(POINTS) SECONDS=$(SECONDS) LEDGER=$(or $(LEDGER),out/faults.jsonl) \
		$(RUN)/python -m pytest tests/crashes tests/tools --capture=no --timeout=0 $(PYTEST)

hostile: $(VENV)/dev.stamp ## send every version of every API its largest requests, others being served meanwhile
	AT_LENGTH=1 $(RUN)/python -m pytest tests/hostile --capture=no --timeout=0 $(PYTEST)

soak: $(VENV)/dev.stamp ## one directory, mixed load, a kill a minute (SECONDS=1200); writes out/soak
	SECONDS=$(SECONDS) OUT=$(or $(OUT),out/soak) $(RUN)/python -m pytest -m soak --capture=no --timeout=0

live: $(VENV)/compare.stamp ## a broker under load, its stages by Spark's Structured Streaming (LIVE_SECONDS=60 LIVE_MODE=)
	@$(RUN)/python scripts/live.py --seconds $(LIVE_SECONDS) --mode $(LIVE_MODE)

live-kill: $(VENV)/dev.stamp ## kill the streaming job of live and start it again, with Spark's Kafka connector
	AT_LENGTH=1 $(RUN)/python -m pytest tests/spark_analysis/test_live_job.py

cluster: $(VENV)/dev.stamp ## the analysis on a Spark cluster of a master and two workers, beside one process
	AT_LENGTH=1 $(RUN)/python -m pytest tests/spark_analysis/test_cluster.py $(PYTEST)

connector: $(VENV)/dev.stamp ## read topics by the data source and by Spark's Kafka connector, in 260 ways
	AT_LENGTH=1 $(RUN)/python -m pytest tests/pyspark_pipeline_broker/test_beside_the_connector.py $(PYTEST)

plugin-runs: $(VENV)/dev.stamp ## the pytest plugin with all clients under xdist in random order, again and again (RUNS=50)
	RUNS=$(RUNS) $(RUN)/python -m pytest -m plugin_runs tests/test_plugin_runs.py --capture=no --timeout=0

bench: $(VENV)/dev.stamp ## measure the figures of docs/evidence/performance.md
	@for script in benchmarks/bench_*.py; do $(RUN)/python $$script || exit 1; done

targets: $(VENV)/dev.stamp ## every target that measures or campaigns, and every benchmark, at its smallest size
	@$(RUN)/python scripts/check_targets.py

suites: $(VENV)/dev.stamp ## third-party client suites against our broker, one table (MODES= SUITES= SUITES_DIR= BROKERS=3 BOOTSTRAP=2 STORE=s3://BUCKET/PREFIX)
	@$(RUN)/python scripts/run_suites.py --suites-dir $(SUITES_DIR) --modes "$(MODES)" $(if $(BROKERS),--brokers $(BROKERS)) $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP)) $(if $(STORE),--store $(STORE)) $(SUITES)

wheel: $(VENV)/build.stamp ## build dist/*.whl: the pure wheel and, where there is a C compiler, the compiled one
	$(RUN)/hatchling build --target wheel
	@if command -v cc >/dev/null; then $(MAKE) compiled && cp build/wheel/*.whl dist/; \
	else echo "no C compiler (cc): dist holds the pure wheel only"; fi

release: $(VENV)/dev.stamp ## make a release: changelog, commit, tag, dist/, tried on every Python here (VERSION=0.2.0)
	@$(RUN)/python scripts/release.py $(VERSION)

system-packages: ## install the Debian packages that some tests need
	@sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	$$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $(SYSTEM_PACKAGES)

clean: ## remove what builds, tests and reports left behind (not .venv, not data)
	rm -rf out dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis examples/.hypothesis .import_linter_cache metastore_db spark-warehouse derby.log
	find stages pipeline_broker pipeline_charts pyspark_pipeline_broker spark_analysis tests examples benchmarks scripts -name __pycache__ -prune -exec rm -rf {} +

build/pyspark-%/py.stamp: | $(VENV)/dev.stamp
	@echo "installing PySpark $* into build/pyspark-$*; this happens once"
	@$(PIP) install --no-deps --no-build-isolation --target build/pyspark-$* pyspark==$*
	@touch $@

$(COMPILED)/built: pyproject.toml hatch_build.py $(shell find stages pipeline_broker -name '*.py') | $(VENV)/build.stamp
	rm -rf $(COMPILED) build/wheel
	PIPELINE_BROKER_COMPILE=1 $(RUN)/hatchling build --target wheel --directory build/wheel
	$(RUN)/python -m zipfile -e build/wheel/*.whl $(COMPILED)
	ln -s ../../data $(COMPILED)/data
	@touch $@

$(RUN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	{ echo "Python 3.11 or newer is needed, and $(PYTHON) is not; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# $(1): the stamp, $(2): the extras, $(3): the stamps of what is installed with it, $(4): packages for builds
define INSTALLATION
$(VENV)/$(1).stamp: pyproject.toml constraints.txt | $(RUN)/python
	@echo "installing Python packages into $(VENV); this happens once"
	@$(PIP) install --constraint constraints.txt editables hatchling setuptools $(4)
	@$(PIP) install --no-build-isolation --constraint constraints.txt --editable '.$(2)'
	@touch $(addprefix $(VENV)/,$(addsuffix .stamp,$(1) $(3)))
endef
$(eval $(call INSTALLATION,build,,,mypy))
$(eval $(call INSTALLATION,serve,[dashboard$(comma)oauth$(comma)pkcs12]))
$(eval $(call INSTALLATION,compare,[compare$(comma)spark$(comma)dashboard$(comma)oauth$(comma)pkcs12],serve))
$(eval $(call INSTALLATION,dev,[compare$(comma)spark$(comma)dashboard$(comma)objects$(comma)oauth$(comma)pkcs12$(comma)schema-registry$(comma)dev],serve compare))
