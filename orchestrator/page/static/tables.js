// What a kind of run without parts of its own has found, as its tables (orchestrator/runs/kinds.py).

function tableSections(run) {
  return run.tables.map((table, i) => {
    const isNumber = table.columns.map((_, at) => table.rows.every((row) => typeof row[at] !== "string" || /^-?[\d.,]+ ?%?$/.test(row[at])));
    const cell = (value, at) => h("td", { class: isNumber[at] ? "num" : null }, has(value) ? String(value).replace(/^-(?=\d)/, MINUS) : DASH);
    const head = table.columns.map((name, at) => h("th", { class: isNumber[at] ? "num" : null, scope: "col" }, name));
    const body = table.rows.map((row) => h("tr", {}, row.map(cell)));
    return section(`table${i}`, table.title, table.about, h("div", { class: "card" },
      scroller(table.title, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)))));
  });
}
