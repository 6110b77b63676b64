#!/usr/bin/env bash
# All that is measured of `route` on one GPU, within a time: ROUTE_MODEL=FOLDER bash benchmarks/gpu/route.sh
#
# In turn: can solutions be confined and graded; sampling with CUDA graphs against plain sampling; bases, memory and what
# ten splits cost a step; which levels the model solves in part (the later steps train on these); the calibration seed
# with all splits and an evaluation; three seeds on one card; one of them killed and resumed.  A step that fails or is cut
# ends no other one, and all but the first need not wait for what failed.  Results are in benchmarks/results as they
# come, and after each step with all logs in one file, ROUTE_RESULTS/route.tgz.
# ROUTE_DEVICE=cpu with a tiny model runs the same steps on a processor; choose small numbers then.
set -u
export ROUTE_MODEL=${ROUTE_MODEL:?a folder} ROUTE_DEVICE=${ROUTE_DEVICE:-cuda} ROUTE_SECONDS=${ROUTE_SECONDS:-1400}
export ROUTE_WORK=${ROUTE_WORK:-outputs/route-work} ROUTE_RESULTS=${ROUTE_RESULTS:-outputs/route-results}
export ROUTE_PYTHON=${ROUTE_PYTHON:-python3} ROUTE_CONFIG=${ROUTE_CONFIG:-configs/route.yaml}
export ROUTE_TOKENS=${ROUTE_TOKENS:-256} ROUTE_PROMPTS=${ROUTE_PROMPTS:-8} ROUTE_STEPS=${ROUTE_STEPS:-60} ROUTE_SAMPLES=${ROUTE_SAMPLES:-64}
export ROUTE_PROBLEMS=${ROUTE_PROBLEMS:-1000} ROUTE_LEVEL_SAMPLES=${ROUTE_LEVEL_SAMPLES:-16} ROUTE_SEEDS=${ROUTE_SEEDS:-1 2 3}
export ROUTE_KILLED_STEPS=${ROUTE_KILLED_STEPS:-25} ROUTE_SHAPE=${ROUTE_SHAPE:-}
export TOKENIZERS_PARALLELISM=false

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
work=$ROUTE_WORK
began=$(date +%s)
mkdir -p "$work" "$ROUTE_RESULTS"
rm -f "$work"/*.out
: > "$work/began"
: > "$work/steps.txt"
rm -f "$work"/levels.env "$work"/pool.json
rm -rf "$work"/seed* "$work"/killed*

note() { echo "[$(($(date +%s) - began)) s] $*" | tee -a "$work/steps.txt"; }
keep() { # all results and logs as one small file
  tar czf "$ROUTE_RESULTS/route.tmp" $(find benchmarks/results -name 'gpu_route_*.json' -newer "$work/began") $(ls "$work"/*.out "$work"/*.txt "$work"/*/errors.txt 2>/dev/null) 2>/dev/null
  mv "$ROUTE_RESULTS/route.tmp" "$ROUTE_RESULTS/route.tgz"
}
until_at() { # seconds from now to a moment, in thousandths of the whole time
  n=$((began + ROUTE_SECONDS * $1 / 1000 - $(date +%s)))
  [ $n -gt 0 ] && echo $n || echo 0
}
step() { # NAME MOMENT COMMAND...: a step and until when
  seconds=$(until_at "$2")
  if [ "$seconds" -lt 8 ]; then note "$1: no time is left"; return; fi
  note "$1, $seconds s at most"
  timeout -s INT -k 10 "$seconds" "${@:3}" > "$work/$1.out" 2>&1
  note "$1 ended with $?"
  tail -n 60 "$work/$1.out"
  keep
}
shared=(--model "$ROUTE_MODEL" --device "$ROUTE_DEVICE" --folder "$work" --config "$ROUTE_CONFIG" --tokens "$ROUTE_TOKENS" --prompts "$ROUTE_PROMPTS")
py=("$ROUTE_PYTHON")
# Inside of a step what it computes ends a little before it is cut.
inside() { n=$(($(until_at "$1") - 8)); [ $n -gt 1 ] && echo $n || echo 1; }

note "began with $ROUTE_MODEL on $ROUTE_DEVICE"
step sandbox 60 "${py[@]}" "$here/route_sandbox.py"
step decoding 140 "${py[@]}" "$here/route_decoding.py" "${shared[@]}" --seconds "$(inside 140)"
bases=(--model "$ROUTE_MODEL")
[ -n "$ROUTE_SHAPE" ] && bases=(--shape "$ROUTE_SHAPE")
overhead=("${py[@]}" "$here/route.py" "${bases[@]}" --device "$ROUTE_DEVICE" --rows $((8 * ROUTE_PROMPTS)) --completion $((ROUTE_TOKENS / 2)) --pairs-of-steps 3)
step overhead 190 "${overhead[@]}" --targets q_proj o_proj --result gpu_route_overhead
step overhead_all 240 "${overhead[@]}" --result gpu_route_overhead_all
step levels 310 "${py[@]}" "$here/route_levels.py" "${shared[@]}" --samples "$ROUTE_LEVEL_SAMPLES" --problems "$ROUTE_PROBLEMS" \
  --variables "$work/levels.env" --seconds "$(inside 310)"
LEVELS="1 2 3 4"
[ -e "$work/levels.env" ] && . "$work/levels.env"
note "levels $LEVELS"
shared+=(--levels $LEVELS)
step calibration 640 "${py[@]}" "$here/route_calibration.py" "${shared[@]}" --steps "$ROUTE_STEPS" --samples "$ROUTE_SAMPLES" --seconds "$(inside 640)"
step seeds 890 "${py[@]}" "$here/route_seeds.py" together "${shared[@]}" --seeds $ROUTE_SEEDS --steps "$ROUTE_STEPS" --seconds "$(inside 890)"
step killed 990 "${py[@]}" "$here/route_seeds.py" killed "${shared[@]}" --seeds $ROUTE_SEEDS --steps "$ROUTE_KILLED_STEPS" --seconds "$(inside 990)"
for file in "$work"/calibration_step* "$work"/seed*/step"$ROUTE_STEPS"; do # large: beside the small file
  [ -e "$file" ] && cp "$file" "$ROUTE_RESULTS/$(basename "$(dirname "$file")")-$(basename "$file")"
done
keep
note "end; $ROUTE_RESULTS/route.tgz has $(stat -c %s "$ROUTE_RESULTS/route.tgz") bytes"
