// What it takes to repeat the run: settings, questions, servers and versions.

function settingsSection(run) {
  const chosen = view(`settings ${run.digest.run}`, { all: false, query: "" });
  const hasDefaults = run.digest.kind === "evolve";
  const draw = (again) => {
    const rows = run.settings.filter(([name, value, differs]) => (chosen.all || !hasDefaults || differs || chosen.query) && matchesSetting(name, value, chosen.query));
    return h("div", { class: "card" },
      h("div", { class: "controls" }, h("h3", {}, "Settings"),
        !hasDefaults ? null : segments("Which settings", [[false, "other than the default"], [true, "all"]], chosen.all, (value) => { chosen.all = value; again(); }),
        h("input", { type: "search", placeholder: "Search settings", "aria-label": "Search settings", value: chosen.query, on: { input: (event) => { chosen.query = event.target.value; again(); } } })),
      h("table", { class: "settings" }, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, breakable(name)), h("td", {}, value === "" ? "(empty)" : value))))));
  };
  const facts = [
    ...Object.entries(run.questions).filter(([, count]) => count).map(([name, count]) => [`${name} set`, plural(count, "question")]),
    run.forked_from ? ["forked from", run.forked_from] : null,
    ...run.versions.flatMap((one, i) => [
      [`code${run.versions.length > 1 ? ` of session ${i + 1}` : ""}`, one.code], ["Python", `${one.python} on ${one.system}`],
      ["packages", Object.entries(one.packages).map(([name, version]) => `${name} ${version}`).join(", ")],
    ]),
  ].filter((fact) => fact && fact[1] !== "");
  const pairs = (facts) => h("dl", { class: "pairs" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  const servers = run.servers.map((server, i) => h("details", {},
    h("summary", {}, `Server${run.servers.length > 1 ? ` ${i + 1}` : ""}: ${[server.engine, server.version, server.model_path].filter(Boolean).join(", ")}`),
    pairs(Object.entries(server).filter(([, value]) => value !== "").map(([name, value]) => [name.replaceAll("_", " "), String(value)]))));
  return section("settings", "Settings", "The same settings, questions, server and versions give the same run; the same code has the same short hash.",
    h("div", { class: "grid two", style: { alignItems: "start" } }, redrawn(draw),
      h("div", { class: "card" }, h("h3", {}, "Questions, versions, server"),
        pairs(facts), servers)));
}
// A name may break after an underscore.
function breakable(name) {
  return name.split(/(?<=[_.])/).flatMap((part, i) => (i ? [h("wbr"), part] : [part]));
}
function matchesSetting(name, value, query) {
  return `${name}\n${value}`.toLowerCase().includes(query.toLowerCase());
}
