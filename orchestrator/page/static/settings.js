// What it takes to repeat the run: settings, questions, servers and versions.

function settingsSection(run) {
  const chosen = view(`settings ${run.digest.run}`, { all: false, query: "" });
  const isCollection = run.digest.kind === "collect";
  const draw = (again) => {
    const rows = run.settings.filter(([name, value, differs]) => (chosen.all || isCollection || differs || chosen.query) && matchesSetting(name, value, chosen.query));
    return h("div", { class: "card" },
      h("div", { class: "controls" }, h("h3", {}, "Settings"),
        isCollection ? null : segments("Which settings", [[false, "other than the default"], [true, "all"]], chosen.all, (value) => { chosen.all = value; again(); }),
        h("input", { type: "search", placeholder: "Search settings", "aria-label": "Search settings", value: chosen.query, data: { keep: "query" }, on: { input: (event) => { chosen.query = event.target.value; again(); } } })),
      h("table", { class: "settings" }, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("td", {}, name), h("td", {}, value === "" ? "(empty)" : value))))));
  };
  const command = isCollection ? `orchestrator collect --config ${run.digest.folder}/settings.yaml` : `orchestrator evolve --config ${run.digest.folder}/config --output outputs/again`;
  const facts = [
    ...Object.entries(run.questions).filter(([, count]) => count).map(([name, count]) => [`${name} set`, plural(count, "question")]),
    ...run.servers.flatMap((server, i) => Object.entries(server).map(([name, value]) => [`server${run.servers.length > 1 ? ` ${i + 1}` : ""}: ${name.replaceAll("_", " ")}`, String(value)])),
    ...run.versions.flatMap((one, i) => [
      [`code${run.versions.length > 1 ? ` of session ${i + 1}` : ""}`, one.code], ["Python", `${one.python} on ${one.system}`],
      ["packages", Object.entries(one.packages).map(([name, version]) => `${name} ${version}`).join(", ")],
    ]),
  ].filter(([, value]) => value !== "");
  return section("settings", "To repeat it", "The same settings, questions, server and versions give the same run; the same code has the same short hash.",
    h("div", { class: "grid two", style: { alignItems: "start" } }, redrawn(draw),
      h("div", { class: "card" }, h("h3", { style: { marginBottom: ".6rem" } }, "Command, questions, server, versions"), h("pre", { class: "command" }, command),
        h("dl", { class: "pairs", style: { marginTop: ".9rem" } }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])))));
}
function matchesSetting(name, value, query) {
  return `${name}\n${value}`.toLowerCase().includes(query.toLowerCase());
}
