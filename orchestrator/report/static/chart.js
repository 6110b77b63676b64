// Charts in SVG, drawn for the width that there is.  All that comes from a run becomes a text node or an attribute.
const make = (create) => (name, attributes = {}, ...children) => {
  const element = create(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};
const h = make((name) => document.createElement(name));
const s = make((name) => document.createElementNS("http://www.w3.org/2000/svg", name));
const all = (root, selector) => [...root.querySelectorAll(selector)];
const number = (value, digits = 0) => {
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString("en", options).replace("-", "−");
};
const percent = (share) => `${Number((100 * share).toPrecision(6))} %`;

function ticks([low, high], count, least = 0) {
  const rough = (high - low) / Math.max(3, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const nice = power * [1, 2, 2.5, 5, 10].find((one) => one * power >= rough * 0.999);
  const step = least ? Math.max(least, Math.ceil(nice)) : nice;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}
function extent(values, share = 0.06) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const around = (high - low || Math.abs(high) * 0.2 || 1) * share;
  return [low - around, high + around];
}

// axes: {x, y}, each {ends, name, format, step}; draw(plot) returns the marks: {at: [x, y], text, choose}.
function chart(host, axes, ratio, draw) {
  let [width, marks] = [0, []];
  const redraw = () => {
    width = host.clientWidth;
    if (!width) return;
    const height = Math.min(480, Math.max(310, width * ratio));
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height });
    const plot = { svg, left: 48, right: width - 12, top: 14, bottom: height - 38 };
    const scale = ([low, high], from, to) => (value) => from + ((value - low) / (high - low)) * (to - from);
    plot.x = scale(axes.x.ends, plot.left, plot.right);
    plot.y = scale(axes.y.ends, plot.bottom, plot.top);
    const text = (x, y, anchor, content) => svg.append(s("text", { x, y, "text-anchor": anchor }, content));
    for (const value of ticks(axes.y.ends, height / 62)) {
      svg.append(s("path", { class: "gridline", d: `M${plot.left} ${plot.y(value)}H${plot.right}` }));
      text(plot.left - 8, plot.y(value) + 4, "end", axes.y.format?.(value) ?? value);
    }
    for (const value of ticks(axes.x.ends, width / 95, axes.x.step)) text(plot.x(value), plot.bottom + 17, "middle", value);
    svg.append(s("path", { class: "axis", d: `M${plot.left} ${plot.bottom}H${plot.right}` }));
    text(plot.right, plot.bottom + 34, "end", axes.x.name);
    text(plot.left + 4, plot.top - 2, "start", axes.y.name ?? "");
    marks = draw(plot);
    host.replaceChildren(svg);
  };
  const nearest = (event) => {
    const box = host.getBoundingClientRect();
    const far = ({ at: [x, y] }) => Math.hypot(x - event.clientX + box.left, y - event.clientY + box.top);
    const found = marks.reduce((best, one) => (far(one) < far(best) ? one : best), marks[0]);
    return found && far(found) < 16 ? found : null;
  };
  host.addEventListener("pointermove", (event) => tip(host, nearest(event)));
  host.addEventListener("pointerleave", () => tip(host, null));
  host.addEventListener("click", (event) => nearest(event)?.choose());
  new ResizeObserver(() => host.clientWidth !== width && redraw()).observe(host);
  return redraw;
}
function tip(host, mark) {
  const [box, area] = [document.getElementById("tip"), host.getBoundingClientRect()];
  host.classList.toggle("can-choose", Boolean(mark));
  box.hidden = !mark;
  if (!mark) return;
  box.replaceChildren(mark.text);
  const left = Math.min(area.left + mark.at[0] - box.offsetWidth / 2, innerWidth - box.offsetWidth - 8);
  box.style.left = `${Math.max(8, left) + scrollX}px`;
  box.style.top = `${area.top + mark.at[1] + 14 + scrollY}px`;
}
