// The answer first: what was shown, and the figures that it stands on.

const OUTCOMES = {
  win: ["A win is shown", "good"],
  prompt_suffices: ["A sentence is enough", "warn"],
  vector_suffices: ["A search is not needed", "warn"],
  not_shown: ["Not shown", "plain"],
  worse: ["Worse than the plain model", "bad"],
};
const STATES = {
  running: ["at work", "accent"], finished: ["finished", "plain"], parked: ["parked", "bad"], stopped: ["stopped", "warn"],
};
const SETS = {
  test: "questions that nothing was chosen on",
  validation: "questions that also chose the winner",
  training: "questions of the search itself",
};

// A sentence of report.txt, which is written for terminals.
const arrows = (text) => text.replaceAll(" -> ", "\u00a0→\u00a0").replace(/(^|[\s(])-(?=\d)/g, `$1${MINUS}`);

function badge([text, tone]) {
  return h("span", { class: `badge ${tone}` }, text);
}

function answerSection(run) {
  const d = run.digest;
  const about = [d.model, d.optimiser, has(d.seed) ? `seed ${d.seed}` : null].filter(Boolean).join(" · ");
  return h("div", { class: "hero", id: "answer" },
    h("div", { class: "where" },
      d.outcome ? badge(OUTCOMES[d.outcome]) : null,
      d.state !== "finished" || !d.outcome ? badge(STATES[d.state]) : null,
      h("span", {}, h("strong", {}, d.run), about ? ` · ${about}` : "")),
    h("h1", {}, arrows(d.verdict ?? unfinished(run))),
    d.reason ? h("p", { class: "sentence" }, `Parked: ${d.reason}`) : null,
    run.failures.length
      ? h("ul", { class: "notes" }, run.failures.map((one) => h("li", {}, `${one.stage} of ${one.node} failed, after ${plural(one.tries, "try", "tries")}: ${one.error}`)))
      : null,
    d.outcome === "prompt_suffices" || (d.outcome === "not_shown" && d.rival_kind === "prompt" && d.verdict.startsWith("A sentence"))
      ? h("p", { class: "sentence" }, h("span", { class: "muted" }, "The system prompt, which needs no processor: "), d.rival_prompt)
      : null,
    tiles(run),
    run.figures?.length ? h("dl", { class: "pairs" }, run.figures.map(([what, value]) => [h("dt", {}, what), h("dd", {}, value)])) : null,
    run.conclusion
      ? h("ul", { class: "notes" }, run.conclusion.sentences.slice(1).map((text) => h("li", {}, arrows(text))))
      : null);
}

function unfinished(run) {
  const d = run.digest;
  const done = `${d.progress} done`;
  if (d.kind === "collect") return `The collection is ${STATES[d.state][0]}: ${done}.`;
  if (run.tables) return `The run is ${STATES[d.state][0]}: ${done}.`;
  const best = has(d.best_fitness) ? ` The best fitness so far is ${number(d.best_fitness, 4)}.` : "";
  return `The search is ${STATES[d.state][0]}: ${done}.${best} What it shows is known at its end.`;
}

function tile(title, figure, ...more) {
  return h("div", { class: "card tile" }, h("p", { class: "title" }, title), h("div", { class: "figure" }, figure), more);
}
function line(...children) {
  return h("p", { class: "small muted" }, children);
}
function meters(before, after) {
  const most = Math.max(before, after) || 1;
  return ["", "after"].map((side, i) =>
    h("div", { class: "meter" }, h("i", { class: side, style: { width: `${(100 * [before, after][i]) / most}%` } })));
}

function tiles(run) {
  const d = run.digest;
  const found = [];
  if (has(d.token_change)) {
    const of = d.kind === "collect" ? "a retained answer" : "an answer";
    found.push(tile(`Tokens ${of}`, change(d.token_change),
      h("p", { class: "was" }, `${tokens(d.tokens_before)} → ${tokens(d.tokens_after)}`),
      meters(d.tokens_before, d.tokens_after),
      d.token_change_interval ? line(`95 % interval ${within(d.token_change_interval, signed)} %`) : null));
  }
  if (has(d.right_after)) {
    found.push(tile("Right answers", points(d.right_change),
      h("p", { class: "was" }, `${number(d.right_before)} → ${number(d.right_after)} of ${number(d.questions)}`),
      meters(d.right_before, d.right_after),
      d.right_change_interval ? line(`95 % interval ${within(d.right_change_interval, signed)}`) : null,
      run.answered.judge?.length ? line(`judged by ${run.answered.judge.join(", ")}`) : null));
  }
  if (d.rival) {
    const rival = tile(d.rival_kind === "prompt" ? "Against a sentence" : "Against a vector without search", d.rival,
      h("p", { class: "was" }, `${tokens(d.rival_tokens)} tokens, ${number(d.rival_right)} of ${number(d.rival_questions)} right`),
      line(rivalLine(run)));
    rival.classList.add("wide");
    rival.querySelector(".figure").classList.add("text");
    found.push(rival);
  }
  if (has(d.questions) && d.measured_on) {
    const uses = d.measured_on === "test" && d.test_uses > 1 ? `, asked for ${number(d.test_uses)} winners so far` : "";
    found.push(tile(`Questions: ${d.measured_on} set`, number(d.questions), line(SETS[d.measured_on] + uses)));
  }
  if (d.kind === "collect" && has(d.retained_pairs)) {
    found.push(tile("Retained pairs", number(d.retained_pairs), line(`of ${plural(run.answers[0].rows.length, "pair")} from ${plural(d.questions, "example")}`)),
      tile("Wasted tokens", number(d.wasted_tokens), line("more frequent before compression")));
  }
  if (!d.verdict && run.generations?.length) {
    const last = run.generations[run.generations.length - 1];
    found.push(tile("Best of the last population", tokens(last.tokens_of_best), line("tokens an answer, training set")));
  }
  const cost = d.calls ? money(d.cost_usd) : "no calls";
  found.push(tile(has(d.seconds) ? "The search took" : "Cost", has(d.seconds) ? duration(d.seconds) : cost,
    line([
      has(d.generations) ? plural(d.generations, "generation") : null,
      d.evaluations ? `${plural(d.evaluations.computed, "evaluation")} computed` : null,
      d.calls ? plural(d.calls, "call") : null,
      has(d.seconds) ? `cost: ${cost}` : plural(d.target_tokens, "generated token"),
    ].filter(Boolean).join(", "))));
  return h("div", { class: "tiles" }, found);
}

function rivalLine(run) {
  const pair = run.comparisons.find((one) => one.against === run.digest.rival);
  if (!pair) return "not compared pair by pair";
  const [longer, more] = [pair.token_ratio - 1, pair.correctness_difference];
  const parts = [longer ? `${change(longer)} tokens` : "as many tokens", more ? `${points(more)} right` : "as many right"];
  return `beside it the vector has ${parts.join(" and ")}: ${pair.is_better ? "shown to be better" : "not shown to be better"}`;
}

// Several runs, one column each.
const ROWS = [
  ["outcome", (d) => (d.outcome ? badge(OUTCOMES[d.outcome]) : badge(STATES[d.state]))],
  ["measured on", (d) => (d.measured_on ? `${number(d.questions)} ${d.measured_on} questions` : DASH)],
  ["tokens an answer", (d) => (has(d.tokens_before) ? `${tokens(d.tokens_before)} → ${tokens(d.tokens_after)}` : DASH)],
  ["change of tokens", (d) => (has(d.token_change) ? [change(d.token_change), interval(d.token_change_interval, " %")] : DASH)],
  ["right answers", (d) => (has(d.right_before) ? `${number(d.right_before)} → ${number(d.right_after)} of ${number(d.questions)}` : DASH)],
  ["change of right answers", (d) => (has(d.right_change) ? [points(d.right_change), interval(d.right_change_interval, "")] : DASH)],
  ["rival", (d) => (d.rival ? `${d.rival}: ${tokens(d.rival_tokens)} tokens, ${number(d.rival_right)} of ${number(d.rival_questions)} right` : DASH)],
  ["best fitness of the search", (d) => number(d.best_fitness, 4)],
  ["generations", (d) => number(d.generations)],
  ["search evaluations", (d) => (d.evaluations ? `${number(d.evaluations.computed)} computed, ${number(d.evaluations.cached)} cached` : DASH)],
  ["search time", (d) => duration(d.seconds)],
  ["generated tokens", (d) => number(d.target_tokens)],
  ["cost", (d) => (d.calls ? `${money(d.cost_usd)} for ${plural(d.calls, "call")}` : "no calls")],
  ["model", (d) => d.model ?? DASH],
  ["optimiser", (d) => d.optimiser ?? DASH],
  ["seed", (d) => d.seed ?? DASH],
];
function interval(bounds, unit) {
  return bounds ? h("span", { class: "sub" }, `${within(bounds, signed)}${unit}`) : null;
}

function compareSection(runs) {
  const shown = ROWS.filter(([, cell]) => runs.some((run) => cell(run.digest) !== DASH));
  const head = h("tr", {}, h("td"), runs.map((run) => h("th", { scope: "col" }, h("strong", {}, run.digest.run))));
  const body = shown.map(([name, cell]) => h("tr", {}, h("th", { scope: "row", class: "muted row" }, name), runs.map((run) => h("td", {}, cell(run.digest)))));
  const verdicts = h("tr", {}, h("th", { scope: "row", class: "muted row" }, "conclusion"), runs.map((run) => h("td", { style: { minWidth: "13rem" } }, arrows(run.digest.verdict ?? unfinished(run)))));
  const evolved = runs.filter((run) => run.generations?.length);
  const colors = ["var(--accent)", "var(--prompt)", "var(--vector)", "var(--bad)", "var(--star)", "var(--plain)"];
  const series = evolved.map((run, i) => ({
    name: run.digest.run, color: colors[i % colors.length], points: run.generations.map((one) => [one.generation, one.best_ever]),
  }));
  return section("compare", "Side by side", "Fitnesses of two runs can be compared only where model, questions, judge and objective are the same.",
    h("div", { class: "card" }, scroller("Figures of all runs", h("table", {}, h("thead", {}, head), h("tbody", {}, verdicts, body)))),
    series.length > 1
      ? h("figure", { class: "card", style: { marginTop: "1rem" } },
          h("figcaption", {}, h("h3", {}, "Best fitness so far"), legend(series.map((one) => [swatch(one.color), one.name]))),
          lineChart("Best fitness so far of each run, by generation", series, ["generation"], [number, (value, digits = 4) => number(value, digits)]))
      : null);
}
