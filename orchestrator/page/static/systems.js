// All measured systems: tokens against right answers, with the front, and the table behind it.

function systemsSection(run) {
  const measured = ["test", "validation"].filter((which) => run.systems.some((one) => one[which]));
  if (!measured.length) return null;
  const chosen = view(`systems ${run.digest.run}`, { set: measured[0] });
  const about = "Further left is shorter, higher is more often right. A sentence costs nothing, so each one is a rival of the vector. " +
    "The dotted line joins those that no other beats in both.";
  const draw = (again) => {
    const systems = run.systems.filter((one) => one[chosen.set]);
    const rows = new Map();
    const lit = (name, on) => rows.get(name)?.classList.toggle("is-lit", on);
    const kinds = [...new Set(systems.map((one) => one.kind))];
    return [
      h("div", { class: "controls" },
        measured.length > 1
          ? segments("Set of questions", measured.map((which) => [which, `${which}, ${number(most(run, which))} questions`]), chosen.set, (value) => { chosen.set = value; again(); })
          : h("span", { class: "muted small" }, `${chosen.set} set, ${number(most(run, chosen.set))} questions`),
        legend([...kinds.map((kind) => [mark(kind), KIND_NAMES[kind]]), ...(systems.some((one) => one.is_winner) ? [[starMark(), "the winner"]] : [])])),
      h("div", { class: "card" },
        frontChart(systems, chosen.set, lit),
        scroller("Figures of all systems", systemsTable(systems, chosen.set, rows))),
    ];
  };
  return section("systems", "What was measured", about, redrawn(draw));
}
const most = (run, which) => Math.max(...run.systems.map((one) => one[which]?.n ?? 0));

function frontChart(systems, which, lit) {
  const x = (one) => one[which].mean_tokens;
  const y = (one) => one[which].share_correct;
  const label = `Mean tokens an answer against the share of right answers, ${which} set; the table below has all figures`;
  const front = systems.filter((one) => one[which].is_on_front).sort((a, b) => x(a) - x(b));
  return chart(label, (width) => Math.min(460, Math.max(300, width * 0.46)), (plot) => {
    const bars = systems.flatMap((one) => one[which].mean_tokens_interval);
    const [left, right] = extent([...systems.map(x), ...bars], 0.04);
    const ys = extent(systems.flatMap((one) => one[which].share_correct_interval), 0.03);
    const ends = [[Math.max(0, left), right], [Math.max(0, ys[0]), Math.min(1, ys[1])]];
    const scale = axes(plot, ends[0], ends[1], [`mean tokens an answer, ${which} set`, "right answers"], [number, percent]);
    const d = front.map((one, i) => (i ? `H${scale.x(x(one))}V${scale.y(y(one))}` : `M${scale.x(x(one))} ${scale.y(y(one))}`)).join("");
    plot.svg.append(s("path", { d, fill: "none", stroke: "var(--muted)", "stroke-dasharray": "2 4", "stroke-width": 1.5 }));
    const order = [...systems].sort((a, b) => b.is_winner - a.is_winner); // the star is the largest mark: others lie on it
    const place = (one) => [scale.x(x(one)), scale.y(y(one))];
    const about = (one) => `${one.name}\n${KIND_NAMES[one.kind]}${one.is_winner ? ", the winner" : ""}\n${tokens(x(one))} tokens, ${number(one[which].correct)} of ${number(one[which].n)} right`;
    for (const one of order) {
      const [cx, cy] = place(one);
      const color = `var(--${one.kind})`;
      const group = s("g", { class: "hit" });
      const cross = intervals(one[which], scale, cx, cy, color);
      cross.setAttribute("opacity", one.is_winner || one.kind === "plain" ? 0.5 : 0);
      group.append(cross, s("path", { d: one.is_winner ? star(10) : SHAPES[one.kind](5), transform: `translate(${cx} ${cy})`, fill: one.is_winner ? "var(--star)" : color, stroke: "var(--card)", "stroke-width": 1.2 }),
        s("circle", { cx, cy, r: 13, fill: "transparent" }));
      group.addEventListener("pointerenter", () => { lit(one.name, true); cross.setAttribute("opacity", 0.9); });
      group.addEventListener("pointerleave", () => { lit(one.name, false); cross.setAttribute("opacity", one.is_winner || one.kind === "plain" ? 0.5 : 0); });
      const here = systems.filter((other) => other !== one && Math.hypot(...place(other).map((at, i) => at - [cx, cy][i])) < 7);
      tip(group, [one, ...here].map(about).join("\n\n"));
      plot.svg.append(group);
    }
    labels(plot, systems.map(place), scale, systems.filter((one) => one.is_winner || one.kind === "plain" || front.includes(one)), which);
  });
}

function intervals(figures, scale, cx, cy, color) {
  const [[x1, x2], [y1, y2]] = [figures.mean_tokens_interval.map(scale.inX), figures.share_correct_interval.map(scale.y)];
  return s("path", { d: `M${x1} ${cy}H${x2}M${cx} ${y1}V${y2}`, stroke: color, "stroke-width": 1.4 });
}

// Names beside their points, where they cover neither one another nor a point; only those of the winner and of the plain model may cover points.
function labels(plot, marks, scale, systems, which) {
  const [taken, points] = [[], marks.map(([cx, cy]) => [cx - 6, cx + 6, cy + 4])];
  const rank = (one) => (one.is_winner ? 0 : one.kind === "plain" ? 1 : 2);
  for (const one of [...systems].sort((a, b) => rank(a) - rank(b))) {
    const name = one.kind === "plain" ? "plain model" : one.is_winner ? "the winner" : one.name.length > 26 ? `${one.name.slice(0, 25)}…` : one.name;
    const [cx, cy, wide] = [scale.x(one[which].mean_tokens), scale.y(one[which].share_correct), name.length * 7.3];
    const places = [[cx + 13, cy + 4], [cx - 13 - wide, cy + 4], [cx - wide / 2, cy - 15], [cx - wide / 2, cy + 24]];
    const isFree = (boxes) => ([left, base]) =>
      left >= plot.left && left + wide <= plot.right + 8 && base > plot.top && base < plot.bottom - 2 &&
      !boxes.some((box) => left < box[1] + 4 && left + wide > box[0] - 4 && Math.abs(base - box[2]) < 14);
    const free = places.find(isFree([...taken, ...points])) ?? (rank(one) < 2 ? places.find(isFree(taken)) : null);
    if (!free) continue;
    taken.push([free[0], free[0] + wide, free[1]]);
    plot.svg.append(s("text", { class: "label", x: free[0], y: free[1], "pointer-events": "none" }, name));
  }
}

function systemsTable(systems, which, rows) {
  const sorted = [...systems].sort((a, b) => b[which].fitness - a[which].fitness);
  const plain = systems.find((one) => one.kind === "plain");
  const body = sorted.map((one) => {
    const figures = one[which];
    const row = h("tr", { class: one.is_winner ? "winner" : "" },
      h("th", { scope: "row" }, h("span", { class: "name" }, mark(one.kind), h("span", {}, h("bdi", {}, one.name), one.is_winner ? " ★" : "",
        h("span", { class: "sub" }, one.kind === "prompt" || one.kind === "plain" ? one.prompt : KIND_NAMES[one.kind])))),
      h("td", { class: "num" }, tokens(figures.mean_tokens)),
      h("td", { class: "num" }, plain && one !== plain ? change(figures.mean_tokens / plain[which].mean_tokens - 1) : DASH),
      h("td", { class: "num" }, `${number(figures.correct)} / ${number(figures.n)}`),
      h("td", { class: "num" }, percent(figures.share_correct)),
      h("td", { class: "num" }, number(figures.fitness, 4)));
    rows.set(one.name, row);
    return row;
  });
  const heads = ["tokens", "change", "right", "share", "fitness"].map((name) => h("th", { class: "num", scope: "col" }, name));
  return h("table", { class: "systems" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "system"), heads)), h("tbody", {}, body));
}
