// Receives events of the server and keeps what they say; list.js and charts.js show it.
import { drawCharts } from "/charts.js";
import { dark, drawList } from "/list.js";

export const MOST_SELECTED = 12;
const AUTOMATIC = 6;
const SILENCE = 30000; // milliseconds without a message after which the connection counts as lost

export const state = {
  items: new Map(), // id -> run or grid
  curves: new Map(), // id -> {columns, rows, tip}
  strips: new Map(),
  selected: [], // ids whose curves are shown, in the order of their colours
  leftOut: 0,
  notFollowed: [], // ids that the server does not read: all pages together show too many
};
let chosenByUser = false, source = null, asked = null, heard = Date.now(), drawing = false;

// selection -------------------------------------------------------------------------------------------------
export function toggle(id, on) {
  chosenByUser = true;
  state.selected = state.selected.filter((other) => other !== id);
  if (on) state.selected = [...state.selected, id].slice(-MOST_SELECTED);
  history.replaceState(null, "", "#" + state.selected.join(","));
  connect();
  draw();
}

function fromAddress() {
  const ids = location.hash.slice(1).split(",").filter((id) => /^[0-9a-f]{16}$/.test(id));
  if (ids.length) {
    state.selected = ids.slice(0, MOST_SELECTED);
    chosenByUser = true;
  }
}

// What runs is shown until the user chooses; without anything that runs, what changed last.
function selectAutomatically() {
  if (chosenByUser) return;
  const curves = [...state.items.values()].filter((item) => item.kind !== "grid");
  const runs = (item) => item.state === "running";
  const kept = state.selected.filter((id) => state.items.has(id));
  const fresh = curves.filter((item) => runs(item) && !kept.includes(item.id)).map((item) => item.id);
  let selected = [...kept, ...fresh];
  if (!selected.length)
    selected = curves.sort((a, b) => b.changed - a.changed).slice(0, AUTOMATIC).map((item) => item.id);
  while (selected.length > AUTOMATIC) {
    const idle = selected.findIndex((id) => !runs(state.items.get(id)));
    selected.splice(idle < 0 ? selected.length - 1 : idle, 1);
  }
  state.selected = selected;
}

// events ----------------------------------------------------------------------------------------------------
function connect(again = false) {
  const wanted = "/events?" + state.selected.map((id) => "id=" + id).join("&");
  if (document.hidden) return;
  if (!again && source && wanted === asked) return;
  if (source) source.close();
  asked = wanted;
  state.notFollowed = [];
  source = new EventSource(wanted);
  heard = Date.now();
  const opened = source;
  const on = (name, take) =>
    opened.addEventListener(name, (event) => {
      if (opened !== source) return;
      heard = Date.now();
      say("connected");
      take(JSON.parse(event.data));
    });
  on("items", takeItems);
  on("curve", takeCurve);
  on("strip", takeStrip);
  on("not_followed", (message) => {
    state.notFollowed = message.ids;
    draw();
  });
  on("alive", () => {});
  opened.onerror = () => {
    if (opened !== source) return;
    say("connection lost: this shows the last state; it connects again by itself", true);
    if (opened.readyState === EventSource.CLOSED) setTimeout(() => opened === source && connect(true), 3000);
  };
}

function say(text, lost = false) {
  const place = document.getElementById("connection");
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("lost", lost);
}

function takeItems(message) {
  if (message.all) state.items.clear();
  for (const item of message.items) state.items.set(item.id, item);
  for (const id of message.gone) {
    state.items.delete(id);
    state.curves.delete(id);
    state.strips.delete(id);
  }
  state.leftOut = message.left_out;
  selectAutomatically();
  connect();
  draw();
}

function takeCurve(message) {
  let curve = state.curves.get(message.id);
  if (message.new || !curve) {
    curve = { columns: message.columns ?? [], rows: [] };
    state.curves.set(message.id, curve);
  }
  curve.rows.push(...message.rows);
  curve.tip = message.tip;
  draw();
}

function takeStrip(message) {
  let strip = state.strips.get(message.id);
  if (message.new || !strip) {
    strip = { m: message.m, width: message.width, sizes: message.sizes, bins: [] };
    state.strips.set(message.id, strip);
  }
  strip.rounds = message.rounds;
  strip.missed = message.missed;
  strip.bins.length = Math.min(strip.bins.length, message.first);
  for (const text of message.bins) strip.bins.push(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
  draw();
}

// drawing: several messages of one look are drawn together ----------------------------------------------------
export function draw() {
  if (drawing) return;
  drawing = true;
  setTimeout(() => {
    drawing = false;
    drawList();
    drawCharts();
  }, 60);
}

document.addEventListener("visibilitychange", () => {
  // A browser has six connections to one server: pages in the background give theirs back.
  if (document.hidden && source) {
    source.close();
    source = asked = null;
  } else if (!document.hidden) connect();
});
setInterval(() => {
  if (source && Date.now() - heard > SILENCE) connect(true); // after a sleep a connection may look open
}, 5000);
for (const id of ["score", "model", "axis", "focus", "sorted"]) document.getElementById(id).addEventListener("change", draw);
dark.addEventListener("change", draw);
document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
fromAddress();
connect();
