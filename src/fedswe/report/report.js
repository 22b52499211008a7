// Bands of one standard deviation are the error bars of plotly's data, drawn as an area behind each curve.
const banded = ({ data, layout }) => {
  const sure = data.map((one, i) => i).filter((i) => data[i].error_y);
  const around = (x) => [...x, ...[...x].reverse()];
  const band = ({ x, y, error_y, name, line, visible }) => ({
    type: "scatter", mode: "none", fill: "toself", hoverinfo: "skip", showlegend: false, name, legendgroup: name, visible,
    x: around(x), fillcolor: line.color + "26",
    y: [...y.map((v, i) => v + error_y.array[i]), ...y.map((v, i) => v - error_y.arrayminus[i]).reverse()],
  });
  for (const { args: [{ visible, x }] } of (layout.updatemenus || []).flatMap((menu) => menu.buttons)) {
    visible?.push(...sure.map((i) => visible[i]));
    x?.push(...sure.map((i) => around(x[i])));
  }
  for (const i of sure) {
    data.push(band(data[i]));
    data[i].error_y = { visible: false };
    data[i].legendgroup = data[i].name;
  }
  return [data, layout];
};
// The first rounds change so much that differences at the end would not be visible.
const late = (box) => {
  const values = [];
  for (const { x, y, visible, mode } of box.data) {
    if (visible !== true || mode === "none") continue;
    const from = x.length < 6 ? -Infinity : Math.min(...x) + 0.25 * (Math.max(...x) - Math.min(...x));
    values.push(...y.filter((v, i) => Number.isFinite(v) && x[i] >= from));
  }
  if (!values.length) return;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = 0.05 * (high - low) || 0.05 * Math.abs(high) || 0.05;
  Plotly.relayout(box, { "yaxis.type": "linear", "yaxis.range": [low - margin, high + margin] });
};
// Plotly's own menus overlap on a narrow screen.
const choices = (box, menus) => {
  const selects = menus.map(({ buttons }, i) => {
    const select = document.createElement("select");
    select.ariaLabel = `${box.ariaLabel}, choice ${i + 1}`;
    for (const { label } of buttons) select.add(new Option(label.replaceAll("&lt;", "<").replaceAll("&amp;", "&")));
    select.onchange = () => {
      const { args } = structuredClone(buttons[select.selectedIndex]);
      Plotly.update(box, ...args);
      if ("yaxis.autorange" in args[1]) return;
      selects.at(-1).selectedIndex = 0;
      late(box);
    };
    box.before(select, " ");
    return select;
  });
  for (const select of selects) {
    const chosen = sessionStorage[select.ariaLabel]; // before the page was loaded anew
    select.addEventListener("change", () => selects.forEach((one) => (sessionStorage[one.ariaLabel] = one.value)));
    if (![...select.options].some(({ value }) => value === chosen) || select.value === chosen) continue;
    select.value = chosen;
    select.onchange();
  }
};
// The line of least squares through each cloud of points, in its colour.
const trended = ({ data, layout }) => {
  for (const [i, cloud] of [...data.entries()].filter(([, { mode }]) => mode === "markers")) {
    const [x, y] = [cloud.x, cloud.y].map((values) => [...values]);
    const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;
    const [across, up] = [mean(x), mean(y)];
    const slope = mean(x.map((v, j) => (v - across) * (y[j] - up))) / mean(x.map((v) => (v - across) ** 2));
    if (!Number.isFinite(slope)) continue;
    const color = layout.colorway[i % layout.colorway.length];
    const ends = [Math.min(...x), Math.max(...x)];
    Object.assign(cloud, { legendgroup: cloud.name, marker: { color, opacity: 0.6 } });
    data.push({
      type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false, legendgroup: cloud.name, name: cloud.name,
      visible: cloud.visible, line: { color }, x: ends, y: ends.map((v) => up + slope * (v - across)),
    });
  }
};
const draw = () => {
  for (const figure of document.querySelectorAll("figure")) {
    const box = figure.querySelector("div");
    if (box.classList.contains("js-plotly-plot") || !box.clientWidth) continue; // drawn, or in what is folded
    const found = JSON.parse(figure.querySelector("script").textContent);
    trended(found);
    const [data, { updatemenus, ...layout }] = banded(found);
    Plotly.newPlot(box, data, layout, { responsive: true, displayModeBar: false });
    if (data.some(({ mode }) => mode === "lines+markers")) late(box);
    choices(box, updatemenus);
  }
  document.documentElement.dataset.drawn = document.querySelectorAll(".js-plotly-plot").length;
};
const unfold = (all) => {
  for (const one of all) one.open = true;
  draw();
};
const folded = [...document.querySelectorAll("section > details")];
for (const one of folded) one.open = (sessionStorage.unfolded || "").split(" ").includes(one.parentNode.id);
const toggled = () => {
  sessionStorage.unfolded = folded.filter(({ open }) => open).map(({ parentNode }) => parentNode.id).join(" ");
  draw();
};
document.addEventListener("toggle", toggled, true);
addEventListener("beforeprint", () => unfold(document.querySelectorAll("details")));
addEventListener("hashchange", () => unfold(document.querySelectorAll(`${location.hash} > details`)));
draw();
