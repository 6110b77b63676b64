// The page: its bar, and the chosen run.

const DATA = JSON.parse(document.getElementById("data").textContent);

const PARTS = [
  ["compare", "Side by side"], ["answer", "Answer"], ["systems", "Systems"], ["wasted", "Wasted tokens"], ["search", "Search"], ["lineage", "Lineage"],
  ["deltas", "Deltas"], ["answers", "Answers"], ["cost", "Cost"], ["settings", "Settings"],
];

function drawPage() {
  const runs = DATA.runs;
  state.run = Math.min(state.run, runs.length - 1);
  const run = runs[state.run];
  const parts = [
    runs.length > 1 ? compareSection(runs) : null,
    runs.length > 1 ? runChoice(runs) : null,
    answerSection(run),
    ...(run.tables ? tableSections(run) : run.digest.kind === "collect" ? [wastedSection(run)] : [systemsSection(run), searchSection(run), lineageSection(run), clustersSection(run)]),
    answersSection(run), costSection(run), settingsSection(run),
  ].filter(Boolean);
  const ids = new Set(parts.map((part) => part.id));
  const names = [...PARTS.slice(0, 2), ...(run.tables ?? []).map((table, i) => [`table${i}`, table.title]), ...PARTS.slice(2)];
  const links = names.filter(([id]) => ids.has(id)).map(([id, name]) => h("a", { href: `#${id}` }, name));
  const bar = h("header", { class: "bar" }, h("div", {},
    h("span", { class: "brand" }, logo(), "Whetstone"), h("nav", { "aria-label": "Parts of the page" }, links),
    h("button", { type: "button", class: "icon", "aria-label": "Light or dark", title: "Light or dark", on: { click: otherTheme } }, "◐")));
  const made = new Date(DATA.made);
  const footer = h("footer", {}, `Made ${made.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })} by orchestrator report; nothing in this page is loaded from a network.`);
  replaceKept(document.getElementById("page"), [bar, h("main", {}, parts, footer)]);
  follow(links, parts);
}

function runChoice(runs) {
  return h("div", { class: "runs", role: "group", "aria-label": "Run", style: { marginTop: "2.6rem" } }, h("span", { class: "muted small", style: { alignSelf: "center" } }, "In detail:"),
    runs.map((run, i) => h("button", { type: "button", class: "chip", "aria-pressed": String(i === state.run), on: { click: () => { state.run = i; drawPage(); document.getElementById("answer").scrollIntoView(); } } }, run.digest.run)));
}

function logo() {
  return s("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: "M3 16.5 14.5 5l4.5 4.5L9.5 19z", fill: "currentColor", opacity: ".35" }), s("path", { d: "M3 20h18M14.5 5l4.5 4.5L9.5 19 3 16.5z", fill: "none", stroke: "currentColor", "stroke-width": "1.8", "stroke-linejoin": "round", "stroke-linecap": "round" }));
}

// The part that is in view is marked in the bar.
let watcher = null;
function follow(links, parts) {
  watcher?.disconnect();
  const byId = new Map(links.map((link) => [link.hash.slice(1), link]));
  watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links) link.removeAttribute("aria-current");
      const link = byId.get(entry.target.id);
      link?.setAttribute("aria-current", "true");
      link?.parentElement.scrollTo({ left: link.offsetLeft - link.parentElement.offsetLeft - 40 });
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const part of parts) if (byId.has(part.id)) watcher.observe(part);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
function applyTheme() {
  document.documentElement.dataset.theme = state.theme ?? (dark.matches ? "dark" : "light");
}
function otherTheme() {
  state.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  applyTheme();
}
dark.addEventListener("change", applyTheme);
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; });
addEventListener("afterprint", applyTheme);

applyTheme();
drawPage();
