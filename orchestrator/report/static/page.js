// What is chosen on the page: a run, a set of questions, a system, light or dark; and what is searched for.
function segments(group, choose) {
  const buttons = all(group, "button");
  for (const button of buttons)
    button.addEventListener("click", () => {
      for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
      choose(button.dataset.value);
    });
}
// The first segments of an element choose which of its parts is shown.
function tabs(element) {
  const parts = [...element.children].filter((one) => one.dataset.tab);
  const show = (value) => parts.forEach((one) => { one.hidden = one.dataset.tab !== value; });
  if (parts.length > 1) segments(element.querySelector(".segments"), show);
  show(parts[0].dataset.tab);
}
// Shows the rows of which the text has all words and the tags have the chosen one.
function searchable(element) {
  const [rows, input, group] = [all(element, "[data-tags]"), element.querySelector("input"), element.querySelector(".segments")];
  let tag = group?.querySelector("button").dataset.value ?? "";
  const find = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      row.words ??= row.textContent.toLowerCase();
      row.hidden = Boolean(tag) && !row.dataset.tags.split(",").includes(tag) || !words.every((word) => row.words.includes(word));
    }
    element.querySelector("[role=status]").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  };
  if (group) segments(group, (value) => { tag = value; find(); });
  input.addEventListener("input", find);
  find();
}
const RUNS = JSON.parse(document.getElementById("data").textContent);
all(document, ".run").forEach((element, i) => {
  const find = (name) => element.querySelector(`#${name}-${i}`);
  if (find("systems")) systems(find("systems"), RUNS[i]);
  if (find("search")) lineage(find("search"), RUNS[i]);
});
all(document, ".searchable").forEach(searchable);
all(document, ".tabs").forEach(tabs);
const links = () => {
  const seen = all(document, "section[id]").filter((one) => one.offsetParent);
  document.querySelector("nav").replaceChildren(...seen.map(({ id, dataset }) => h("a", { href: `#${id}` }, dataset.title)));
};
document.querySelector("main").addEventListener("click", links);
links();
document.querySelector(".theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.style.colorScheme ? root.style.colorScheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.style.colorScheme = isDark ? "light" : "dark";
});
