#!/usr/bin/env bash
# What is measured of `route` on one GPU, within a time: ROUTE_MODEL=FOLDER bash benchmarks/gpu/route.sh
#
# ROUTE_PARTS are done in this order, each within its own limit and what is left of ROUTE_SECONDS:
#   decoding     gradients are finite, memory, bases, sampling with CUDA graphs against plain sampling
#   calibration  seed 100 with the band and live rows at two steps, what is deployed of it, and rule R12's mode B
#   killed       the same seed as the farm's child, killed with SIGKILL and resumed, against the undisturbed one
#   seeds        three seeds on one card
#   sandbox, overhead, overhead_all, levels: can solutions be graded, what ten splits cost, which levels are solved in part
# A part that fails or is cut ends no other one.  ROUTE_RESULTS/figures has the figures as they come, ROUTE_RESULTS/route.tgz
# figures and logs, packed every few seconds, with the last checkpoints beside it.  When the script ends, or is ended, no
# process of it stays.  ROUTE_DEVICE=cpu with a tiny model runs the same on a processor; choose small numbers then.
set -u
export ROUTE_MODEL=${ROUTE_MODEL:?a folder} ROUTE_DEVICE=${ROUTE_DEVICE:-cuda} ROUTE_SECONDS=${ROUTE_SECONDS:-780}
export ROUTE_WORK=${ROUTE_WORK:-outputs/route-work} ROUTE_RESULTS=${ROUTE_RESULTS:-outputs/route-results}
export ROUTE_PYTHON=${ROUTE_PYTHON:-python3} ROUTE_CONFIG=${ROUTE_CONFIG:-configs/route.yaml}
export ROUTE_PARTS=${ROUTE_PARTS:-decoding calibration killed seeds} ROUTE_GIB=${ROUTE_GIB:-72}
export ROUTE_TOKENS=${ROUTE_TOKENS:-256} ROUTE_PROMPTS=${ROUTE_PROMPTS:-8} ROUTE_STEPS=${ROUTE_STEPS:-60} ROUTE_SAMPLES=${ROUTE_SAMPLES:-64}
export ROUTE_SPLITS=${ROUTE_SPLITS:-real ceiling uniform random_0 random_1 random_2} # of the calibration
export ROUTE_PROBLEMS=${ROUTE_PROBLEMS:-1000} ROUTE_LEVEL_SAMPLES=${ROUTE_LEVEL_SAMPLES:-16} ROUTE_SEEDS=${ROUTE_SEEDS:-1 2 3}
export ROUTE_KILLED_STEPS=${ROUTE_KILLED_STEPS:-25} ROUTE_SHAPE=${ROUTE_SHAPE:-} ROUTE_PACK_S=${ROUTE_PACK_S:-10}
export TOKENIZERS_PARALLELISM=false

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$ROUTE_WORK" "$ROUTE_RESULTS/figures"
work=$(cd "$ROUTE_WORK" && pwd)
results=$(cd "$ROUTE_RESULTS" && pwd)
ROUTE_MODEL=$(cd "$ROUTE_MODEL" && pwd) || exit 1
cd "$root" || exit 1
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} WHETSTONE_RESULTS=$results/figures
began=$(date +%s)
rm -rf "$work"/*.out "$work"/steps.txt "$work"/levels.env "$work"/pool.json "$work"/seed* "$work"/killed* "$results"/figures/*

note() { echo "[$(($(date +%s) - began)) s] $*" | tee -a "$work/steps.txt"; }
left() { echo $((began + ROUTE_SECONDS - $(date +%s))); }
keep() { # all figures and logs as one small file, which is whole at any moment
  local temporary="$results/.route.$BASHPID"
  (cd "$work" && tar czf "$temporary" -C "$results" figures -C "$work" $(ls -d ./*.out ./*.txt ./*/errors.txt 2>/dev/null)) 2>/dev/null
  mv "$temporary" "$results/route.tgz"
}
exec {pause}<> <(:)
keep_on() { # as long as this script lives
  while kill -0 $$ 2>/dev/null; do
    read -rt "$ROUTE_PACK_S" -u "$pause"
    keep
  done
}
group=
end_group() { # the part that runs, with all that it has started
  [ -n "$group" ] && kill -KILL -- "-$group" 2>/dev/null
  group=
}
packer=
end_all() {
  end_group
  [ -n "$packer" ] && kill "$packer" 2>/dev/null
  packer=
  rm -f "$results"/.route.*
}
trap end_all EXIT
trap 'exit 143' TERM INT HUP

part() { # NAME LIMIT COMMAND...: within so many thousandths of the whole time, and what is left
  local seconds=$((ROUTE_SECONDS * $2 / 1000)) rest=$(($(left) - 8))
  [ "$seconds" -gt "$rest" ] && seconds=$rest
  if [ "$seconds" -lt 8 ]; then note "$1: no time is left"; return; fi
  note "$1, $seconds s at most"
  # It ends by itself a little before it is cut; `timeout` leads its group, and the kernel ends it when this script dies.
  local command=("${@:3}")
  command=("${command[@]/#LEFT/$((seconds > 24 ? seconds - 12 : seconds / 2))}")
  "$ROUTE_PYTHON" "$root/tasks/die_with_parent.py" $$ 15 timeout -s TERM -k 5 "$seconds" "${command[@]}" > "$work/$1.out" 2>&1 &
  group=$!
  wait "$group"
  local status=$?
  end_group
  note "$1 ended with $status"
  tail -n 60 "$work/$1.out"
  for file in "$work"/calibration_step* "$work"/seed[0-9]/step"$ROUTE_STEPS"; do # large: beside the small file
    [ -e "$file" ] && cp "$file" "$results/$(basename "$(dirname "$file")")-$(basename "$file")"
  done
  keep
}
py=("$ROUTE_PYTHON")
shared=(--model "$ROUTE_MODEL" --device "$ROUTE_DEVICE" --folder "$work" --config "$ROUTE_CONFIG" --tokens "$ROUTE_TOKENS"
  --prompts "$ROUTE_PROMPTS" --gib "$ROUTE_GIB" --seconds LEFT)
bases=(--model "$ROUTE_MODEL")
[ -n "$ROUTE_SHAPE" ] && bases=(--shape "$ROUTE_SHAPE")
overhead=("${py[@]}" "$here/route.py" "${bases[@]}" --device "$ROUTE_DEVICE" --rows $((8 * ROUTE_PROMPTS)) --completion $((ROUTE_TOKENS / 2)) --pairs-of-steps 3)

note "began with $ROUTE_MODEL on $ROUTE_DEVICE: $ROUTE_PARTS"
keep_on &
packer=$!
for name in $ROUTE_PARTS; do
  case $name in
    sandbox) part sandbox 60 "${py[@]}" "$here/route_sandbox.py" ;;
    decoding) part decoding 160 "${py[@]}" "$here/route_decoding.py" "${shared[@]}" ;;
    overhead) part overhead 100 "${overhead[@]}" --targets q_proj o_proj --result gpu_route_overhead ;;
    overhead_all) part overhead_all 100 "${overhead[@]}" --result gpu_route_overhead_all ;;
    levels)
      part levels 150 "${py[@]}" "$here/route_levels.py" "${shared[@]}" --samples "$ROUTE_LEVEL_SAMPLES" \
        --problems "$ROUTE_PROBLEMS" --variables "$work/levels.env"
      if [ -e "$work/levels.env" ]; then
        . "$work/levels.env"
        shared+=(--levels $LEVELS)
      fi ;;
    calibration)
      part calibration 760 "${py[@]}" "$here/route_calibration.py" "${shared[@]}" --splits $ROUTE_SPLITS \
        --steps "$ROUTE_STEPS" --samples "$ROUTE_SAMPLES" ;;
    killed)
      part killed 400 "${py[@]}" "$here/route_seeds.py" killed "${shared[@]}" --splits $ROUTE_SPLITS --seeds 100 \
        --steps "$ROUTE_KILLED_STEPS" ;;
    seeds) part seeds 1000 "${py[@]}" "$here/route_seeds.py" together "${shared[@]}" --seeds $ROUTE_SEEDS --steps "$ROUTE_STEPS" ;;
    *) note "there is no part $name" ;;
  esac
done
note end
keep
