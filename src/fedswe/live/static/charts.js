// Charts and tables of what is selected.
import { colourOf, element, progressOf, set } from "/list.js";
import { MOST_SELECTED, state } from "/live.js";

const NOT_SCORES = new Set(["round", "available", "reported", "echo_mean", "echo_max", "seconds", "simulated_seconds",
  "total_selected", "total_reported", "total_dropped_before", "total_dropped_during", "total_dropped_after",
  "total_late", "work_seconds", "wasted_seconds", "bytes_sent"]);
const PREFERRED = ["test_accuracy", "test_loss", "train_accuracy", "train_loss"];
const AXES = { round: "round", seconds: "seconds", simulated_seconds: "simulated seconds" };
const SERVED = "served";
const CONFIG = { responsive: true, displayModeBar: false, doubleClick: "reset" };
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const words = (name) => name.replaceAll("_", " ");

const modelsOf = (id) => state.items.get(id).models ?? [];
// A column may begin with the names of two models, as ema and ema_0.9 do: the longest is its owner.
function split(column, models) {
  const owners = models.filter((model) => column.startsWith(model + "_"));
  const owner = owners.sort((a, b) => b.length - a.length)[0];
  return owner ? [owner, column.slice(owner.length + 1)] : ["", column];
}

function rowsOf(curve) {
  const last = curve.rows.at(-1);
  return curve.tip && (!last || last[0] !== curve.tip[0]) ? [...curve.rows, curve.tip] : curve.rows;
}

const shownIds = () => state.selected.filter((id) => state.items.has(id));

export function drawCharts() {
  if (!window.Plotly) return void window.addEventListener("load", drawCharts, { once: true });
  const ids = shownIds();
  const scores = new Set(), models = new Set(), axes = new Set(["round"]);
  for (const id of ids) {
    const curve = state.curves.get(id), own = modelsOf(id);
    for (const column of curve?.columns ?? []) {
      if (column in AXES) axes.add(column);
      if (NOT_SCORES.has(column)) continue;
      const [model, score] = split(column, own);
      scores.add(score);
      if (model) models.add(model);
    }
  }
  const order = (s) => (PREFERRED.indexOf(s) + 1 || 99);
  const sorted = [...scores].sort((a, b) => order(a) - order(b));
  const score = choose("score", sorted.map((s) => [s, words(s)]));
  const model = choose("model", [[SERVED, "served model of each run"], ...[...models].map((m) => [m, words(m)])]);
  const axis = choose("axis", Object.keys(AXES).filter((a) => axes.has(a)).map((a) => [a, AXES[a]]));
  const focus = choose("focus", ids.map((id) => [id, state.items.get(id).name]));
  drawLimits(ids);
  drawScores(ids, score, model, axis);
  drawLatest(ids, score, model);
  drawCounts(focus, axis);
  drawStrip(focus);
}

// Fill a select without closing it or losing what is chosen.
function choose(id, options) {
  const select = document.getElementById(id);
  const now = JSON.stringify(options);
  if (select.dataset.options !== now) {
    const before = select.value;
    select.replaceChildren(...options.map(([value, text]) => {
      const option = element("option", "", text);
      option.value = value;
      return option;
    }));
    if (options.some(([value]) => value === before)) select.value = before;
    select.dataset.options = now;
  }
  return select.value;
}

// What is not shown, and why.
function drawLimits(ids) {
  const place = document.getElementById("limits"), texts = [];
  if (ids.length >= MOST_SELECTED)
    texts.push(`${MOST_SELECTED} curves are the most on one page: another one takes the place of the one chosen first.`);
  const missing = ids.filter((id) => state.notFollowed.includes(id)).map((id) => `\u2068${state.items.get(id).name}\u2069`);
  if (missing.length)
    texts.push(`Not read, because all open pages together show too many runs: ${missing.join(", ")}. Close another page, or choose fewer.`);
  place.hidden = !texts.length;
  set(place, texts.join(" "));
}

function columnOf(id, score, model) {
  const curve = state.curves.get(id), item = state.items.get(id);
  const named = `${model === SERVED ? item.served : model}_${score}`;
  const found = curve?.columns.indexOf(named) ?? -1;
  return found >= 0 || !curve ? found : curve.columns.indexOf(score); // a column of the run, not of a model
}

function layout(more) {
  const axis = { automargin: true, gridcolor: colour("grid"), linecolor: colour("edge"), zeroline: false };
  return {
    margin: { l: 55, r: 15, t: 8, b: 45 }, font: { family: "system-ui, sans-serif", size: 13, color: colour("text") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    hoverlabel: { bgcolor: colour("ground"), bordercolor: colour("edge"), font: { color: colour("text") } },
    showlegend: false, hovermode: "closest", // the tables and lists are the legend: they wrap, and are read aloud
    ...more, xaxis: { ...axis, ...more.xaxis }, yaxis: { ...axis, ...more.yaxis },
  };
}

// Plotly reads some HTML in names; characters that could begin it are written as entities.
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const shortened = (text) => (text.length > 44 ? "…" + text.slice(-43) : text);

function drawScores(ids, score, model, axis) {
  const traces = [];
  for (const id of ids) {
    const curve = state.curves.get(id), y = columnOf(id, score, model), x = curve?.columns.indexOf(axis) ?? -1;
    if (!curve || x < 0 || y < 0) continue;
    const rows = rowsOf(curve);
    traces.push({
      type: "scatter", mode: rows.length < 40 ? "lines+markers" : "lines", name: escaped(shortened(state.items.get(id).name)),
      x: rows.map((row) => row[x]), y: rows.map((row) => row[y]), line: { color: colourOf(id), width: 2 }, connectgaps: false,
      hovertemplate: `%{x}: %{y${score.includes("accuracy") ? ":.1%" : ":.4g"}}`,
    });
  }
  Plotly.react("scores", traces, layout({
    uirevision: `${score} ${model} ${axis}`, xaxis: { title: { text: AXES[axis] }, rangemode: "nonnegative" },
    yaxis: { title: { text: escaped(words(score)) }, ...(score.includes("accuracy") ? { tickformat: ".0%" } : {}) },
  }), CONFIG);
  document.getElementById("scores").dataset.points = traces.map((trace) => trace.x.length).join(",");
}

function drawLatest(ids, score, model) {
  set(document.getElementById("latest-score"), words(score || "score"));
  const body = document.querySelector("#latest tbody");
  const format = (value) => value == null ? "–" : score.includes("accuracy") ? `${(100 * value).toFixed(1)} %` : `${+value.toPrecision(4)}`;
  fillTable(body, ids.map((id) => {
    const item = state.items.get(id), curve = state.curves.get(id), tip = curve?.tip;
    const value = (name) => tip?.[curve.columns.indexOf(name)];
    const number = (name) => (value(name) == null ? "–" : `${+value(name).toFixed(1)}`);
    const [round, rounds] = progressOf(item), column = columnOf(id, score, model);
    return [item.name, format(tip?.[column]), `${round} of ${rounds}`, item.state,
      number("available"), number("reported"), number("echo_mean"), number("echo_max")];
  }));
  ids.forEach((id, i) => {
    const cell = body.rows[i].cells[0];
    cell.style.setProperty("--colour", colourOf(id));
    cell.classList.add("coloured");
  });
}

function fillTable(body, rows) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => {
    const row = body.rows[i] ?? body.insertRow();
    cells.forEach((text, j) => {
      const cell = row.cells[j] ?? row.insertCell();
      cell.className = j === 0 ? "name" : "";
      set(cell, String(text));
    });
  });
}

function drawCounts(id, axis) {
  const curve = state.curves.get(id), traces = [];
  if (curve) {
    const rows = rowsOf(curve), at = (name) => curve.columns.indexOf(name), x = at(axis) < 0 ? at("round") : at(axis);
    const line = (column, name, width, style, dash, yaxis = "y") => at(column) >= 0 && traces.push({
      type: "scatter", mode: "lines", name, x: rows.map((row) => row[x]), y: rows.map((row) => row[at(column)]),
      line: { color: colour(style), width, dash }, yaxis,
    });
    line("available", "available", 1.5, "available", "solid");
    line("reported", "reported", 1.5, "reported", "dot");
    line("echo_mean", "mean echo", 1.5, "echo", "solid", "y2");
    line("echo_max", "longest echo", 1, "longest", "dash", "y2");
  }
  Plotly.react("counts", traces, layout({
    uirevision: `${id} ${axis}`, margin: { l: 55, r: 50, t: 8, b: 45 },
    xaxis: { title: { text: AXES[axis] }, rangemode: "nonnegative" }, yaxis: { title: { text: "clients" }, rangemode: "tozero" },
    yaxis2: { title: { text: "rounds" }, overlaying: "y", side: "right", rangemode: "tozero", showgrid: false },
  }), CONFIG);
}

// who reported in which round --------------------------------------------------------------------------------
function drawStrip(id) {
  const strip = state.strips.get(id), item = state.items.get(id), text = document.getElementById("strip-text");
  const place = document.getElementById("strip");
  place.hidden = !strip?.m || !strip.rounds;
  document.getElementById("sorted").parentElement.hidden = place.hidden;
  if (place.hidden) {
    set(text, !item ? "Nothing is selected." : strip?.m ? "No round has ended yet." : "Not recorded for this run.");
    place.dataset.rounds = 0;
    return;
  }
  const groups = strip.sizes.length, missed = [...strip.missed].sort((a, b) => a - b);
  const who = groups < strip.m ? `groups of ${Math.ceil(strip.m / groups)} clients` : "clients";
  set(text, `${strip.m} clients, ${strip.rounds} rounds. Rounds missed: ${missed[0]} to ${missed.at(-1)}, ` +
    `half of the ${who} at most ${missed[Math.floor((missed.length - 1) / 2)]}.`);
  const order = strip.sizes.map((_, g) => g);
  if (document.getElementById("sorted").checked) order.sort((a, b) => strip.missed[a] - strip.missed[b]);
  const z = order.map((g) => strip.bins.map((bin) => bin[g]));
  const y = order.map((_, i) => i), labels = z.map((row, i) => row.map(() => order[i]));
  const x = strip.bins.map((_, b) => b * strip.width + (strip.width + 1) / 2);
  Plotly.react("strip", [
    { type: "heatmap", z, x, y, zmin: 0, zmax: 100, showscale: false, colorscale: [[0, colour("absent")], [1, colour("available")]],
      customdata: labels,
      hovertemplate: `${groups < strip.m ? "group" : "client"} %{customdata}, round %{x}: reported in %{z} %<extra></extra>` },
    { type: "bar", orientation: "h", x: order.map((g) => strip.missed[g]), y, xaxis: "x2", marker: { color: colour("echo") },
      width: 1, customdata: order, hovertemplate: "%{customdata}: missed %{x} rounds<extra></extra>" },
  ], layout({
    uirevision: id, bargap: 0,
    xaxis: { title: { text: "round" }, domain: [0, 0.8], range: [0.5, Math.max(progressOf(item)[1], strip.rounds) + 0.5] },
    xaxis2: { title: { text: "missed" }, domain: [0.84, 1], rangemode: "tozero", nticks: 3, automargin: true },
    yaxis: { title: { text: groups < strip.m ? "group of clients" : "client" }, range: [groups - 0.5, -0.5],
      ...(groups <= 30 ? { tickvals: y, ticktext: order.map(String) } : { showticklabels: false }) },
  }), CONFIG);
  place.dataset.rounds = strip.rounds;
}
