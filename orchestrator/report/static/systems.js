// The systems: one chart for each set of questions, and the panel of the one that is chosen.
function systems(section, run) {
  let chosen = run.systems[0];
  const redraws = [];
  const choose = (one) => {
    chosen = one;
    for (const row of all(section, "tr")) row.classList.toggle("is-lit", row.dataset.system === one.name);
    for (const panel of all(section, ".panel")) panel.hidden = panel.dataset.system !== one.name;
    for (const redraw of redraws) redraw();
  };
  for (const part of all(section, "[data-tab]")) {
    const there = run.systems.filter((one) => one[part.dataset.tab]);
    redraws.push(systemsChart(part.querySelector(".chart"), there, part.dataset.tab, () => chosen, choose));
  }
  const named = (element) => run.systems.find((one) => one.name === element.dataset.system);
  for (const row of all(section, "tr[data-system]")) row.addEventListener("click", () => choose(named(row)));
  for (const panel of all(section, ".panel")) {
    const { deltas, clustering } = named(panel);
    panel.querySelector(".deltas").append(...deltaRows(deltas, run.clusters[clustering] ?? [], deltas));
  }
  choose(chosen);
}

// Tokens against correct answers on one set, and the front as a line; with intervals and names where they matter most.
function systemsChart(host, found, which, chosen, choose) {
  const [x, y] = [(one) => one[which].mean_tokens, (one) => one[which].correct / one[which].n];
  const interval = ({ [which]: f }) => f.correct_interval.map((end) => end / f.n);
  const isMain = (one) => one.is_winner || one.kind === "plain";
  const heights = found.flatMap((one) => (isMain(one) ? interval(one) : y(one)));
  const axes = {
    x: { ends: extent(found.flatMap((one) => (isMain(one) ? one[which].mean_tokens_interval : x(one)))), name: `mean tokens an answer, ${which} set` },
    y: { ends: extent(heights), name: "correct answers", format: percent },
  };
  return chart(host, axes, 0.46, (plot) => {
    const at = (one) => [plot.x(x(one)), plot.y(y(one))];
    const front = found.filter((one) => one.best_on.includes(which)).sort((a, b) => x(a) - x(b)).map(at);
    plot.svg.append(s("path", { class: "front", d: front.map(([px, py], i) => (i ? `H${px}V${py}` : `M${px} ${py}`)).join("") }));
    for (const one of found.toReversed()) {
      const [[px, py], size] = [at(one), one.is_winner ? 22 : 13];
      const kind = `k-${one.is_winner ? "winner" : one.kind}`;
      plot.svg.append(s("use", { href: `#${kind}`, class: kind, x: px - size / 2, y: py - size / 2, width: size, height: size }));
      if (one === chosen()) plot.svg.append(s("circle", { class: "ring", cx: px, cy: py, r: 12 }));
      if (!isMain(one) && one !== chosen()) continue;
      const [[low, high], [left, right]] = [interval(one).map(plot.y), one[which].mean_tokens_interval.map(plot.x)];
      const [isLeft, name] = [px < (plot.left + plot.right) / 2, one.name.length > 30 ? `${one.name.slice(0, 29)}…` : one.name];
      plot.svg.append(
        s("path", { class: `interval k-${one.kind}`, d: `M${left} ${py}H${right}M${px} ${low}V${high}` }),
        s("text", { class: "label", x: px + (isLeft ? 14 : -14), y: py - 6, "text-anchor": isLeft ? "start" : "end" }, name),
      );
    }
    const text = ({ name, kind, [which]: f }) => `${name}\n${kind}\n${number(f.mean_tokens, 1)} tokens, ${f.correct} of ${f.n} correct`;
    return found.map((one) => ({ at: at(one), text: text(one), choose: () => choose(one) }));
  });
}
