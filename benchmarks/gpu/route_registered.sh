#!/usr/bin/env bash
# The registered test of `route` on one or two GPUs: ROUTE_MODEL=FOLDER bash benchmarks/gpu/route_registered.sh
#
# A farm of its own (Valkey, cpu worker, and a gpu worker on each of ROUTE_CARDS with ROUTE_SLOTS children at a time), and
# `orchestrator route` with ROUTE_CONFIG on it, ROUTE_JOBS trainings in flight (one for each seed).  The trajectories come
# in the order of the config: first those of the primary test.  Cut by ROUTE_SECONDS or anything else,
# the same command goes on: the run's folder has its journal and its checkpoints, and ROUTE_WORK/farm the store.
# ROUTE_SEEDS and ROUTE_TRAJECTORIES, names with a space between, take the place of the config's.
# ROUTE_RESULTS/registered.tgz has the run's files but for its checkpoints, packed every ROUTE_PACK_S seconds.
set -u
export ROUTE_MODEL=${ROUTE_MODEL:?a folder} ROUTE_CONFIG=${ROUTE_CONFIG:-configs/route.yaml}
export ROUTE_WORK=${ROUTE_WORK:-outputs/route-work} ROUTE_RESULTS=${ROUTE_RESULTS:-outputs/route-results}
export ROUTE_PYTHON=${ROUTE_PYTHON:-python3} ROUTE_SECONDS=${ROUTE_SECONDS:-1000} ROUTE_PACK_S=${ROUTE_PACK_S:-10}
export ROUTE_CARDS=${ROUTE_CARDS:-0 1} ROUTE_SLOTS=${ROUTE_SLOTS:-2} ROUTE_JOBS=${ROUTE_JOBS:-3} TOKENIZERS_PARALLELISM=false
export ROUTE_SEEDS=${ROUTE_SEEDS:-} ROUTE_TRAJECTORIES=${ROUTE_TRAJECTORIES:-}

root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$ROUTE_WORK" "$ROUTE_RESULTS"
work=$(cd "$ROUTE_WORK" && pwd) results=$(cd "$ROUTE_RESULTS" && pwd)
cd "$root" || exit 1
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
read -r -a cards <<< "$ROUTE_CARDS"
farm=(--config configs/embedded.config --set "FARM_DIR=$work/farm")
orchestrator() { "$ROUTE_PYTHON" -m orchestrator "$@"; }
note() { echo "[$SECONDS s] $*" | tee -a "$work/registered.txt"; }
keep() {
  local found
  mapfile -t found < <(cd "$work" && find . \( -path ./farm -o -name checkpoints \) -prune -o -type f -print; find ./farm/logs -type f)
  tar czf "$results/.registered" -C "$work" "${found[@]}" 2> /dev/null
  mv "$results/.registered" "$results/registered.tgz"
}
workers=() run=
end_all() {
  trap - EXIT
  [ -n "$run" ] && kill "$run" 2> /dev/null && wait "$run" # first of all: the farm is there while it ends
  kill "${workers[@]}" 2> /dev/null
  orchestrator farm down "${farm[@]}" > /dev/null 2>&1
  wait
  keep
}
trap end_all EXIT
trap 'exit 143' TERM INT HUP

# The settings with the model's folder in place of its name; the run's folder is in ROUTE_WORK.
"$ROUTE_PYTHON" - "$ROUTE_CONFIG" "$work/registered.yaml" "$ROUTE_MODEL" "$work/runs" << 'END' || exit 1
import os, sys, yaml
config, to, model, runs = sys.argv[1:]
with open(config) as file:
    settings = yaml.safe_load(file)
settings["model"]["model_name_or_path"] = model
if seeds := os.environ["ROUTE_SEEDS"].split():
    settings["training"]["seeds"] = [int(seed) for seed in seeds]
if trajectories := os.environ["ROUTE_TRAJECTORIES"].split():
    settings["training"]["trajectories"] = trajectories
    if "ablated" not in trajectories:
        settings["training"].pop("rollout_ablate_frac", None)  # a setting of that one alone
settings["output"] = {"root": runs, "run_id": "registered"}  # the same command goes on
with open(to, "w") as file:
    yaml.safe_dump(settings, file, sort_keys=False)
END
CUDA_VISIBLE_DEVICES=${cards[0]} orchestrator farm up "${farm[@]}" > "$work/farm.txt" 2>&1 || { cat "$work/farm.txt"; exit 1; }
url=$(orchestrator farm status "${farm[@]}" --json | "$ROUTE_PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["redis_url"])')
note "the farm is up: $url"
for card in "${cards[@]:1}"; do
  WHETSTONE_REDIS_URL=$url CUDA_VISIBLE_DEVICES=$card setpriv --pdeathsig TERM \
    "$ROUTE_PYTHON" -m workers gpu --name "gpu-card$card" --concurrency "$ROUTE_SLOTS" > "$work/gpu-card$card.log" 2>&1 &
  workers+=($!)
done
(while sleep "$ROUTE_PACK_S"; do keep; done) &
workers+=($!)
setpriv --pdeathsig TERM timeout -s TERM -k 15 "$ROUTE_SECONDS" "$ROUTE_PYTHON" -m orchestrator \
  route --config "$work/registered.yaml" --farm external --redis-url "$url" --gpu-jobs "$ROUTE_JOBS" &
run=$!
wait "$run"
status=$? run=
note "route ended with $status"
orchestrator route report "$work/runs/registered"
exit "$status"
