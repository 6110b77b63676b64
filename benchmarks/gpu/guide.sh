#!/usr/bin/env bash
# What is measured of `guide` on a GPU, within a time: GUIDE_MODEL=FOLDER bash benchmarks/gpu/guide.sh
#
# By default learning, a server for each seed: `learn SEED`, then `conditions SEED`; on one more server, with
# deterministic inference, `repeat`; then `flips`, there or, where GUIDE_CARDS has two or more cards, on a server of its
# own.  Servers are spread over the cards in turn.  `bash guide.sh STEP ARGUMENTS` runs one step on the server in
# WHETSTONE_GUIDE_URL; other steps are look, confirm, gate, form, latency.  Each step has its part of GUIDE_SECONDS.  At
# the end no process of a step is left.  GUIDE_RESULTS/guide.tgz has all results and logs, and what the runs have
# learned; it is made anew every few seconds.  GUIDE_ENGINE=embedded GUIDE_MODEL=embedded runs the same on a processor;
# choose small numbers then.
#
# How long it takes, for the numbers below: an answer has 23 tokens, and a server gave 280 a second (docs/performance.md).
#   A mission's epoch has 8 batches of 32 tickets with 8 answers, 2,048, and at most 8 previews of 128 tickets, 8,192, and
#   1,024 for each guidance that they are compared with; the last pass has 384 tickets, 3,072, and 1,024 for the first
#   guidance.  With two edits applied 4 missions have at most about 70,000 answers in one epoch, 250 s; a batch in which
#   nothing is judged wrong has no preview.  Two epochs are at most about 125,000 answers, 450 s.
#   A run of one epoch ends first.  The run of two takes its answers from the store, and is begun when as much time is
#   left as the first one took.
#   conditions: 4 missions, 6 conditions, 300 greedy and 700 sampled first lines: 24,000, 60 s at 400 a second.
#   repeat: two runs of 64 training and 32 held-out tickets, at most 9,200 answers each: 35 to 60 s each.
#   flips: a seed has 256 answers, a proposal, 96 held-out tickets with 8 first lines and 200 test tickets with one, all
#   twice: 2,200, so 100 seeds take 550 s of a server alone; those that are done by the end count.
set -u
export GUIDE_MODEL=${GUIDE_MODEL:?a folder, or embedded} GUIDE_ENGINE=${GUIDE_ENGINE:-sglang}
export GUIDE_SECONDS=${GUIDE_SECONDS:-750} GUIDE_WORK=${GUIDE_WORK:-outputs/guide-work} GUIDE_RESULTS=${GUIDE_RESULTS:-outputs/guide-results}
export GUIDE_PYTHON=${GUIDE_PYTHON:-python3} GUIDE_SERVER=${GUIDE_SERVER:-python3 -m sglang.launch_server} GUIDE_CARDS=${GUIDE_CARDS-0}
arguments="--attention-backend triton --sampling-backend pytorch --mem-fraction-static 0.85 --max-total-tokens 200000 --constrained-json-disable-any-whitespace"
[ "$GUIDE_ENGINE" = embedded ] && arguments=
export GUIDE_ARGS=${GUIDE_ARGS-$arguments}
export GUIDE_SHAPE=${GUIDE_SHAPE:-stated} GUIDE_PROMPT=${GUIDE_PROMPT:-turns_own} GUIDE_WORDING=${GUIDE_WORDING:-plain}
export GUIDE_SHAPES=${GUIDE_SHAPES:-stated stated_two told stated_three half_two one}
export GUIDE_FORMS=${GUIDE_FORMS:-turns_own turns_strict turns} GUIDE_WORDINGS=${GUIDE_WORDINGS:-plain contrast}
export GUIDE_MISSIONS=${GUIDE_MISSIONS:-0 1 2 3} GUIDE_SEEDS=${GUIDE_SEEDS-11 12 13 14 15}
export GUIDE_TRAINING=${GUIDE_TRAINING:-384} GUIDE_EPOCHS=${GUIDE_EPOCHS:-1 2} GUIDE_REPEATED=${GUIDE_REPEATED:-96}
export GUIDE_TEST=${GUIDE_TEST:-300} GUIDE_SAMPLED=${GUIDE_SAMPLED:-100}
export GUIDE_FLIPS=${GUIDE_FLIPS:-100} GUIDE_HELD=${GUIDE_HELD:-96} GUIDE_FLIP_TEST=${GUIDE_FLIP_TEST:-200}
export GUIDE_LOOK=${GUIDE_LOOK:-32} GUIDE_FORMED=${GUIDE_FORMED:-24} GUIDE_GATE=${GUIDE_GATE:-384} GUIDE_LATENCIES=${GUIDE_LATENCIES:-1024}
export GUIDE_PROCESSES=${GUIDE_PROCESSES:-4} GUIDE_IN_FLIGHT=${GUIDE_IN_FLIGHT:-256} GUIDE_JOBS=${GUIDE_JOBS:-192}
export GUIDE_SETTINGS=${GUIDE_SETTINGS:-} # further settings of all runs, as section.key=VALUE
export GUIDE_BEGAN=${GUIDE_BEGAN:-$(date +%s)}

here=$(cd "$(dirname "$0")" && pwd)
script=$here/guide.sh
work=$GUIDE_WORK
settings=(--set reflection.allow_uncertain=true)
for setting in $GUIDE_SETTINGS; do settings+=(--set "$setting"); done
direct=("${settings[@]}") # where no farm is: the embedded engine's critic and reflector are rules of one
[ "$GUIDE_ENGINE" = embedded ] && direct+=(--set critic.enabled=false --set reflection.backend=target --set reflection.batch_size=2 --set reflection.max_new_tokens=300)
missions=(--shape "$GUIDE_SHAPE" --prompt "$GUIDE_PROMPT" --missions $GUIDE_MISSIONS)

at() { echo $((GUIDE_BEGAN + GUIDE_SECONDS * $1 / 1000)); }  # a moment, in thousandths of the whole time
left() { n=$(($(at "$1") - $(date +%s))); [ $n -gt 3 ] && echo $n || echo 3; }
note() { echo "[$(($(date +%s) - GUIDE_BEGAN)) s] $*" | tee -a "$work/steps.txt"; }
run() { # SCRIPT FOLDER OPTIONS...: one of the benchmarks with what they share
  "$GUIDE_PYTHON" "$here/$1.py" --model "$GUIDE_MODEL" --engine "$GUIDE_ENGINE" --processes "$GUIDE_PROCESSES" \
    --in-flight "$GUIDE_IN_FLIGHT" --folder "$work/$2" "${@:3}"
}

learn() { # SEED
  note learn "$1"
  run guide_learning "learn-$1" "${missions[@]}" --seeds "$1" --training "$GUIDE_TRAINING" --epochs $GUIDE_EPOCHS \
    --rollout-jobs "$GUIDE_JOBS" --seconds "$(left 830)" "${settings[@]}" --result "gpu_guide_learning_$1"
}
conditions() { # SEED
  note conditions "$1"
  run guide_conditions "conditions-$1" --learned "gpu_guide_learning_$1" --wording "$GUIDE_WORDING" --test "$GUIDE_TEST" \
    --sampled "$GUIDE_SAMPLED" --seconds "$(left 940)" --result "gpu_guide_conditions_$1"
  "$GUIDE_PYTHON" "$here/guide_reflections.py" "gpu_guide_learning_$1" --result "gpu_guide_reflections_$1"
}
repeat() {
  note repeat
  run guide_repeat repeat "${missions[@]}" --seeds 31 --training "$GUIDE_REPEATED" --rollout-jobs "$GUIDE_JOBS" \
    --set runner.epochs=1 --seconds "$(left 700)" "${settings[@]}"
}
flips() {
  note flips
  GUIDE_PROCESSES=$((2 * GUIDE_PROCESSES)) run guide_flipped flips --shape "$GUIDE_SHAPE" --prompt "$GUIDE_PROMPT" --wording "$GUIDE_WORDING" --seeds "$GUIDE_FLIPS" \
    --holdout "$GUIDE_HELD" --test "$GUIDE_FLIP_TEST" --seconds "$(left 930)" "${direct[@]}"
}
look() {
  note look
  run guide_tickets look --shapes $GUIDE_SHAPES --prompts $GUIDE_FORMS --wordings $GUIDE_WORDINGS --missions $GUIDE_MISSIONS \
    --tickets "$GUIDE_LOOK" --stages verdicts --seed 1 --seconds "$(left 900)" --result gpu_guide_look
  "$GUIDE_PYTHON" "$here/guide_choice.py" --variables "$work/choice.env"
}
confirm() {
  note confirm
  run guide_tickets confirm --shapes "$GUIDE_SHAPE" --prompts "$GUIDE_PROMPT" --wordings "$GUIDE_WORDING" --missions $GUIDE_MISSIONS \
    --tickets "$((2 * GUIDE_LOOK))" --stages verdicts --seed 2 --seconds "$(left 930)" --result gpu_guide_confirm
  "$GUIDE_PYTHON" "$here/guide_choice.py" --tickets-result gpu_guide_confirm --result gpu_guide_confirmed
}
gate() {
  note gate
  run guide_gate_model gate --shape "$GUIDE_SHAPE" --prompt "$GUIDE_PROMPT" --wording "$GUIDE_WORDING" --tickets "$GUIDE_GATE" \
    --seconds "$(left 930)"
}
form() {
  note form
  run guide_tickets form --shapes "$GUIDE_SHAPE" --prompts "$GUIDE_PROMPT" --wordings "$GUIDE_WORDING" --missions $GUIDE_MISSIONS \
    --stages form --formed "$GUIDE_FORMED" --seed 2 --seconds "$(left 930)" --result gpu_guide_form
}
latency() {
  note latency
  run guide_latency latency --shape "$GUIDE_SHAPE" --prompt "$GUIDE_PROMPT" --candidates "$GUIDE_LATENCIES" "${direct[@]}"
}
served() { # NAME CARD ARGUMENTS STEPS...: a server, and its steps in turn
  export CUDA_VISIBLE_DEVICES=$2
  exec "$GUIDE_PYTHON" "$here/guide_served.py" --model "$GUIDE_MODEL" --engine "$GUIDE_ENGINE" --command "$GUIDE_SERVER" \
    --args "$3" --folder "$work/server-$1" --seconds "$(left 950)" "${@:4}" > "$work/server-$1.out" 2>&1
}
keep() { # results, logs and what runs have learned, as one small file
  {
    ls -d benchmarks/results/gpu_guide_*.json "$work"/*.txt "$work"/*.out "$work"/server-*/*.log
    find "$work" -path '*/runs/*' \( -name reflection.jsonl -o -name guidance.json -o -name stats.json \)
    find "$work" -maxdepth 2 -name 'seed-*.log'
  } 2> /dev/null | tar czf "$GUIDE_RESULTS/guide.tmp" --ignore-failed-read -T - 2> /dev/null
  mv "$GUIDE_RESULTS/guide.tmp" "$GUIDE_RESULTS/guide.tgz"
}

mkdir -p "$work" "$GUIDE_RESULTS"
if [ $# -gt 0 ]; then "$@"; exit; fi
rm -f "$work/steps.txt" "$work"/server-*/groups.txt benchmarks/results/gpu_guide_{learning,conditions,reflections}_*.json benchmarks/results/gpu_guide_{repeat,flipped}.json
deterministic=$GUIDE_ARGS
[ "$GUIDE_ENGINE" = sglang ] && deterministic="$GUIDE_ARGS --enable-deterministic-inference"
read -r -a cards <<< "$GUIDE_CARDS"
count=${#cards[@]} number=0 servers=()
serve() { # NAME ARGUMENTS STEPS...
  served "$1" "${cards[number % (count > 0 ? count : 1)]:-}" "${@:2}" &
  servers+=($!) number=$((number + 1))
}
for seed in $GUIDE_SEEDS; do serve "$seed" "$GUIDE_ARGS" "bash $script learn $seed" "bash $script conditions $seed"; done
if [ "$count" -gt 1 ]; then
  serve flips "$GUIDE_ARGS" "bash $script flips"
  serve repeat "$deterministic" "bash $script repeat"
else
  serve repeat "$deterministic" "bash $script repeat" "bash $script flips"
fi
running() { for server in "${servers[@]}"; do kill -0 "$server" 2> /dev/null && return; done; return 1; }
while running && [ "$(date +%s)" -lt "$(at 970)" ]; do
  sleep 3
  keep
done
kill -TERM "${servers[@]}" 2> /dev/null
for _ in $(seq 30); do running || break; sleep 1; done
kill -KILL "${servers[@]}" 2> /dev/null
for group in $(cat "$work"/server-*/groups.txt 2> /dev/null); do kill -KILL -- "-$group" 2> /dev/null; done
joined() { # SCRIPT OPTION NAME: the results NAME_SEED that are there, in one
  names=$(for seed in $GUIDE_SEEDS; do [ -e "benchmarks/results/$3_$seed.json" ] && echo "$3_$seed"; done)
  [ -n "$names" ] && "$GUIDE_PYTHON" "$here/$1.py" $2 $names
}
{
  joined guide_conditions "--folder $work/joined --join" gpu_guide_conditions
  joined guide_reflections "" gpu_guide_learning
} > "$work/joined.out" 2>&1
keep
note "end; $GUIDE_RESULTS/guide.tgz has $(stat -c %s "$GUIDE_RESULTS/guide.tgz") bytes"
