#!/usr/bin/env bash
# Run third-party client suites against the broker, in both modes, each suite with a fresh broker.
#
#   scripts/run_suites.sh SUITES_DIR PORT ["SUITE [ARGUMENT]"...]
#
# A suite is a program in SUITES_DIR that takes BOOTSTRAP and OUT.json; an argument of its own may follow its name. Without one,
# "python_clients.py" and "librdkafka.sh smoke" run. Results go to out/suites/MODE-SUITE.json, what a broker says beside them.
# The exit status is 1 when a suite failed in either mode.
set -euo pipefail
suites_dir=$1 port=$2
shift 2
[ $# -gt 0 ] || set -- "python_clients.py" "librdkafka.sh smoke"

cd "$(dirname "$0")/.."
if [ ! -x "$suites_dir/with_broker.sh" ]; then
  echo "no client suites in $suites_dir: skipped; name their folder with SUITES_DIR=..." >&2
  exit 0
fi

settings="--set num.partitions=4 --set group.min.session.timeout.ms=1000 --set group.initial.rebalance.delay.ms=0"
failed=0
mkdir -p out/suites
for mode in classic pipelined; do
  for suite in "$@"; do
    read -r program arguments <<< "$suite"
    out=out/suites/$mode-${program%.*}
    data=$(mktemp -d)
    echo "$suite, $mode"
    broker="$PWD/.venv/bin/pipeline-broker serve --mode $mode --port $port --data $data $settings"
    # shellcheck disable=SC2086  # arguments are words on purpose
    BROKER_LOG=$out.log "$suites_dir/with_broker.sh" "$port" "$broker" \
      env PATH="$PWD/.venv/bin:$PATH" "$suites_dir/$program" "127.0.0.1:$port" "$out.json" ${arguments:-} || failed=1
    rm -rf "$data"
  done
done
exit "$failed"
