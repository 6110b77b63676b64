#!/usr/bin/env bash
# All that is measured of `guide` on one GPU, within a time: GUIDE_MODEL=FOLDER bash benchmarks/gpu/guide.sh
#
# Three servers of one model start together, A and B with SGLang's defaults and D with deterministic inference; each runs
# its steps in turn.  The first step looks at tickets and chooses shape, prompt and wording (guide_choice.py); all others
# wait for that.  A step that fails or is cut ends no other one.  Results are in benchmarks/results as they come, and at
# the end with all logs in one file, GUIDE_RESULTS/guide.tgz.  GUIDE_ENGINE=embedded GUIDE_MODEL=embedded runs the same
# steps on a processor; choose small numbers then.
set -u
export GUIDE_MODEL=${GUIDE_MODEL:?a folder, or embedded} GUIDE_ENGINE=${GUIDE_ENGINE:-sglang}
export GUIDE_SECONDS=${GUIDE_SECONDS:-1000} GUIDE_WORK=${GUIDE_WORK:-outputs/guide-work} GUIDE_RESULTS=${GUIDE_RESULTS:-outputs/guide-results}
export GUIDE_PYTHON=${GUIDE_PYTHON:-python3} GUIDE_SERVER=${GUIDE_SERVER:-python3 -m sglang.launch_server}
export GUIDE_ARGS=${GUIDE_ARGS-"--attention-backend triton --sampling-backend pytorch --mem-fraction-static 0.6 --max-total-tokens 400000 --constrained-json-disable-any-whitespace"}
export GUIDE_SHAPES=${GUIDE_SHAPES:-stated stated_two told stated_three half_two one}
export GUIDE_FORMS=${GUIDE_FORMS:-turns_own turns_strict turns} GUIDE_WORDINGS=${GUIDE_WORDINGS:-plain contrast}
export GUIDE_MISSIONS=${GUIDE_MISSIONS:-0 1 2 3}
export GUIDE_LOOK=${GUIDE_LOOK:-32} GUIDE_FORMED=${GUIDE_FORMED:-24} GUIDE_TRAINING=${GUIDE_TRAINING:-384} GUIDE_EPOCHS=${GUIDE_EPOCHS:-1}
export GUIDE_SEEDS_A=${GUIDE_SEEDS_A-11 14} GUIDE_SEEDS_B=${GUIDE_SEEDS_B-12 15} GUIDE_SEEDS_D=${GUIDE_SEEDS_D-13}
export GUIDE_REPEATED=${GUIDE_REPEATED:-96}
export GUIDE_TEST=${GUIDE_TEST:-300} GUIDE_SAMPLED=${GUIDE_SAMPLED:-100} GUIDE_GATE=${GUIDE_GATE:-384}
export GUIDE_FLIPS=${GUIDE_FLIPS:-100} GUIDE_HELD=${GUIDE_HELD:-128} GUIDE_LATENCIES=${GUIDE_LATENCIES:-1024}
export GUIDE_PROCESSES=${GUIDE_PROCESSES:-8} GUIDE_IN_FLIGHT=${GUIDE_IN_FLIGHT:-512} GUIDE_JOBS=${GUIDE_JOBS:-192}
export GUIDE_BEGAN=${GUIDE_BEGAN:-$(date +%s)}

here=$(cd "$(dirname "$0")" && pwd)
script=$here/guide.sh
work=$GUIDE_WORK
critic=(--set "critic.prefilter={top_k: 1}" --set critic.max_new_tokens=700 --set critic.summary_max_chars=120 --set critic.critique_max_chars=200)
direct=("${critic[@]}")
if [ "$GUIDE_ENGINE" = embedded ]; then
  critic=(--set critic.enabled=false)
  direct=("${critic[@]}" --set reflection.backend=target --set reflection.batch_size=2 --set reflection.max_new_tokens=300)
fi

at() { echo $((GUIDE_BEGAN + GUIDE_SECONDS * $1 / 1000)); }  # a moment, in thousandths of the whole time
left() { n=$(($(at "$1") - $(date +%s))); [ $n -gt 3 ] && echo $n || echo 3; }
until_there() { while [ ! -e "$1" ] && [ "$(date +%s)" -lt "$(at "$2")" ]; do sleep 0.5; done; }
note() { echo "[$(($(date +%s) - GUIDE_BEGAN)) s] $*" | tee -a "$work/steps.txt"; }
run() { # SCRIPT FOLDER OPTIONS...: one of the benchmarks with what they share
  "$GUIDE_PYTHON" "$here/$1.py" --model "$GUIDE_MODEL" --engine "$GUIDE_ENGINE" --processes "$GUIDE_PROCESSES" \
    --in-flight "$GUIDE_IN_FLIGHT" --folder "$work/$2" "${@:3}"
}
chosen() { # SHAPE, PROMPT and WORDING; where the look has found nothing in time, a guess
  until_there "$work/choice.env" 310
  SHAPE=stated PROMPT=turns_own WORDING=plain
  [ -e "$work/choice.env" ] && . "$work/choice.env"
  note "$* with $SHAPE, $PROMPT, $WORDING"
}

look() {
  note look
  run guide_tickets look --shapes $GUIDE_SHAPES --prompts $GUIDE_FORMS --wordings $GUIDE_WORDINGS --missions $GUIDE_MISSIONS \
    --tickets "$GUIDE_LOOK" --stages verdicts --seed 1 --seconds "$(left 240)" --result gpu_guide_look
  "$GUIDE_PYTHON" "$here/guide_choice.py" --variables "$work/choice.tmp" && mv "$work/choice.tmp" "$work/choice.env"
  chosen confirm
  run guide_tickets confirm --shapes $SHAPE --prompts $PROMPT --wordings $WORDING --missions $GUIDE_MISSIONS \
    --tickets "$((2 * GUIDE_LOOK))" --stages verdicts --seed 2 --seconds "$(left 300)" --result gpu_guide_confirm
  "$GUIDE_PYTHON" "$here/guide_choice.py" --tickets-result gpu_guide_confirm --result gpu_guide_confirmed
}
learn() { # one process and one farm for each seed
  chosen learn "$@"
  waited=()
  for seed in "$@"; do
    run guide_learning "learn-$seed" --shape $SHAPE --prompt $PROMPT --missions $GUIDE_MISSIONS --seeds "$seed" \
      --training "$GUIDE_TRAINING" --rollout-jobs "$GUIDE_JOBS" --seconds "$(left 610)" --set runner.epochs="$GUIDE_EPOCHS" \
      --set reflection.allow_uncertain=true "${critic[@]}" --result "gpu_guide_learning_$seed" > "$work/learn-$seed.out" 2>&1 &
    waited+=($!)
  done
  wait "${waited[@]}"
  for seed in "$@"; do cat "$work/learn-$seed.out"; : > "$work/learned-$seed"; done
}
conditions() {
  chosen conditions
  for seed in $GUIDE_SEEDS_A $GUIDE_SEEDS_B $GUIDE_SEEDS_D; do until_there "$work/learned-$seed" 640; done
  names=()
  for seed in $GUIDE_SEEDS_A $GUIDE_SEEDS_B $GUIDE_SEEDS_D; do
    [ -e "benchmarks/results/gpu_guide_learning_$seed.json" ] && names+=("gpu_guide_learning_$seed")
  done
  "$GUIDE_PYTHON" "$here/guide_reflections.py" "${names[@]}"
  run guide_conditions conditions --learned "${names[@]}" --wording $WORDING --test "$GUIDE_TEST" --sampled "$GUIDE_SAMPLED" \
    --seconds "$(left 800)"
}
gate() {
  chosen gate
  run guide_gate_model gate --shape $SHAPE --prompt $PROMPT --wording $WORDING --tickets "$GUIDE_GATE" --seconds "$(left 780)"
}
flips() {
  chosen flips
  run guide_flipped flips --shape $SHAPE --prompt $PROMPT --wording $WORDING --seeds "$GUIDE_FLIPS" --holdout "$GUIDE_HELD" \
    --test "$GUIDE_HELD" --set reflection.allow_uncertain=true "${direct[@]}" --seconds "$(left 910)"
  : > "$work/flipped"
}
latency() { # when nothing else is on the card
  until_there "$work/flipped" 920
  chosen latency
  run guide_latency latency --shape $SHAPE --prompt $PROMPT --candidates "$GUIDE_LATENCIES" "${direct[@]}"
  : > "$work/latent"
}
latency_deterministic() {
  until_there "$work/latent" 955
  chosen latency_deterministic
  run guide_latency latency-d --shape $SHAPE --prompt $PROMPT --candidates $((GUIDE_LATENCIES / 2)) --in-flights 128 \
    "${direct[@]}" --result gpu_guide_latency_deterministic
}
repeat() {
  chosen repeat
  run guide_repeat repeat --shape $SHAPE --prompt $PROMPT --missions $GUIDE_MISSIONS --seeds 31 --training "$GUIDE_REPEATED" \
    --rollout-jobs "$GUIDE_JOBS" --set runner.epochs=1 --set reflection.allow_uncertain=true "${critic[@]}" --seconds "$(left 850)"
}
form() {
  chosen form
  run guide_tickets form --shapes $SHAPE --prompts $PROMPT --wordings $WORDING --missions $GUIDE_MISSIONS --stages form \
    --formed "$GUIDE_FORMED" --seed 2 --seconds "$(left 900)" --result gpu_guide_form
}
served() { # NAME ARGUMENTS STEPS...: a server, and its steps in turn
  exec "$GUIDE_PYTHON" "$here/guide_served.py" --model "$GUIDE_MODEL" --engine "$GUIDE_ENGINE" --command "$GUIDE_SERVER" \
    --args "$2" --folder "$work/server-$1" --seconds "$(left 985)" "${@:3}" > "$work/server-$1.out" 2>&1
}
keep() { # all results and logs as one small file
  tar czf "$GUIDE_RESULTS/guide.tmp" $(ls benchmarks/results/gpu_guide_*.json "$work"/*.out "$work"/*.txt "$work"/learn-*/*.log 2>/dev/null) 2>/dev/null
  mv "$GUIDE_RESULTS/guide.tmp" "$GUIDE_RESULTS/guide.tgz"
}

if [ $# -gt 0 ]; then "$@"; exit; fi
mkdir -p "$work" "$GUIDE_RESULTS"
rm -f "$work"/choice.* "$work"/learned-* "$work/flipped" "$work/latent" "$work/steps.txt"
served A "$GUIDE_ARGS" "bash $script look" "bash $script learn $GUIDE_SEEDS_A" "bash $script conditions" "bash $script latency" &
a=$!
served B "$GUIDE_ARGS" "bash $script learn $GUIDE_SEEDS_B" "bash $script gate" "bash $script flips" &
b=$!
deterministic=$GUIDE_ARGS
[ "$GUIDE_ENGINE" = sglang ] && deterministic="$GUIDE_ARGS --enable-deterministic-inference"
served D "$deterministic" "bash $script learn $GUIDE_SEEDS_D" "bash $script form" "bash $script repeat" "bash $script latency_deterministic" &
d=$!
while kill -0 $a 2>/dev/null || kill -0 $b 2>/dev/null || kill -0 $d 2>/dev/null; do
  sleep 5
  keep
  [ "$(date +%s)" -gt "$(at 972)" ] && break
done
kill -TERM $a $b $d 2>/dev/null
wait $a $b $d
keep
note "end; $GUIDE_RESULTS/guide.tgz has $(stat -c %s "$GUIDE_RESULTS/guide.tgz") bytes"
