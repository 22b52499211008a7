// Draws the charts of a report. All names come from files of the user: they are set as text, never as markup.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)").matches;
  const settings = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  const MANY = 10, SHOWN = 8; // of many curves, so many are shown at first

  // plotly reads a few HTML tags in text.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const visible = (given) => (given === "#000000" ? colour("text") : given);
  const element = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const faded = (hex, alpha) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${r},${g},${b},${alpha})`;
  };

  function axis(title, more = {}) {
    return {
      title: { text: plain(title), standoff: 8 }, gridcolor: colour("grid"), linecolor: colour("line"),
      zerolinecolor: colour("line"), automargin: true, ...more,
    };
  }

  function layout(x, y, more = {}) {
    return {
      xaxis: x, yaxis: y, showlegend: false, height: 420, margin: { l: 50, r: 16, t: 10, b: 44 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: colour("ground"), hovermode: "closest",
      dragmode: coarse ? false : "zoom", font: { color: colour("text"), family: "system-ui, sans-serif", size: 13 },
      hoverlabel: { bgcolor: colour("ground"), bordercolor: colour("line"), font: { color: colour("text") }, namelength: -1 },
      ...more,
    };
  }

  // curves ---------------------------------------------------------------------------------------------------
  function curves(chart) {
    const view = chart.views[chart.key];
    const few = view.series.filter((series) => chart.on.has(series.name)).length <= 6;
    const traces = [];
    for (const series of view.series) {
      if (!chart.on.has(series.name)) continue;
      const style = chart.styles[series.name], color = visible(style.color), x = chart.positions[series.x[chart.abscissa]];
      if (series.low) {
        traces.push({
          ...band(x, series.low, series.high), mode: "lines", line: { width: 0 }, hoverinfo: "skip", name: plain(series.name),
          fill: "toself", fillcolor: faded(color, few ? 0.18 : 0.07),
        });
      }
      const bounds = series.low ? " (%{customdata[0]:.4~g} to %{customdata[1]:.4~g})" : "";
      traces.push({
        x, y: series.mean, name: plain(series.name), mode: "lines+markers",
        line: { color, dash: style.dash, width: 2 }, marker: { color, symbol: style.symbol, size: 7, maxdisplayed: 8 },
        customdata: series.low ? series.low.map((low, i) => [low, series.high[i]]) : undefined,
        hovertemplate: `%{x:.6~g}: %{y:.4~g}${bounds}<extra>%{fullData.name}</extra>`,
      });
    }
    const y = axis(view.y, { type: view.log ? "log" : "linear" });
    const shown = chart.late && lateRange(view.series.filter((series) => chart.on.has(series.name)), view.log);
    if (shown) y.range = shown;
    const last = Math.max(...traces.map((trace) => trace.x[trace.x.length - 1] ?? 0), 0);
    const whole = chart.abscissa === "rounds" && last <= 10 ? { dtick: 1 } : {};
    return [traces, layout(axis(chart.abscissas[chart.abscissa] || "round", whole), y)];
  }

  // The outline of a band, anew after each gap: one that is drawn across a gap has corners where nothing was measured.
  function band(x, low, high) {
    const outline = { x: [], y: [] };
    for (let from = 0, to; from < x.length; from = to + 1) {
      to = from;
      while (to < x.length && low[to] !== null && high[to] !== null) to += 1;
      const places = [...x.keys()].slice(from, to), back = [...places].reverse();
      outline.x.push(...places.map((i) => x[i]), ...back.map((i) => x[i]), null);
      outline.y.push(...places.map((i) => low[i]), ...back.map((i) => high[i]), null);
    }
    return outline;
  }

  // The range of the mean curves after the first quarter of their points, with a margin of 5 %; few points count as a whole.
  function lateRange(series, log) {
    const values = series.flatMap(({ mean }) => mean.slice(mean.length < 6 ? 0 : Math.floor(mean.length / 4)))
      .filter((value) => value !== null && (!log || value > 0)).map((value) => (log ? Math.log10(value) : value));
    if (!values.length) return null;
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    // Around a constant count whole numbers are shown.
    const margin = 0.05 * (high - low) || (Number.isInteger(high) && !log ? 1 : 0.05 * Math.abs(high) || 0.05);
    return [low - margin, high + margin];
  }

  function legend(chart) {
    const box = element("div", undefined, { class: "legend", role: "group", "aria-label": "Curves" });
    const inputs = [];
    for (const name of chart.order) {
      const style = chart.styles[name];
      if (!style) continue;
      const label = element("label"), input = element("input", undefined, { type: "checkbox" });
      input.checked = chart.on.has(name);
      input.addEventListener("change", () => {
        if (input.checked) chart.on.add(name); else chart.on.delete(name);
        draw(chart);
      });
      inputs.push([name, input]);
      const text = element("span", name, { class: "name", dir: "auto" });
      label.append(input, sample(style), text);
      box.append(label);
    }
    if (inputs.length > 2) {
      for (const [word, on] of [["All curves", true], ["No curves", false]]) {
        const button = element("button", word, { type: "button" });
        button.addEventListener("click", () => {
          chart.on = new Set(on ? chart.order : []);
          for (const [, input] of inputs) input.checked = on;
          draw(chart);
        });
        chart.controls.append(button);
      }
    }
    chart.figure.append(box);
    if (inputs.length > MANY) {
      chart.figure.append(element("p", `The first ${SHOWN} of ${inputs.length} curves are shown: choose others above.`, { class: "note" }));
    }
  }

  function sample(style) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg"), line = document.createElementNS(space, "line");
    for (const [name, value] of Object.entries({ width: 26, height: 8, "aria-hidden": "true" })) svg.setAttribute(name, value);
    const dashes = { solid: "", dash: "7 3", dashdot: "7 3 2 3", dot: "2 2.5" };
    const stroke = style.color === "#000000" ? "currentColor" : style.color;
    const drawn = { x1: 0, x2: 26, y1: 4, y2: 4, stroke, "stroke-width": 3, "stroke-dasharray": dashes[style.dash] };
    for (const [name, value] of Object.entries(drawn)) line.setAttribute(name, value);
    svg.append(line);
    return svg;
  }

  // other charts -----------------------------------------------------------------------------------------------
  function heat(chart) {
    if (!chart.z) {
      const bytes = Uint8Array.from(atob(chart.cells), (c) => c.charCodeAt(0));
      const width = chart.columns.length;
      chart.z = chart.rows.map((_, i) => Array.from(bytes.subarray(i * width, (i + 1) * width), (v) => (v === 255 ? null : v)));
      chart.x_at = chart.columns.map((text) => { // 7, or the middle of 7–9
        const ends = text.split("–").map(Number);
        return (ends[0] + ends[ends.length - 1]) / 2;
      });
      chart.text = chart.rows.map((row) => chart.columns.map((column) => plain(`${chart.x} ${column}, ${row}`)));
    }
    const trace = {
      type: "heatmap", z: chart.z, x: chart.x_at, text: chart.text, zmin: 0, zmax: 100, xgap: 0, ygap: 0,
      colorscale: [[0, colour("ground")], [1, colour("heat")]],
      colorbar: { title: { text: "%", side: "right" }, thickness: 12, outlinewidth: 0, tickfont: { color: colour("text") } },
      hovertemplate: `%{text}<br>${plain(chart.value)}: %{z} %<extra></extra>`,
    };
    const y = axis(chart.y, { autorange: "reversed", showticklabels: false, ticks: "" });
    const few = chart.columns.length <= 20 ? { dtick: 1 } : {};
    return [[trace], layout(axis(chart.x, few), y, { plot_bgcolor: colour("grid") })];
  }

  function bars(chart) {
    const trace = {
      type: "bar", x: chart.labels.map(plain), y: chart.values, marker: { color: "#0072B2" },
      hovertemplate: "%{x}: %{y:.3~g}<extra></extra>",
    };
    return [[trace], layout(axis(chart.x, { type: "category" }), axis(chart.y), { height: 320 })];
  }

  function points(chart) {
    const trace = {
      x: chart.at, y: chart.views[chart.key] || [], text: chart.names.map(plain), mode: "markers", marker: { color: "#0072B2", size: 8, opacity: 0.75 },
      hovertemplate: "%{text}: available %{x:.3~g} %, accuracy %{y:.3~g} %<extra></extra>",
    };
    return [[trace], layout(axis(chart.x, { rangemode: "tozero" }), axis(chart.y, { range: [-3, 103] }), { height: 380 })];
  }

  function intervals(chart) {
    const view = chart.views[chart.key];
    const at = view.names.map((_, i) => i);
    const trace = {
      type: "bar", orientation: "h", y: at, x: view.values, text: view.names.map(plain), textposition: "none",
      customdata: view.halves.map((half) => (half === null ? "" : ` ± ${half.toPrecision(3)}`)),
      marker: { color: "#0072B2" }, hovertemplate: "%{text}: %{x:.3~g}%{customdata}<extra></extra>",
      error_x: { type: "data", array: view.halves.map((half) => half || 0), color: colour("text"), thickness: 1.2, width: 3 },
    };
    const narrow = chart.place.clientWidth < 500;
    const short = (name) => (narrow && name.length > 20 ? `${name.slice(0, 19)}…` : name);
    const y = axis("", { tickvals: at, ticktext: view.names.map((name) => plain(short(name))), autorange: "reversed" });
    // Intervals of few seeds may be so wide that the bars could not be seen.
    const largest = Math.max(...view.values.map(Math.abs), 1e-9);
    const ends = view.values.map((value, i) => [value - view.halves[i], value + view.halves[i]]).flat();
    const [from, to] = [Math.max(Math.min(0, ...ends), -largest / 2), Math.min(Math.max(...ends), 2 * largest)];
    const margin = 0.02 * (to - from), range = [from - (from < 0 ? margin : 0), to + margin];
    return [[trace], layout(axis(chart.x, { range }), y, { height: Math.max(220, 70 + 24 * at.length) })];
  }

  // switches -----------------------------------------------------------------------------------------------------
  function choice(chart, name, options, chosen, change) {
    if (options.length < 2) return;
    const id = `${chart.id}-${name.replace(/\W/g, "-")}`;
    if (options.length > 6) {
      const label = element("label", `${name} `, { for: id }), select = element("select", undefined, { id });
      for (const [value, text] of options) {
        const option = element("option", text, { dir: "auto" });
        option.value = value;
        option.selected = value === chosen;
        select.append(option);
      }
      select.addEventListener("change", () => change(select.value));
      label.append(select);
      chart.controls.append(label);
      return;
    }
    const group = element("fieldset");
    group.append(element("legend", name));
    for (const [value, text] of options) {
      const label = element("label"), input = element("input", undefined, { type: "radio", name: id });
      input.value = value;
      input.checked = value === chosen;
      input.addEventListener("change", () => change(value));
      label.append(input, element("span", text, { dir: "auto" }));
      group.append(label);
    }
    chart.controls.append(group);
  }

  const KINDS = { curves, heat, bars, points, intervals };

  // An axis title that is longer than the axis is broken into lines; a letter is about 7.5 pixels wide.
  function broken(title, pixels) {
    const lines = [""];
    for (const word of title.text.split(" ")) {
      const line = lines[lines.length - 1];
      if (line && 7.5 * (line.length + word.length + 1) > pixels) lines.push(word);
      else lines[lines.length - 1] = line ? `${line} ${word}` : word;
    }
    title.text = lines.join("<br>");
  }

  function draw(chart) {
    const [traces, look] = KINDS[chart.kind](chart);
    broken(look.xaxis.title, chart.place.clientWidth - (chart.kind === "intervals" ? 200 : 110));
    broken(look.yaxis.title, look.height - 80);
    Plotly.react(chart.place, traces, look, settings);
  }

  function prepare(chart) {
    chart.figure = document.getElementById(chart.id);
    chart.controls = chart.figure.querySelector(".controls");
    chart.place = chart.figure.querySelector(".plot");
    const chosen = chart.switches.map((s) => s.options[0][0]);
    chart.key = chosen.join("|");
    chart.switches.forEach((s, i) => choice(chart, s.name, s.options, chosen[i], (value) => {
      chosen[i] = value;
      chart.key = chosen.join("|");
      draw(chart);
    }));
    if (chart.kind === "curves") {
      const names = Object.entries(chart.abscissas);
      chart.abscissa = names[0][0];
      chart.late = true;
      chart.on = new Set(chart.order.length > MANY ? chart.order.slice(0, SHOWN) : chart.order);
      choice(chart, "x axis", names, chart.abscissa, (value) => { chart.abscissa = value; draw(chart); });
      choice(chart, "y axis", [["late", "late rounds"], ["all", "whole range"]], "late", (value) => {
        chart.late = value === "late";
        draw(chart);
      });
      if (chart.order.length > 1) legend(chart);
    }
    if (!coarse && chart.kind !== "bars") {
      const reset = element("button", "Reset zoom", { type: "button", title: "Drag over the chart to zoom" });
      reset.addEventListener("click", () => draw(chart));
      chart.controls.append(reset);
    }
    draw(chart);
  }

  charts.forEach(prepare);
  const redraw = () => charts.forEach(draw);
  dark.addEventListener("change", redraw);
  addEventListener("beforeprint", () => { document.documentElement.classList.add("print"); redraw(); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("print"); redraw(); });
  document.documentElement.dataset.drawn = charts.length; // for tests: all charts are there
})();
