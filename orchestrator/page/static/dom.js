// Elements, numbers and texts.  All that comes from a run becomes a text node or an attribute, never markup.

function make(create, name, properties, children) {
  const element = create(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (key === "style") Object.assign(element.style, value);
    else if (key === "data") Object.assign(element.dataset, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}
const h = (name, properties = {}, ...children) => make((n) => document.createElement(n), name, properties, children);
const s = (name, properties = {}, ...children) =>
  make((n) => document.createElementNS("http://www.w3.org/2000/svg", n), name, properties, children);

const DASH = "–";
const MINUS = "−";
const has = (value) => value !== null && value !== undefined;

// Decimal places as Python rounds them, so that a figure is the same here and in report.txt: ties go to the even digit.
function fixed(value, digits) {
  const text = value.toFixed(digits);
  const rest = value.toFixed(digits + 40).slice(text.length).replace(".", "");
  const isTie = /^50*$/.test(rest);
  return isTie && Number(text.at(-1)) % 2 ? (value - Math.sign(value) * 10 ** -digits / 4).toFixed(digits) : text;
}
function number(value, digits = 0) {
  if (!has(value)) return DASH;
  const [whole, part] = fixed(Math.abs(value), digits).split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
  return value < 0 && /[1-9]/.test(text) ? MINUS + text : text;
}
function signed(value, digits = 1) {
  if (!has(value)) return DASH;
  const text = number(Math.abs(value), digits);
  if (Number(text.replaceAll(",", "")) === 0) return text;
  return (value < 0 ? MINUS : "+") + text;
}
const tokens = (value) => number(value, 1);
const percent = (share, digits = 1) => (has(share) ? `${number(100 * share, digits)} %` : DASH);
const change = (share) => (has(share) ? `${signed(100 * share)} %` : DASH);
const points = (share) => (has(share) ? `${signed(100 * share)} points` : DASH);
const within = (interval, format) => (has(interval) ? `${format(100 * interval[0])} to ${format(100 * interval[1])}` : "");
const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
function money(dollars) {
  if (!has(dollars)) return "unknown";
  if (dollars === 0) return "free";
  return dollars < 1 ? `$${fixed(dollars, 4)}` : `$${number(dollars, 2)}`;
}
function duration(seconds) {
  if (!has(seconds)) return DASH;
  const whole = Math.round(seconds);
  if (seconds < 10) return `${number(seconds, 1)} s`;
  if (whole < 60) return `${whole} s`;
  const two = (value) => String(value).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
}

// A table of the data, {columns, rows}, as objects.
const records = (table) => table.rows.map((row) => Object.fromEntries(table.columns.map((name, i) => [name, row[i]])));

// The page's state outlives its elements, which are drawn anew.
const state = { run: 0, theme: null, views: {} };
const view = (name, initial) => (state.views[name] ??= { ...initial });

function segments(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), on: { click: () => choose(value) } }, text),
  );
  return h("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}

// A table that is wider than the page can be scrolled, also by keyboard.
function scroller(label, table) {
  return h("div", { class: "scroll", role: "group", tabindex: 0, "aria-label": label }, table);
}

function section(id, title, about, ...children) {
  const header = h("header", {}, h("h2", {}, title), about ? h("p", {}, about) : null);
  return h("section", { id, "aria-label": title }, header, children);
}

// A section that draws its own content anew, when something in it was chosen.
function redrawn(draw) {
  const host = h("div");
  const again = () => replaceKept(host, [draw(again)].flat().filter(Boolean));
  again();
  return host;
}

// Other children for an element: what has the focus, what is open and what is scrolled stays so.
function replaceKept(host, children) {
  const before = new Map(named(host));
  const focused = [...before].find(([, element]) => element === document.activeElement);
  const caret = focused?.[1].selectionStart;
  const states = [...before].map(([name, element]) => [name, element.open, element.scrollLeft, element.scrollTop]);
  document.getElementById("tip").hidden = true;
  host.replaceChildren(...children);
  if (!host.isConnected) return;
  for (const drawn of host.querySelectorAll(".chart")) drawn.redraw();
  const after = new Map(named(host));
  for (const [name, open, left, top] of states) {
    const element = after.get(name);
    if (element && has(open)) element.open = open;
    if (element && (left || top)) element.scrollTo({ left, top, behavior: "instant" });
  }
  const element = focused && after.get(focused[0]);
  element?.focus({ preventScroll: true });
  if (has(caret) && element?.setSelectionRange) element.setSelectionRange(caret, caret);
}

// What can have a state, each with a name that it has again when it is drawn anew: its part of the page and its label.
function named(host) {
  const counts = new Map();
  return [...host.querySelectorAll("a, button, input, select, summary, details, .scroll, .long, .chart, .node")].map((element) => {
    const label = element.getAttribute("aria-label") ?? (element.querySelector("summary") ?? element).textContent.slice(0, 80).replace(/[\d,]+/g, "#");
    const name = [element.closest("[id]")?.id, element.tagName, label].join(" ");
    counts.set(name, (counts.get(name) ?? 0) + 1);
    return [`${name} ${counts.get(name)}`, element];
  });
}

// Long texts come packed (orchestrator/page/packing.py): base64 of raw deflate of a JSON list of texts.
const unpacked = new Map();
async function longText(index) {
  const { starts, chunks } = DATA.texts;
  let chunk = starts.length - 1;
  while (starts[chunk] > index) chunk -= 1;
  if (!unpacked.has(chunk)) {
    const bytes = Uint8Array.from(atob(chunks[chunk]), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    unpacked.set(chunk, new Response(stream).json());
  }
  return (await unpacked.get(chunk))[index - starts[chunk]];
}

// An element that gets its long text when it can be seen.
function longTextIn(element, index) {
  if (!has(index)) return element;
  longText(index).then(
    (text) => element.replaceChildren(text),
    () => element.replaceChildren("This browser cannot unpack the text; a newer one can."),
  );
  return element;
}

// Spaces, line ends and characters that are not seen, made visible; a long run of one is counted.
const UNSEEN = "\\s\\x00-\\x1f\\x7f-\\x9f\\xad\\u200b\\u200c\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff";
const RUNS = new RegExp(`([${UNSEEN}])\\1*|[^${UNSEEN}]+`, "g");
const IS_UNSEEN = new RegExp(`^[${UNSEEN}]`);
function token(text, title) {
  const parts = (text.match(RUNS) ?? []).map((run) => {
    if (!IS_UNSEEN.test(run)) return run;
    const sign = { " ": "␣", "\n": "↵", "\t": "⇥", "\r": "\\r" }[run[0]] ?? `U+${run.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    return h("b", {}, run.length > 3 ? `${sign}×${run.length}` : sign.repeat(run.length));
  });
  return h("span", { class: "token", title }, parts);
}
