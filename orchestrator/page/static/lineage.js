// The lineage: every evaluation as a point, with its ancestors and descendants; a chosen one with all that is known of it.

const MEASURES = {
  fitness: ["fitness", number],
  mean_tokens: ["tokens an answer", number],
  correctness: ["right answers", percent],
};
const STAGES = { pop: "in the population", pre: "child", mut: "child after its mutation" };
const DOTS = [
  ["pop", "population", "var(--muted)", "var(--muted)"], ["pre", "child", "var(--card)", "var(--accent)"], ["mut", "mutated", "var(--accent)", "var(--accent)"],
];
const LINES = [["the chosen one and its ancestors", "var(--star)"], ["its descendants", "var(--vector)"]];
const EDGES = ["inherits from", "mutation of", "the same as"];

function lineageSection(run) {
  if (!run.individuals?.rows.length) return null;
  const nodes = records(run.individuals);
  nodes.forEach((node, i) => Object.assign(node, { index: i, above: [], below: [] }));
  for (const [from, to, kind] of run.descent) {
    nodes[to].above.push([nodes[from], kind]);
    nodes[from].below.push([nodes[to], kind]);
  }
  const calls = new Map();
  for (const call of records(run.calls)) calls.set(call.candidate, calls.get(call.candidate) ?? []).get(call.candidate).push(call);
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const best = byName.get(run.digest.winner) ?? nodes.reduce((a, b) => (b.fitness > a.fitness ? b : a));
  const chosen = view(`lineage ${run.digest.run}`, { measure: "fitness", node: best.name });
  if (!byName.has(chosen.node)) chosen.node = best.name;
  const about = `${plural(nodes.length, "evaluation")} in ${plural(run.generations.length, "generation")}, each with the vectors that it comes from; figures are of the training set. ` +
    "Choose one by a click, or with the arrow keys: left and right to ancestors and descendants, up and down within a generation.";
  let picture = null;
  const panel = h("div", { class: "card node", "aria-live": "polite", "aria-label": "The chosen evaluation", role: "group", tabindex: -1 });
  const choose = (node) => {
    chosen.node = node.name;
    picture.choose(node);
    const isWithin = panel.contains(document.activeElement);
    panel.replaceChildren(...nodePanel(run, node, calls, choose));
    if (isWithin) panel.focus({ preventScroll: true });
    find.value = "";
  };
  const draw = (again) => {
    picture = lineageChart(nodes, chosen, choose);
    return [
      h("div", { class: "controls" },
        segments("What is shown", Object.entries(MEASURES).map(([name, [text]]) => [name, text]), chosen.measure, (value) => { chosen.measure = value; again(); }),
        h("button", { type: "button", class: "chip", on: { click: () => choose(best) } }, byName.has(run.digest.winner) ? "the winner" : "the best"),
        find),
      h("div", { class: "lineage" }, h("figure", { class: "card" },
        h("figcaption", {}, h("h3", {}, `${capital(MEASURES[chosen.measure][0])} of each evaluation, by generation`),
          legend([...DOTS.filter(([stage]) => nodes.some((node) => node.stage === stage)).map(([, name, fill, stroke]) => [dot(fill, stroke), name]),
            ...LINES.map(([name, color]) => [swatch(color), name])])),
        picture.host), panel),
    ];
  };
  const find = h("select", { "aria-label": "Choose an evaluation", on: { change: () => byName.has(find.value) && choose(byName.get(find.value)) } },
    h("option", { value: "" }, "best evaluations…"),
    [...nodes].sort((a, b) => b.fitness - a.fitness).slice(0, 60).map((node) => h("option", { value: node.name }, `${node.name} · ${number(node.fitness, 4)}`)));
  const body = redrawn(draw);
  panel.replaceChildren(...nodePanel(run, byName.get(chosen.node), calls, choose));
  return section("lineage", "Lineage", about, body);
}
const capital = (text) => text[0].toUpperCase() + text.slice(1);
function dot(fill, stroke) {
  return s("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, s("circle", { cx: 6, cy: 6, r: 4, fill, stroke, "stroke-width": 1.6 }));
}

function lineageChart(nodes, chosen, choose) {
  const name = chosen.measure;
  const generations = nodes.reduce((most, node) => Math.max(most, node.generation), 0) + 1;
  const radius = nodes.length > 2500 ? 2 : nodes.length > 700 ? 2.7 : nodes.length > 200 ? 3.6 : 5;
  let [svg, over, places] = [null, null, []];
  const host = chart(`${MEASURES[name][0]} of ${nodes.length} evaluations by generation`, (width) => Math.min(520, Math.max(340, width * 0.62)), (plot) => {
    svg = plot.svg;
    const format = MEASURES[name][1];
    const { x, y } = axes(plot, [-0.5, generations - 0.5], extent(nodes.map((node) => node[name])), ["generation"],
      Object.assign([number, format], { ticks: wholeTicks(0, generations - 1, plot.width) }));
    places = spread(nodes, name, x, y, radius, ((plot.right - plot.left) / generations) * 0.42);
    const lines = nodes.flatMap((node) => node.above.map(([from]) => segment(places[from.index], places[node.index]))).join("");
    svg.append(s("path", { d: lines, fill: "none", stroke: "var(--muted)", "stroke-width": 0.7, opacity: Math.max(0.06, Math.min(0.3, 60 / nodes.length)) }));
    const group = s("g", { class: "hit" });
    nodes.forEach((node, i) => {
      const [, , fill, stroke] = DOTS.find(([stage]) => stage === node.stage);
      group.append(s("circle", { cx: places[i][0].toFixed(1), cy: places[i][1].toFixed(1), r: radius, fill, stroke: fill === stroke ? "var(--card)" : stroke, "stroke-width": radius > 3 ? 1.2 : 0.6 }));
    });
    over = s("g", { "pointer-events": "none" });
    svg.append(group, over);
    light(nodes.find((node) => node.name === chosen.node));
  });
  const light = (node) => {
    if (!svg || !node) return;
    const [up, down, line] = [reach(node, "above"), reach(node, "below"), mainLine(node)];
    const path = (pairs) => pairs.map(([from, to]) => segment(places[from.index], places[to.index])).join("");
    const [px, py] = places[node.index];
    over.replaceChildren(
      s("path", { d: path(down), fill: "none", stroke: "var(--vector)", "stroke-width": 1.3, opacity: 0.55 }),
      s("path", { d: path(up), fill: "none", stroke: "var(--star)", "stroke-width": 1.1, opacity: up.length > 80 ? 0.3 : 0.7 }),
      s("path", { d: path(line), fill: "none", stroke: "var(--star)", "stroke-width": 2.4, "stroke-linejoin": "round" }),
      ...[...new Set(line.flat())].map((one) => s("circle", { cx: places[one.index][0], cy: places[one.index][1], r: radius + 1, fill: "var(--star)" })),
      s("circle", { cx: px, cy: py, r: radius + 2, fill: "var(--star)", stroke: "var(--card)", "stroke-width": 1.5 }),
      s("circle", { cx: px, cy: py, r: radius + 6, fill: "none", stroke: "var(--star)", "stroke-width": 1.6 }));
  };
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const [mx, my] = [event.clientX - box.left, event.clientY - box.top];
    let [found, least] = [null, 16 ** 2];
    places.forEach(([px, py], i) => {
      const far = (px - mx) ** 2 + (py - my) ** 2;
      if (far < least) [found, least] = [nodes[i], far];
    });
    return found;
  };
  host.tabIndex = 0;
  host.setAttribute("role", "application");
  host.setAttribute("aria-label", "Lineage; arrow keys choose another evaluation");
  host.addEventListener("click", (event) => { const node = nearest(event); if (node) choose(node); });
  host.addEventListener("keydown", (event) => {
    const node = moved(nodes, nodes.find((one) => one.name === chosen.node), event.key, name);
    if (node) { event.preventDefault(); choose(node); }
  });
  return { host, choose: light };
}
const segment = (from, to) => `M${from[0].toFixed(1)} ${from[1].toFixed(1)}L${to[0].toFixed(1)} ${to[1].toFixed(1)}`;

// A place for each node: its generation, with those of equal height side by side.
function spread(nodes, name, x, y, radius, half) {
  const columns = new Map();
  const slots = nodes.map((node) => {
    const column = columns.get(node.generation) ?? columns.set(node.generation, { bins: new Map(), most: 0 }).get(node.generation);
    const bin = Math.round(y(node[name]) / (2 * radius));
    const count = column.bins.get(bin) ?? 0;
    column.bins.set(bin, count + 1);
    const slot = (count % 2 ? 1 : -1) * Math.ceil(count / 2);
    column.most = Math.max(column.most, Math.abs(slot));
    return slot;
  });
  return nodes.map((node, i) => {
    const step = Math.min(2.2 * radius, half / Math.max(1, columns.get(node.generation).most));
    return [x(node.generation) + slots[i] * step, y(node[name])];
  });
}

// All edges above or below a node.
function reach(node, way) {
  const [found, seen, todo] = [[], new Set([node]), [node]];
  while (todo.length) {
    const here = todo.pop();
    for (const [next] of here[way]) {
      found.push(way === "above" ? [next, here] : [here, next]);
      if (!seen.has(next)) { seen.add(next); todo.push(next); }
    }
  }
  return found;
}

// The line of first parents, to the start of the search.
function mainLine(node) {
  const found = [];
  for (let here = node; here.above.length; here = here.above[0][0]) found.push([here.above[0][0], here]);
  return found;
}

function moved(nodes, node, key, name) {
  if (key === "ArrowLeft") return node.above[0]?.[0];
  if (key === "ArrowRight") return [...node.below].sort((a, b) => b[0].fitness - a[0].fitness)[0]?.[0];
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const same = nodes.filter((one) => one.generation === node.generation).sort((a, b) => a[name] - b[name] || a.index - b.index);
  return same[same.indexOf(node) + (key === "ArrowUp" ? 1 : -1)];
}

function nodePanel(run, node, calls, choose) {
  const before = node.above.length === 1 ? node.above[0][0] : null;
  const link = (other) => h("button", { type: "button", class: "link", on: { click: () => choose(other) } }, other.name);
  const relatives = (title, pairs) => pairs.length
    ? h("div", { class: "links small" }, h("span", { class: "muted" }, title), pairs.slice(0, 12).map(([other]) => link(other)), pairs.length > 12 ? h("span", { class: "muted" }, `and ${pairs.length - 12} more`) : null)
    : null;
  const facts = [
    ["fitness", number(node.fitness, 4)], ["tokens", tokens(node.mean_tokens)], ["right", percent(node.correctness)],
    ["generation", number(node.generation)],
  ];
  const about = calls.get(node.name.replace(/_(pre|mut)$/, "")) ?? [];
  return [
    h("h3", { class: "break" }, node.name, node.name === run.digest.winner ? " ★" : ""),
    h("p", { class: "small muted" }, [STAGES[node.stage], has(node.target) ? `cluster ${node.target} changed` : null, node.is_elite ? "kept as elite" : null,
      node.note || null].filter(Boolean).join("; ")),
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    relatives(node.above.length ? EDGES[node.above[0][1]] : "", node.above),
    relatives("leads to", node.below),
    node.deltas ? h("div", { class: "compact" }, deltaRows(run, node.deltas, { before: before?.deltas, brief: true })) : h("p", { class: "small muted" }, "Its deltas are not on record."),
    has(node.scratchpad) ? h("details", { open: true }, h("summary", {}, "Scratchpad"), longTextIn(h("pre"), node.scratchpad)) : null,
    about.map((call) => callDetails(call)),
  ].flat().filter(Boolean);
}

function callDetails(call) {
  if (!call.texts) return h("p", { class: "small muted" }, `${call.title}: the texts are in reflector_prompts/${call.file}`);
  const parts = ["System prompt", "Prompt", "Reply"];
  const body = h("div");
  const details = h("details", { on: { toggle: () => details.open && !body.childNodes.length && fill() } },
    h("summary", {}, `${capital(call.title)}`), h("p", { class: "small muted" }, call.provider ? `answered by ${call.provider}` : "no answer"), body);
  const fill = () => body.append(...[2, 1, 0].map((i) => h("details", { open: i === 2 }, h("summary", {}, parts[i]), longTextIn(h("pre"), call.texts[i]))));
  return details;
}
