// Charts in SVG: drawn for the width that there is, and again when it changes.

const SHAPES = {
  plain: (r) => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  prompt: (r) => `M0 ${-1.25 * r}L${1.2 * r} ${0.85 * r}H${-1.2 * r}z`,
  vector: (r) => `M0 ${-1.3 * r}L${1.3 * r} 0L0 ${1.3 * r}L${-1.3 * r} 0z`,
  evolved: (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
};
const KIND_NAMES = { plain: "plain model", prompt: "system prompt", vector: "vector without search", evolved: "evolved vector" };

function star(r) {
  const corners = Array.from({ length: 10 }, (_, i) => {
    const [angle, radius] = [(Math.PI * i) / 5 - Math.PI / 2, i % 2 ? r * 0.46 : r];
    return `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
  });
  return `M${corners.join("L")}z`;
}
function mark(kind) {
  return s("svg", { viewBox: "-6 -6 12 12", class: `mark k-${kind}`, "aria-hidden": "true" },
    s("path", { d: SHAPES[kind](4), fill: "currentColor" }));
}

function starMark() {
  return s("svg", { viewBox: "-6 -6 12 12", class: "mark", "aria-hidden": "true" }, s("path", { d: star(6), fill: "var(--star)" }));
}

function linear(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}
function ticks(low, high, count) {
  const rough = (high - low || 1) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-6; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}
function extent(values, share = 0.06) {
  const known = values.filter(has);
  if (!known.length) return [0, 1];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const around = (high - low || Math.abs(high) * 0.2 || 1) * share;
  return [low - around, high + around];
}

// A chart of this height; draw(plot) gets the scales' ends and puts its marks into plot.svg.
function chart(label, height, draw) {
  const host = h("div", { class: "chart" });
  let width = 0;
  const redraw = () => {
    width = host.clientWidth;
    if (!width) return;
    const tall = typeof height === "function" ? height(width) : height;
    const svg = s("svg", { viewBox: `0 0 ${width} ${tall}`, height: tall, role: "img", "aria-label": label });
    const left = 46;
    draw({ svg, width, height: tall, left, right: width - 12, top: 12, bottom: tall - 38 });
    host.replaceChildren(svg);
  };
  new ResizeObserver(() => Math.abs(host.clientWidth - width) > 1 && redraw()).observe(host);
  host.redraw = redraw;
  return host;
}

// Numbers at an axis, with as many decimal places as they need.
function tickTexts(values, format) {
  const shown = (text) => Number.parseFloat(text.replaceAll(",", "").replace(MINUS, "-")) / (text.endsWith("%") ? 100 : 1);
  for (let digits = 0; ; digits += 1) {
    const texts = values.map((value) => format(value, digits));
    if (digits > 9 || texts.every((text, i) => Math.abs(shown(text) - values[i]) < 1e-9)) return texts;
  }
}

// Axes with their ticks; a format takes a value and a number of decimal places.  Returns the two scales.
function axes(plot, xs, ys, names, formats) {
  const x = linear(xs[0], xs[1], plot.left, plot.right);
  const y = linear(ys[0], ys[1], plot.bottom, plot.top);
  const up = ticks(ys[0], ys[1], Math.max(3, plot.height / 62));
  tickTexts(up, formats[1]).forEach((text, i) => {
    plot.svg.append(s("line", { class: "gridline", x1: plot.left, x2: plot.right, y1: y(up[i]), y2: y(up[i]) }),
      s("text", { x: plot.left - 8, y: y(up[i]) + 4, "text-anchor": "end" }, text));
  });
  const wanted = formats.ticks ?? ticks(xs[0], xs[1], Math.max(3, plot.width / 95));
  tickTexts(wanted, formats[0]).forEach((text, i) => {
    plot.svg.append(s("text", { x: x(wanted[i]), y: plot.bottom + 17, "text-anchor": "middle" }, text));
  });
  plot.svg.append(s("line", { class: "axis", x1: plot.left, x2: plot.right, y1: plot.bottom, y2: plot.bottom }),
    s("text", { x: plot.right, y: plot.bottom + 34, "text-anchor": "end" }, names[0]));
  if (names[1]) plot.svg.append(s("text", { x: plot.left + 4, y: plot.top + 2, "text-anchor": "start" }, names[1]));
  return { x, y, inX: (value) => Math.min(Math.max(x(value), plot.left), plot.right) };
}

// Whole numbers on an axis, not more than fit.
function wholeTicks(first, last, width) {
  const step = Math.max(1, Math.ceil((last - first + 1) / Math.max(2, width / 44)));
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => first + i * step);
}

function tip(element, text) {
  const box = document.getElementById("tip");
  const show = () => {
    box.replaceChildren(text);
    box.hidden = false;
    const at = element.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left + at.width / 2 - box.offsetWidth / 2), innerWidth - box.offsetWidth - 8);
    const above = at.top - box.offsetHeight - 8;
    box.style.left = `${left + scrollX}px`;
    box.style.top = `${(above > 60 ? above : at.bottom + 8) + scrollY}px`;
  };
  const hide = () => { box.hidden = true; };
  element.addEventListener("pointerenter", show);
  element.addEventListener("pointerleave", hide);
  element.addEventListener("focus", show);
  element.addEventListener("blur", hide);
  return element;
}

function legend(entries) {
  return h("ul", { class: "legend" }, entries.map(([icon, text]) => h("li", {}, icon, text)));
}
function swatch(color, dashed = false, width = 2.5) {
  return s("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" },
    s("line", { x1: 0, x2: 14, y1: 7, y2: 7, stroke: color, "stroke-width": width, "stroke-dasharray": dashed ? "3 3" : null }));
}

// Lines over generations: series of {name, color, dashed, points: [[x, y], ...]}.
function lineChart(label, series, names, formats, height = 270) {
  const known = series.map((one) => ({ ...one, points: one.points.filter((point) => has(point[1])) })).filter((one) => one.points.length);
  return chart(label, height, (plot) => {
    const all = known.flatMap((one) => one.points);
    const [first, last] = [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0]))];
    const edge = first === last ? 0.5 : 0;
    const { x, y } = axes(plot, [first - edge, last + edge], extent(all.map((p) => p[1])), names,
      Object.assign([...formats], { ticks: wholeTicks(first, last, plot.width) }));
    for (const one of known) {
      const path = one.points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("");
      plot.svg.append(s("path", { d: path, fill: "none", stroke: one.color, "stroke-width": one.thin ? 1.6 : 2.4, "stroke-linejoin": "round", "stroke-dasharray": one.dashed ? "4 4" : null }));
      if (one.points.length > 60) continue;
      for (const p of one.points) {
        const dot = s("circle", { cx: x(p[0]), cy: y(p[1]), r: one.thin ? 2.2 : 3.2, fill: one.color });
        const hit = s("circle", { cx: x(p[0]), cy: y(p[1]), r: 11, fill: "transparent" });
        plot.svg.append(dot, tip(hit, `${one.name}\n${names[0]} ${p[0]}: ${formats[1](p[1])}`));
      }
    }
  });
}
