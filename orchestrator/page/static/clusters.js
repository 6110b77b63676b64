// The best deltas: what is added to the logits of each cluster's tokens, and which tokens these are.

function clustersSection(run) {
  const vectors = run.systems?.filter((one) => one.deltas.some((delta) => delta !== 0)) ?? [];
  const all = [];
  if (run.best_deltas) all.push([run.digest.winner ? `${run.digest.winner} (the winner)` : "the best so far", run.best_deltas]);
  for (const one of vectors) if (!one.is_winner) all.push([`${one.name} (${KIND_NAMES[one.kind]})`, one.deltas]);
  if (!all.length || !run.cluster_ids.length) return null;
  const chosen = view(`clusters ${run.digest.run}`, { vector: 0, order: "size" });
  const about = "Each is one number, added to the logits of all tokens of its cluster: a negative one makes them rarer, a positive one more frequent.";
  const draw = (again) => [
    h("div", { class: "controls" },
      h("select", { "aria-label": "Vector", on: { change: (event) => { chosen.vector = Number(event.target.value); again(); } } },
        all.map(([name], i) => h("option", { value: i, selected: i === chosen.vector }, name))),
      segments("Order", [["size", "largest first"], ["id", "by cluster"]], chosen.order, (value) => { chosen.order = value; again(); })),
    h("div", { class: "card" }, all[chosen.vector][1].some((delta) => delta) ? null : h("p", { class: "muted" }, "All deltas are 0: the model is not steered."),
      deltaRows(run, all[chosen.vector][1], { sorted: chosen.order === "size" })),
  ];
  return section("deltas", "Deltas by cluster", about, redrawn(draw));
}

function deltaRows(run, deltas, { before, brief, sorted } = {}) {
  const largest = Math.max(...deltas.map(Math.abs), 1e-9);
  const order = deltas.map((_, i) => i);
  if (sorted) order.sort((a, b) => Math.abs(deltas[b]) - Math.abs(deltas[a]) || a - b);
  const shown = brief ? order.filter((i) => deltas[i] !== 0 || (before && before[i] !== deltas[i])) : order;
  if (brief && !shown.length) return h("p", { class: "small muted" }, "All deltas are 0.");
  return shown.map((i) => deltaRow(run, i, deltas[i], largest, before && before[i] !== deltas[i] ? before[i] : null, brief));
}

function deltaRow(run, i, delta, largest, before, brief) {
  const cluster = run.clusters[i];
  const wide = `${(50 * Math.abs(delta)) / largest}%`;
  const bar = h("i", { class: delta < 0 ? "down" : "up", style: delta < 0 ? { right: "50%", width: wide } : { left: "50%", width: wide } });
  const value = h("div", { class: "num" }, has(before) ? [h("span", { class: "sub" }, `was ${signed(before, 3)}`), " "] : null, signed(delta, 3));
  if (brief) {
    return h("div", { class: "delta", title: cluster?.description }, h("span", { class: "id" }, run.cluster_ids[i]), h("div", { class: "diverging" }, bar), value);
  }
  const examples = cluster?.examples ?? [];
  const what = cluster ? cluster.description.split(/; common ones|: /)[0] : "";
  return h("div", { class: delta ? "delta" : "delta is-zero" }, h("span", { class: "id" }, run.cluster_ids[i]),
    h("div", { class: "what" }, h("bdi", {}, examples.length ? what : cluster?.description ?? ""),
      cluster?.count ? h("span", { class: "muted small" }, ` · ${plural(cluster.count, "token")}`) : null,
      examples.length ? h("div", { class: "tokens", title: cluster.description }, examples.map((text) => token(text))) : null),
    h("div", { class: "diverging", "aria-hidden": "true" }, bar), value);
}
