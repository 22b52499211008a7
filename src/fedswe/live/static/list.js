// The list of what was found. All text is set as text, never as markup.
import { state, toggle } from "/live.js";

const LIGHT = ["#0b5cad", "#c2410c", "#15803d", "#9333ea", "#b91c5c", "#0e7490", "#854d0e", "#475569",
  "#4338ca", "#dc2626", "#4d7c0f", "#0f766e"];
const DARK = ["#7cc4f0", "#ffb27a", "#7fdb9c", "#d0a8ff", "#ff9dc4", "#6fd6e6", "#e3c07a", "#b9c4d0",
  "#a9b4ff", "#ff8f8f", "#b5d66b", "#66d4c2"];
export const dark = matchMedia("(prefers-color-scheme: dark)");
const MANY = 60; // cells that are shown with their names
const rows = new Map(), grids = new Map(); // id -> elements, kept so that the keyboard's focus stays where it is

export const colourOf = (id) => (dark.matches ? DARK : LIGHT)[state.selected.indexOf(id) % LIGHT.length] ?? "transparent";

export function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

export function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const naturally = new Intl.Collator("en", { numeric: true });

export function drawList() {
  const all = [...state.items.values()].sort((a, b) => naturally.compare(a.name, b.name));
  document.getElementById("empty").hidden = all.length > 0;
  const alone = all.filter((item) => item.kind === "run" && !item.grid);
  document.getElementById("runs").hidden = !alone.length;
  arrange(document.querySelector("#runs ul"), alone, rows, newRow, fillRow);
  const shown = all.filter((item) => item.kind === "grid");
  document.getElementById("grids").hidden = !shown.length;
  arrange(document.querySelector("#grids .grids"), shown, grids, newGrid, fillGrid);
  const leftOut = document.getElementById("left-out");
  leftOut.hidden = !state.leftOut;
  set(leftOut, `${state.leftOut} more runs are not shown: watch fewer directories`);
}

function arrange(place, items, known, make, fill) {
  const ids = new Set(items.map((item) => item.id));
  for (const child of [...place.children])
    if (!ids.has(child.dataset.id)) {
      known.delete(child.dataset.id);
      child.remove();
    }
  items.forEach((item, i) => {
    if (!known.has(item.id)) known.set(item.id, make(item));
    const made = known.get(item.id);
    fill(made, item);
    if (place.children[i] !== made.root) place.insertBefore(made.root, place.children[i] ?? null);
  });
}

// a run -------------------------------------------------------------------------------------------------------
function newRow(item) {
  const root = element("li", "row"), label = element("label"), box = element("input");
  root.dataset.id = item.id;
  box.type = "checkbox";
  box.addEventListener("change", () => toggle(item.id, box.checked));
  const swatch = element("span", "swatch"), name = element("span", "name"), facts = element("div", "facts");
  const status = element("span", "state"), bar = element("progress"), done = element("span");
  bar.setAttribute("aria-hidden", "true"); // the text beside it says the same
  label.append(box, swatch, name);
  facts.append(status, bar, done);
  root.append(label, facts);
  return { root, box, swatch, name, status, bar, done };
}

function fillRow(row, item) {
  row.box.checked = state.selected.includes(item.id);
  row.swatch.style.backgroundColor = colourOf(item.id);
  set(row.name, item.name);
  row.name.title = item.path;
  set(row.status, item.state);
  row.status.className = `state ${item.problem ? "problem" : item.state}`;
  const [round, rounds] = progressOf(item);
  row.bar.max = Math.max(rounds, 1);
  row.bar.value = Math.min(round, Math.max(rounds, 1));
  set(row.done, item.problem ?? `${round} of ${rounds} rounds`);
}

export function progressOf(item) {
  return [item.round ?? 0, item.rounds ?? 0];
}

// a grid and its cells ------------------------------------------------------------------------------------------
function newGrid(item) {
  const root = element("details"), summary = element("summary"), cells = element("div", "cells");
  root.dataset.id = item.id;
  root.open = item.cells.length <= MANY;
  const name = element("span", "name"), counts = element("div", "facts"), pointed = element("p", "name");
  summary.append(name, counts);
  cells.setAttribute("role", "group");
  const point = (event) => event.target.dataset.name && set(pointed, event.target.dataset.name);
  cells.addEventListener("focusin", point);
  cells.addEventListener("pointerover", point);
  root.append(summary, cells, pointed);
  const grid = { root, name, counts, cells, made: [] };
  root.addEventListener("toggle", () => state.items.has(item.id) && fillGrid(grid, state.items.get(item.id)));
  return grid;
}

function fillGrid(grid, item) {
  const { counts } = item;
  set(grid.name, item.name);
  grid.name.title = item.path;
  const going = counts.running > 0;
  const parts = [`${counts.done} done`, `${counts.running} running`];
  if (counts.stopped) parts.push(`${counts.stopped} stopped`);
  parts.push(`${counts.waiting} ${going ? "waiting" : "not run"}`);
  set(grid.counts, `${item.form}: ${parts.join(", ")}`);
  if (!grid.root.open) return;
  grid.cells.classList.toggle("small", item.cells.length > MANY);
  grid.cells.setAttribute("aria-label", `Cells of ${item.name}`);
  while (grid.made.length > item.cells.length) grid.made.pop().remove();
  item.cells.forEach(([name, cellState, run], i) => {
    if (!grid.made[i]) {
      const made = element("button", "cell");
      made.type = "button";
      made.addEventListener("click", () => made.dataset.run && toggle(made.dataset.run, made.ariaPressed !== "true"));
      grid.cells.append(made);
      grid.made.push(made);
    }
    const cell = grid.made[i], shown = state.selected.includes(run);
    const label = `${name}, ${cellState}`;
    if (cell.dataset.name !== label) {
      cell.dataset.name = label;
      cell.setAttribute("aria-label", label);
      cell.textContent = name;
      cell.className = `cell ${cellState}`;
    }
    cell.dataset.run = run;
    cell.disabled = !run;
    cell.ariaPressed = String(shown);
    cell.style.borderColor = shown ? colourOf(run) : "";
  });
}
