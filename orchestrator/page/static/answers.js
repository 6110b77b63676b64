// The answers before and after, side by side with their verdicts.

const PAGE = 20;
const LONG = 2500; // characters
const FILTERS = {
  all: ["all", () => true],
  changed: ["changed", (one) => one.before !== one.after],
  lost: ["lost", (one) => one.right_before && !one.right_after],
  gained: ["gained", (one) => !one.right_before && one.right_after],
  wrong: ["wrong after", (one) => !one.right_after],
};
const PAIR_FILTERS = {
  all: ["all", () => true], retained: ["retained", (one) => one.is_retained], discarded: ["discarded", (one) => !one.is_retained],
};
const ORDERS = {
  asked: ["as asked", () => 0],
  saved: ["most tokens saved", (a, b) => b.tokens_before - b.tokens_after - (a.tokens_before - a.tokens_after)],
  longest: ["longest after", (a, b) => b.tokens_after - a.tokens_after],
};

function answersSection(run) {
  if (!run.answers?.length) return null;
  const isCollection = run.digest.kind === "collect";
  const filters = isCollection ? PAIR_FILTERS : FILTERS;
  const sets = run.answers.map((one) => ({ name: one.name, rows: records(one) }));
  const start = Math.max(0, sets.findIndex((one) => one.name.startsWith(run.digest.measured_on ?? " ")));
  const chosen = view(`answers ${run.digest.run}`, { set: start, filter: "all", order: "asked", query: "", shown: PAGE });
  if (chosen.set >= sets.length) chosen.set = start;
  const draw = (again) => {
    const choose = (name) => (value) => { chosen[name] = value; chosen.shown = PAGE; again(); };
    const rows = sets[chosen.set].rows;
    const words = chosen.query.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = rows.filter(filters[chosen.filter][1]).filter((one) => matches(one, words)).sort(ORDERS[chosen.order][1]);
    return [
      h("div", { class: "controls" },
        sets.length > 1 ? segments("Set of questions", sets.map((one, i) => [i, one.name.split(/ set\b|,/)[0]]), chosen.set, choose("set")) : null,
        segments("Which answers", Object.entries(filters).map(([name, [text, keep]]) => [name, `${text} ${number(rows.filter(keep).length)}`]), chosen.filter, choose("filter")),
        h("select", { "aria-label": "Order", on: { change: (event) => choose("order")(event.target.value) } },
          Object.entries(ORDERS).map(([name, [text]]) => h("option", { value: name, selected: name === chosen.order }, text))),
        h("input", { type: "search", placeholder: "Search questions and answers", "aria-label": "Search questions and answers", value: chosen.query,
          on: { input: (event) => choose("query")(event.target.value) } })),
      h("p", { class: "small muted", role: "status" }, `${capital(sets[chosen.set].name)}: ${number(matching.length)} of ${plural(rows.length, isCollection ? "pair" : "question")}`),
      h("div", { style: { marginTop: ".7rem" } }, matching.slice(0, chosen.shown).map((one) => questionCard(one, words, isCollection))),
      matching.length > chosen.shown
        ? h("button", { type: "button", class: "chip more", on: { click: () => { chosen.shown += PAGE * 5; again(); } } }, `show more: ${number(matching.length - chosen.shown)} are left`)
        : null,
    ];
  };
  const about = isCollection
    ? "What the model wrote, and what was left of it. A pair is retained when the compressed answer is right."
    : "What the plain model answered, and what the winner answers, with the judge's verdicts.";
  return section("answers", "Answers before and after", about, redrawn(draw));
}

function matches(one, words) {
  if (!words.length) return true;
  one.haystack ??= [one.example, one.question, one.gold, one.before, one.after].join("\n").toLowerCase();
  return words.every((word) => one.haystack.includes(word));
}

// A text with the words that were searched for marked.
function marked(text, words) {
  if (!words.length) return text;
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^$()|[\]{}\\]/g, "\\$&")).join("|")})`, "gi");
  return text.split(pattern).map((part, i) => (i % 2 ? h("mark", {}, part) : part));
}

function questionCard(one, words, isCollection) {
  return h("article", { class: "card question" },
    h("header", {}, verdictBadge(one, isCollection), has(one.tokens_before) ? h("span", { class: "small muted" }, savedText(one)) : null, h("span", { class: "id" }, one.example)),
    h("p", { class: "asked" }, marked(one.question, words)),
    h("p", { class: "small muted break gold" }, "Right answer: ", h("bdi", {}, marked(one.gold, words))),
    h("div", { class: "pair" },
      side("before", one.tokens_before, isCollection ? null : one.right_before, one.before, one.reason_before, words),
      side("after", one.tokens_after, isCollection ? one.is_retained : one.right_after, one.after, isCollection ? one.reason : one.reason_after, words)));
}
function savedText(one) {
  const saved = one.tokens_before - one.tokens_after;
  return saved === 0 ? "as long as before" : `${plural(Math.abs(saved), "token")} ${saved > 0 ? "fewer" : "more"}`;
}
// A very long text gets a box of its own that scrolls, also by keyboard.
function longBox(element, text, label) {
  if (text.length > LONG) for (const [name, value] of [["class", `${element.className} long`], ["tabindex", 0], ["role", "group"], ["aria-label", label]]) element.setAttribute(name, value);
  return element;
}
function verdictBadge(one, isCollection) {
  if (isCollection) return badge(one.is_retained ? ["retained", "good"] : ["discarded", "bad"]);
  if (one.right_before && one.right_after) return badge(["right both times", "plain"]);
  if (one.right_after) return badge(["gained", "good"]);
  return badge(one.right_before ? ["lost", "bad"] : ["wrong both times", "warn"]);
}
function side(name, count, isRight, text, reason, words) {
  const verdict = has(isRight) ? (isRight ? h("span", { class: "good" }, "✓ right") : h("span", { class: "bad" }, "✗ wrong")) : null;
  return h("div", { class: `side ${has(isRight) ? (isRight ? "is-right" : "is-wrong") : ""}` },
    h("p", { class: "head" }, [name, has(count) ? plural(count, "token") : null].filter(Boolean).map((text) => h("span", {}, text)), verdict),
    text ? longBox(h("p", { class: "text" }, marked(text, words)), text, `Answer ${name}`) : h("p", { class: "text muted" }, "(no text)"),
    reason ? longBox(h("p", { class: "reason" }, "judge: ", h("bdi", {}, reason)), reason, `Reason ${name}`) : null);
}

// The tokens that a collection has found.
function wastedSection(run) {
  if (!run.wasted?.length) return null;
  const chosen = view(`wasted ${run.digest.run}`, { shown: PAGE });
  const largest = run.wasted[0].delta || 1;
  const draw = (again) => {
    const body = run.wasted.slice(0, chosen.shown).map((one) => h("tr", {},
      h("td", {}, token(one.text, `token ${one.token_id}`)),
      h("td", { style: { width: "40%" } }, h("div", { class: "meter", style: { marginTop: ".5rem" } }, h("i", { class: "after", style: { width: `${(100 * one.delta) / largest}%` } }))),
      h("td", { class: "num" }, percent(one.verbose, 3)), h("td", { class: "num" }, percent(one.compressed, 3)), h("td", { class: "num" }, points3(one.delta))));
    const heads = ["before", "after", "points"].map((name) => h("th", { class: "num", scope: "col" }, name));
    return [
      h("div", { class: "card" }, scroller("Wasted tokens", h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "token"), h("td"), heads)), h("tbody", {}, body)))),
      run.wasted.length > chosen.shown ? h("button", { type: "button", class: "chip more", on: { click: () => { chosen.shown += 100; again(); } } }, `show more: ${number(run.wasted.length - chosen.shown)} are left`) : null,
    ];
  };
  return section("wasted", "Wasted tokens", "Shares of the tokens of retained answers before and after compression, where each example counts once; the largest difference first.", redrawn(draw));
}
const points3 = (share) => `${signed(100 * share, 3)}`;
