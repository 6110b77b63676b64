// The search: fitness and lengths by generation.

function searchSection(run) {
  if (!run.generations?.length) return null;
  const of = (name) => run.generations.map((one) => [one.generation, one[name]]);
  const four = (value, digits = 4) => number(value, digits);
  const length = (value, digits = 1) => number(value, digits);
  const fitness = [
    { name: "best so far", color: "var(--accent)", points: of("best_ever") },
    { name: "best of the population", color: "var(--vector)", points: of("best"), thin: true },
    { name: "mean of the population", color: "var(--plain)", points: of("mean"), thin: true, dashed: true },
  ];
  const first = run.individuals.rows[0]?.[run.individuals.columns.indexOf("mean_tokens")];
  const lengths = [
    { name: "best of the population", color: "var(--accent)", points: of("tokens_of_best") },
    { name: "mean of the population", color: "var(--plain)", points: of("mean_tokens"), thin: true, dashed: true },
    { name: "start of the search", color: "var(--prompt)", points: run.generations.map((one) => [one.generation, first]), thin: true, dashed: true },
  ];
  const figure = (title, series, format) => h("figure", { class: "card" },
    h("figcaption", {}, h("h3", {}, title), legend(series.map((one) => [swatch(one.color, one.dashed, one.thin ? 1.8 : 2.6), one.name]))),
    lineChart(`${title}, by generation`, series, ["generation"], [number, format]));
  const changed = run.settings_changes.map((one) =>
    h("li", {}, `From generation ${one.generation} on: `, Object.entries(one.options).map(([name, [before, after]]) => `${name} ${before} → ${after}`).join(", ")));
  const table = h("details", { class: "card", style: { marginTop: "1rem" } }, h("summary", {}, "Fitness and tokens of each generation"),
    scroller("Fitness and tokens of each generation", h("table", {},
      h("thead", {}, h("tr", {}, ["generation", "best so far", "best", "mean", "tokens of the best", "mean tokens", "fewest tokens"].map((name) => h("th", { class: "num", scope: "col" }, name)))),
      h("tbody", {}, run.generations.map((one) => h("tr", {}, [
        number(one.generation), ...[one.best_ever, one.best, one.mean].map((value) => number(value, 4)), ...[one.tokens_of_best, one.mean_tokens, one.fewest_tokens].map((value) => tokens(value)),
      ].map((text) => h("td", { class: "num" }, text))))))));
  return section("search", "The search", "Both are of the training set, which the search ranks on; its best is partly luck, so other questions choose the winner.",
    h("div", { class: "grid two" }, figure("Fitness", fitness, four), figure("Tokens an answer", lengths, length)),
    table, changed.length ? h("ul", { class: "notes" }, changed) : null);
}
