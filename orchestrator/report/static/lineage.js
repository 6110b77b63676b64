// The lineage: every evaluation by its generation, with its ancestors and descendants, and all that is known of one.
const STAGES = { pop: "in the population", pre: "child", mut: "child after its mutation" };
const EDGES = ["inherits from", "mutation of", "the same as"];

function lineage(section, run) {
  const named = (row) => Object.fromEntries(run.columns.map((name, i) => [name, row[i]]));
  const nodes = run.individuals.map((row, index) => ({ ...named(row), index, above: [], below: [] }));
  for (const [from, to, kind] of run.descent) {
    nodes[to].above.push(nodes[from]);
    nodes[to].edge = EDGES[kind];
    nodes[from].below.push(nodes[to]);
  }
  const best = nodes.find((node) => node.name === run.winner) ?? nodes.reduce((a, b) => (b.fitness > a.fitness ? b : a));
  const [panel, host] = [section.querySelector(".node"), section.querySelector(".chart")];
  let [chosen, measure] = [best, "fitness"];
  const last = Math.max(...nodes.map((node) => node.generation));
  const axes = { x: { ends: [-0.5, last + 0.5], name: "generation", step: 1 }, y: {} };
  const radius = nodes.length > 2500 ? 2 : nodes.length > 700 ? 2.7 : nodes.length > 200 ? 3.6 : 5;
  const redraw = chart(host, axes, 0.62, ({ svg, x, y }) => {
    const places = spread(nodes, measure, x, y, radius);
    const lines = (name, pairs) => {
      const d = pairs.map(([a, b]) => `M${places[a.index].join(" ")}L${places[b.index].join(" ")}`).join("");
      svg.append(s("path", { class: name, d }));
    };
    lines("edges", nodes.flatMap((node) => node.above.map((from) => [from, node])));
    svg.append(...nodes.map(({ stage }, i) => s("circle", { class: stage, cx: places[i][0], cy: places[i][1], r: radius })));
    lines("below", reach(chosen, "below"));
    lines("above", reach(chosen, "above"));
    const [cx, cy] = places[chosen.index];
    svg.append(s("circle", { class: "star", cx, cy, r: radius + 2 }), s("circle", { class: "ring", cx, cy, r: radius + 6 }));
    return nodes.map((node, i) => ({ at: places[i], text: node.name, choose: () => choose(node) }));
  });
  const choose = (node, name = measure) => {
    [chosen, measure] = [node, name];
    axes.y = { ends: extent(nodes.map((one) => one[name])), format: name === "correctness" ? percent : null };
    panel.replaceChildren(...nodePanel(run, node, choose));
    redraw();
  };
  segments(section.querySelector(".segments"), (name) => choose(chosen, name));
  section.querySelector(".best").addEventListener("click", () => choose(best));
  choose(best);
}

// A place for each node: its generation, with those of equal height side by side.
function spread(nodes, name, x, y, radius) {
  const counts = new Map();
  const slots = nodes.map((node) => {
    const bin = `${node.generation} ${Math.round(y(node[name]) / (2 * radius))}`;
    const count = counts.get(bin) ?? 0;
    counts.set(bin, count + 1);
    return (count % 2 ? 1 : -1) * Math.ceil(count / 2);
  });
  const step = Math.min(2.2 * radius, ((x(1) - x(0)) * 0.42) / Math.max(1, ...slots.map(Math.abs)));
  return nodes.map((node, i) => [x(node.generation) + slots[i] * step, y(node[name])]);
}
// All edges above or below a node.
function reach(node, way) {
  const [found, seen, todo] = [[], new Set([node]), [node]];
  while (todo.length) {
    const here = todo.pop();
    for (const next of here[way]) {
      found.push([here, next]);
      if (!seen.has(next)) todo.push(next);
      seen.add(next);
    }
  }
  return found;
}
function nodePanel(run, node, choose) {
  const link = (other) => {
    const button = h("button", { type: "button", class: "link" }, other.name);
    button.addEventListener("click", () => choose(other));
    return button;
  };
  const relatives = (title, found) => (found.length ? [h("p", { class: "links" }, title, ...found.slice(0, 12).map(link))] : []);
  const text = (title, content) => h("details", { open: "" }, h("summary", {}, title), h("pre", {}, content));
  const calls = run.calls.filter(([candidate]) => candidate === node.name.replace(/_(pre|mut)$/, ""));
  const about = [STAGES[node.stage], node.target === null ? "" : `cluster ${node.target} changed`, node.note];
  const figures = { fitness: number(node.fitness, 4), tokens: number(node.mean_tokens, 1), correct: percent(node.correctness) };
  const facts = Object.entries({ ...figures, arm: node.arm });
  return [
    h("h3", {}, node.name),
    h("p", { class: "small muted" }, about.filter(Boolean).join("; ")),
    h("dl", { class: "pairs" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    ...relatives(node.edge, node.above),
    ...relatives("leads to", node.below),
    h("div", { class: "compact" }, ...deltaRows(node.deltas, [], node.above.length === 1 ? node.above[0].deltas : node.deltas)),
    ...(node.scratchpad ? [text("Scratchpad", node.scratchpad)] : []),
    ...calls.map(([, title, provider, reply, prompt]) =>
      h("details", {}, h("summary", {}, title), h("p", { class: "small muted" }, provider), text("Reply", reply), text("Prompt", prompt))),
  ];
}

// Deltas by cluster, the largest first, those that are not 0 or have changed; with what is known of the clusters.
function deltaRows(deltas, clusters, before) {
  const largest = Math.max(...deltas.map(Math.abs), 1e-9);
  const shown = [...deltas.keys()].filter((i) => deltas[i] || before[i] !== deltas[i]);
  if (!shown.length) return [h("p", { class: "small muted" }, "Nothing is added to any token.")];
  return shown.sort((a, b) => Math.abs(deltas[b]) - Math.abs(deltas[a])).map((i) => {
    const [delta, wide, cluster] = [deltas[i], (50 * Math.abs(deltas[i])) / largest, clusters[i]];
    const bar = s("rect", { x: `${delta < 0 ? 50 - wide : 50}%`, width: `${wide}%`, height: "100%", rx: 3 });
    const was = before[i] === delta ? "" : h("span", { class: "muted small" }, `was ${number(before[i] ?? 0, 3)} `);
    const tokens = cluster?.examples.map((token) => h("span", { class: "token" }, token)) ?? [];
    const what = cluster ? h("div", {}, cluster.description.split(/; common ones|: /)[0], h("div", { class: "tokens" }, ...tokens)) : "";
    return h("div", { class: "delta" }, h("span", { class: "muted" }, cluster?.id ?? i), what,
      s("svg", { class: `diverging ${delta < 0 ? "down" : "up"}`, "aria-hidden": "true" }, bar),
      h("div", { class: "num" }, was, (delta > 0 ? "+" : "") + number(delta, 3)));
  });
}
