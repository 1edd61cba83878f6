// The explorer: draws what the server of this page answers. Texts of tensors only ever become text nodes.

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const page = Array.from(crypto.getRandomValues(new Uint32Array(2)), (n) => n.toString(36)).join("");
const LIGHT = {
  map: ["#d9eef3", "#a3d4df", "#62b4c8", "#2f88ae", "#1f5d8f", "#18366f", "#0f1444"],
  both: ["#9a3412", "#e58a4b", "#f7ddc4", "#f0f3f4", "#c3dfe6", "#3c8fb0", "#15326a"],
  text: "#16242b", soft: "#5b6c75", line: "#dfe5e8", empty: "#f7fafb", first: "#0f766e", second: "#b45309", mark: "#dc2626",
};
const DARK = {
  map: ["#163247", "#1d5271", "#2780a0", "#3aafb4", "#76d3b1", "#c6eea6", "#fffbd0"],
  both: ["#ffb37a", "#c26a2d", "#5a3418", "#1b2429", "#173d4d", "#2d8fb0", "#9be3f5"],
  text: "#e3ecef", soft: "#93a5ae", line: "#2a3740", empty: "#10181d", first: "#2dd4bf", second: "#f6ad55", mark: "#ff6b6b",
};
const state = {
  title: "", tensors: [], about: null, version: null, axes: [], ranges: [], fixed: {}, measure: "auto",
  picture: null, image: null, history: [], mark: null, hover: null, box: null, number: 0, panel: "sql",
  distributions: null, groups: null, drag: null, pointers: new Map(), query: 0, running: null,
};

// -- small helpers ------------------------------------------------------------------------------------

/** Create an element; children that are texts become text nodes. */
function make(tag, properties = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role") found.setAttribute(name, value);
    else found[name] = value;
  }
  found.append(...children.filter((child) => child !== null && child !== undefined));
  return found;
}

const grouped = new Intl.NumberFormat("en");
/** Format a count in full up to seven digits, then with three. */
function count(n) {
  if (n === null || n === undefined) return "?";
  const size = Math.abs(n);
  if (size < 1e7) return grouped.format(Math.round(n));
  for (const [unit, name] of [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]]) {
    if (size >= unit && size < 1000 * unit) return `${Number((n / unit).toPrecision(3))} ${name}`;
  }
  return n.toExponential(2);
}
function number(n) {
  if (typeof n !== "number") return String(n);
  if (n === 0) return "0";
  const size = Math.abs(n);
  if (size >= 1e6 || size < 1e-3) return n.toExponential(2).replace("e+", "e");
  return Number.isInteger(n) ? grouped.format(n) : String(Number(n.toPrecision(4)));
}
function bytes(n) {
  for (const [unit, name] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (n >= unit) return `${Number((n / unit).toPrecision(3))} ${name}`;
  }
  return `${n} bytes`;
}
/** Format a position of an axis, briefly where it is large. */
function position(n, step) {
  if (Math.abs(n) < (innerWidth < 600 ? 1e4 : 1e6)) return grouped.format(n + 0);
  const [unit, name] = n >= 1e12 ? [1e12, "T"] : n >= 1e9 ? [1e9, "G"] : n >= 1e6 ? [1e6, "M"] : [1e3, "k"];
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / unit))));
  return `${(n / unit).toFixed(digits)}${name}`;
}
const plural = (n, unit) => `${count(n)} ${unit}${n === 1 ? "" : "s"}`;
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

async function ask(name, body, signal) {
  const answer = await fetch(`api/${name}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
  });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  if (answer.headers.get("Content-Type") !== "application/octet-stream") {
    const found = await answer.json();
    if (found.error && name !== "sql") throw new Error(found.error);
    return found;
  }
  const buffer = await answer.arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const found = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  for (const kind of found.arrays) {
    found[kind] = new Float32Array(buffer, at, found.cells[0] * found.cells[1]);
    at += 4 * found[kind].length;
  }
  return found;
}

function report(error) {
  if (error.name === "AbortError") return;
  const gone = error instanceof TypeError;
  $("problem").textContent = gone ? "The server of this page has ended." : error.message;
  $("problem").hidden = false;
  root.dataset.state = "failed";
}

// -- theme ----------------------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
const THEMES = { auto: ["◐", "automatic"], light: ["☀", "light"], dark: ["☾", "dark"] };
function stored(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(name);
    localStorage.setItem(name, value);
  } catch { /* a frame may forbid it */ }
  return null;
}
function setTheme(name) {
  root.dataset.theme = name;
  const [sign, text] = THEMES[name];
  $("theme").textContent = sign;
  $("theme").title = `Theme: ${text}`;
  $("theme").setAttribute("aria-label", `Theme: ${text}`);
  stored("sparrow-theme", name);
  state.image = null;
  drawAll();
}
const isDark = () => root.dataset.theme === "dark" || (root.dataset.theme === "auto" && dark.matches);
const colors = () => (isDark() ? DARK : LIGHT);
const tables = new Map();
/** Return 256 colors between the stops of a color map. */
function table(stops) {
  const key = stops.join();
  if (!tables.has(key)) {
    const rgb = stops.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
    tables.set(key, Array.from({ length: 256 }, (_, k) => {
      const at = (k / 255) * (rgb.length - 1), low = Math.min(Math.floor(at), rgb.length - 2);
      return rgb[low].map((value, channel) => Math.round(value + (rgb[low + 1][channel] - value) * (at - low)));
    }));
  }
  return tables.get(key);
}

/** Return a canvas scaled to its size on the screen, cleared, with its width and height. */
function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1, { width, height } = canvas.getBoundingClientRect();
  const [w, h] = [Math.max(Math.round(width * ratio), 1), Math.max(Math.round(height * ratio), 1)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  pen.lineWidth = 1;
  return [pen, width, height];
}

// -- the window -----------------------------------------------------------------------------------------

const sizes = () => state.axes.map((axis) => state.about.shape[axis]);
const isVector = () => state.axes.length === 1;

function windowNow() {
  return { axes: state.axes, ranges: state.ranges.map(([a, b]) => [Math.floor(a), Math.ceil(b)]), fixed: state.fixed };
}
const subject = () => ({ tensor: state.about.name, version: state.version });

/** Set the ranges of the axes, clipped to the tensor, and load the picture. */
function look(ranges, { remember = true, soon = 0 } = {}) {
  const next = ranges.map(([low, high], k) => {
    const size = sizes()[k], span = clamp(high - low, Math.min(1, size), size);
    const start = clamp(low, 0, size - span);
    return [start, start + span];
  });
  if (next.every(([a, b], k) => a === state.ranges[k][0] && b === state.ranges[k][1])) return;
  if (remember) push(soon > 0);
  state.ranges = next;
  draw();
  load(soon);
}
let pushed = -Infinity;
/** Remember the window for Back; of turns of the wheel that follow each other quickly only the first. */
function push(isOneOfMany = false) {
  const now = performance.now();
  if (!isOneOfMany || now - pushed > 600) state.history.push(JSON.stringify([state.axes, state.ranges, state.fixed]));
  pushed = now;
  if (state.history.length > 100) state.history.shift();
  $("back").disabled = !state.history.length;
}
function back() {
  const found = state.history.pop();
  if (!found) return;
  [state.axes, state.ranges, state.fixed] = JSON.parse(found);
  $("back").disabled = !state.history.length;
  showControls();
  load(0);
}
function reset() {
  look(sizes().map((size) => [0, size]));
}
/** Zoom by a factor around a point given as shares of the picture. */
function zoom(factor, at = state.axes.map(() => 0.5), which = state.axes.map(() => true), options = {}) {
  look(state.ranges.map(([low, high], k) => {
    if (!which[k]) return [low, high];
    const center = low + (high - low) * at[k], span = Math.max((high - low) / factor, Math.min(1, sizes()[k]));
    const start = center - span * at[k];
    return factor > 1 ? [Math.floor(start), Math.floor(start) + Math.ceil(span)] : [Math.floor(start), Math.ceil(start + span)];
  }), options);
}
function pan(shares) {
  look(state.ranges.map(([low, high], k) => {
    const by = Math.sign(shares[k]) * Math.ceil(Math.abs(shares[k]) * (high - low));
    return [low + by, high + by];
  }));
}

// -- loading --------------------------------------------------------------------------------------------

/** Return whether values are wanted too: to color by them, or because bins are single cells. */
function wantsSums(area) {
  const single = state.ranges.every(([low, high], k) => high - low <= (k ? area.width : area.height));
  return ["sum", "mean"].includes(state.measure) || (state.measure === "auto" && single);
}

let controller = new AbortController();
let timer = 0;
function load(wait) {
  clearTimeout(timer);
  controller.abort();
  root.dataset.state = "loading";
  saveHash();
  timer = setTimeout(() => { loadNow().catch(report); }, wait);
}
const visible = () => new Promise((done) => {
  if (!document.hidden) done();
  else document.addEventListener("visibilitychange", () => done(), { once: true });
});

async function loadNow() {
  controller = new AbortController();
  const { signal } = controller, mine = ++state.number, area = layout();
  const wanted = {
    ...subject(), window: windowNow(), bins: isVector() ? [area.width] : [area.height, area.width],
    sums: wantsSums(area), page, number: mine,
  };
  const step = async (read, labels) => {
    const found = await ask("bins", { ...wanted, read, labels }, signal);
    if (found.superseded || signal.aborted) return false;
    found.labels ??= state.picture?.labels;
    state.picture = found;
    state.image = null;
    draw();
    showStatus();
    return true;
  };
  $("problem").hidden = true;
  if (state.picture === null && !await step(0, false)) return; // without labels, which may take a while to read
  if (!await step(undefined, true)) return;
  root.dataset.state = state.picture.exact ? "exact" : "estimated";
  loadSide(signal).catch(report);
  for (let turn = 1; !state.picture.exact; turn += 1) {
    await visible();
    if (!await step("more", false)) return;
    if (turn % 4 === 0 || state.picture.exact) await loadDistributions(signal);
  }
  root.dataset.state = "exact";
}

async function loadDistributions(signal) {
  const area = layout();
  const found = await ask("distributions", {
    ...subject(), window: windowNow(), bins: isVector() ? [area.width] : [area.height, area.width], sums: wantsSums(area),
  }, signal);
  if (signal.aborted) return;
  state.distributions = found;
  drawDegrees();
  drawValues();
}
async function loadSide(signal) {
  await loadDistributions(signal);
  state.groups = await ask("groups", { ...subject(), window: windowNow() }, signal);
  if (signal.aborted) return;
  drawGroups();
  await loadPanel(signal);
  root.dataset.side = String(state.number);
}
async function loadPanel(signal) {
  if (state.panel === "elements") await loadElements(signal);
  if (state.panel === "plan") await loadPlan(signal);
}

function showStatus() {
  const found = state.picture, unit = state.about.unit;
  const many = plural(found.chunks, unit), total = `${plural(Math.round(found.total), "element")}`;
  let text = `${total}, exact`;
  if (!found.exact && !found.read) text = `≈ ${total}, estimated from the key ranges of ${many}`;
  else if (!found.exact) text = `≈ ${total}, estimated from ${count(found.read)} of ${many}`;
  if (!found.total && found.exact) text = "no elements here";
  $("status").textContent = text;
  $("progress").value = found.chunks ? found.read / found.chunks : 1;
  $("progress").hidden = found.exact;
  $("code").textContent = found.code;
  const isWhole = found.exact && !Object.keys(state.fixed).length && found.window.ranges.every(([low, high], k) => low === 0 && high === sizes()[k]);
  if (isWhole && state.about.nnz === null) {
    state.about.nnz = Math.round(found.total);
    state.about.density = state.about.size ? state.about.nnz / state.about.size : null;
    showFacts();
  }
  const names = state.axes.map((axis) => state.about.dims[axis]);
  const places = found.window.ranges.map(([a, b], k) => `${names[k]} ${grouped.format(a)} to ${grouped.format(b - 1)}`);
  $("picture").setAttribute("aria-label", `Picture of ${places.join(", ")}: ${text}`);
}

function saveHash() {
  const kept = { t: state.about.name, v: state.version, a: state.axes, r: windowNow().ranges, f: state.fixed, m: state.measure };
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(kept))}`);
}
function readHash() {
  try {
    return JSON.parse(decodeURIComponent(location.hash.slice(1))) ?? {};
  } catch {
    return {};
  }
}

// -- the picture ----------------------------------------------------------------------------------------

const MARGIN = 46;
/** Return where the parts of the picture lie. */
function layout() {
  const { width, height } = $("picture").getBoundingClientRect();
  const labelled = !isVector() && state.about.labelled.includes(state.axes[0]);
  const left = width < 500 ? (labelled ? 76 : 58) : (labelled ? 118 : 80);
  const right = isVector() ? 12 : MARGIN + 8, top = isVector() ? 34 : MARGIN + 8, bottom = 40;
  return { left, top, width: Math.max(Math.floor(width - left - right), 20), height: Math.max(Math.floor(height - top - bottom), 20), right, bottom };
}
/** Return the ranges that positions of an axis take on the screen: vertical and horizontal. */
const rangeX = () => state.ranges[state.ranges.length - 1];
const rangeY = () => state.ranges[0];

/** Return the values to color and their scale. */
function measured(found) {
  const byCount = { values: found.counts, kind: "log" };
  if (state.measure === "count" || !found.sums || isVector()) return byCount;
  // Values of single cells say more than a 1 in each of them.
  if (state.measure === "auto" && !(found.exact && found.counts.every((n) => n <= 1))) return byCount;
  if (state.measure === "sum") return { values: found.sums, kind: "sum" };
  return { values: Float32Array.from(found.sums, (sum, k) => (found.counts[k] ? sum / found.counts[k] : 0)), kind: "mean" };
}
function scaleOf(found) {
  const { values, kind } = measured(found);
  let low = Infinity, high = -Infinity;
  for (let k = 0; k < values.length; k += 1) {
    if (found.counts[k] > 0 && Number.isFinite(values[k])) {
      if (values[k] < low) low = values[k];
      if (values[k] > high) high = values[k];
    }
  }
  if (low > high) return { values, kind: "none", low: 0, high: 0, at: () => 0 };
  if (kind === "log" || (kind === "sum" && low > 0)) {
    low = Math.max(lowest(values), kind === "log" ? Math.min(1, high) : 0, high / 1e6);
    const span = Math.log(high / low) || 1;
    return { values, kind: "log", low, high, at: (v) => (high <= low ? 0.6 : Math.max(Math.log(v / low), 0) / span) };
  }
  if (low < 0 && high > 0) {
    const most = Math.max(-low, high);
    return { values, kind: "both", low: -most, high: most, at: (v) => (v + most) / (2 * most) };
  }
  return { values, kind: "linear", low, high, at: (v) => (high > low ? (v - low) / (high - low) : 0.6) };
}
/** Return the positive value that one of a hundred is below, of an even sample: bins at the edge may be narrow. */
function lowest(values) {
  const every = Math.max(Math.floor(values.length / 20000), 1), sample = [];
  for (let k = 0; k < values.length; k += every) if (values[k] > 0) sample.push(values[k]);
  return sample.length ? sample.sort((a, b) => a - b)[Math.floor(sample.length / 100)] : 0;
}
/** Draw the counts into an image of one pixel per bin. */
function imageOf(found) {
  const [height, width] = found.cells, image = new OffscreenCanvas(Math.max(width, 1), Math.max(height, 1));
  const scale = scaleOf(found), map = table(scale.kind === "both" ? colors().both : colors().map);
  const pen = image.getContext("2d"), pixels = pen.createImageData(image.width, image.height), data = pixels.data;
  for (let k = 0; k < found.counts.length; k += 1) {
    const n = found.counts[k];
    if (!(n > 0)) continue;
    const [r, g, b] = map[clamp(Math.round(scale.at(scale.values[k]) * 255), 0, 255)];
    data[4 * k] = r;
    data[4 * k + 1] = g;
    data[4 * k + 2] = b;
    data[4 * k + 3] = n < 1 ? Math.round(255 * Math.max(n, 0.04)) : 255;
  }
  pen.putImageData(pixels, 0, 0);
  return { image, scale };
}

function drawAll() {
  if (!state.about) return;
  draw();
  drawDegrees();
  drawValues();
  drawGroups();
}

function draw() {
  if (!state.about) return;
  const [pen] = prepare($("picture")), area = layout(), ink = colors(), found = state.picture;
  pen.fillStyle = ink.empty;
  pen.fillRect(area.left, area.top, area.width, area.height);
  if (found) {
    pen.save();
    pen.beginPath();
    pen.rect(area.left, area.top, area.width, area.height);
    pen.clip();
    if (isVector()) drawSeries(pen, area, ink, found);
    else drawBins(pen, area, found);
    pen.restore();
    drawMargins(pen, area, ink, found);
  }
  drawAxes(pen, area, ink, found);
  drawMark(pen, area, ink);
  if (state.box) {
    const { x, y, width, height } = state.box;
    pen.fillStyle = `${ink.first}26`;
    pen.fillRect(x, y, width, height);
    pen.strokeStyle = ink.first;
    pen.strokeRect(x + 0.5, y + 0.5, width, height);
  }
  pen.strokeStyle = ink.line;
  pen.strokeRect(area.left - 0.5, area.top - 0.5, area.width + 1, area.height + 1);
}
/** Return where a range of positions lies between two pixels. */
function spread([low, high], start, length) {
  return (at) => start + ((at - low) / (high - low || 1)) * length;
}
function drawBins(pen, area, found) {
  if (found.window.axes.join() !== state.axes.join() || found.cells.length !== 2) return;
  state.image ??= imageOf(found);
  const [[y0], [x0]] = found.window.ranges, [sy, sx] = found.steps, [height, width] = found.cells;
  const x = spread(rangeX(), area.left, area.width), y = spread(rangeY(), area.top, area.height);
  pen.imageSmoothingEnabled = false;
  const left = x(x0), top = y(y0);
  pen.drawImage(state.image.image, left, top, x(x0 + width * sx) - left, y(y0 + height * sy) - top);
  showLegend(state.image.scale);
  writeValues(pen, area, found, x, y);
}
/** Write the values into cells that are large enough. */
function writeValues(pen, area, found, x, y) {
  const [[y0], [x0]] = found.window.ranges, [height, width] = found.cells;
  const wide = x(1) - x(0), high = y(1) - y(0);
  if (!found.exact || found.steps.some((step) => step !== 1) || wide < 18 || high < 13) return;
  const { scale } = state.image;
  pen.font = `${high < 18 ? 10 : 11}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (let row = 0, k = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1, k += 1) {
      if (!found.counts[k]) continue;
      const share = scale.at(scale.values[k]), light = scale.kind === "both" ? Math.abs(share - 0.5) < 0.28 : (share < 0.42) !== isDark();
      pen.fillStyle = light !== (isDark() && scale.kind === "both") ? "#10202a" : "#ffffff";
      const value = found.sums && found.counts[k] === 1 ? found.sums[k] : scale.values[k];
      const text = number(Number(value.toPrecision(6)));
      if (pen.measureText(text).width <= wide - 4) pen.fillText(text, x(x0 + column + 0.5), y(y0 + row + 0.5));
    }
  }
}
function drawSeries(pen, area, ink, found) {
  const [[x0]] = found.window.ranges, [step] = found.steps, width = found.cells[1];
  const mean = Array.from(found.sums ?? [], (sum, k) => (found.counts[k] > 0 ? sum / found.counts[k] : 0));
  const low = Math.min(0, ...mean), high = Math.max(0, ...mean) || 1;
  const x = spread(rangeX(), area.left, area.width), y = spread([high, low], area.top + 6, area.height - 12);
  state.series = { low, high, y };
  pen.fillStyle = ink.first;
  for (let k = 0; k < width; k += 1) {
    if (!found.counts[k]) continue;
    pen.globalAlpha = step > 1 ? clamp(0.35 + (0.65 * found.counts[k]) / Math.min(step, found.window.ranges[0][1] - x0 - k * step), 0.35, 1) : 1;
    const from = y(0), to = y(mean[k]), left = Math.round(x(x0 + k * step)), thick = Math.max(Math.round(x(x0 + (k + 1) * step)) - left, 1);
    pen.fillRect(left, Math.min(from, to), thick > 4 ? thick - 1 : thick, Math.max(Math.abs(to - from), 1));
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = ink.soft;
  pen.beginPath();
  pen.moveTo(area.left, Math.round(y(0)) + 0.5);
  pen.lineTo(area.left + area.width, Math.round(y(0)) + 0.5);
  pen.stroke();
  $("legend").hidden = true;
}

/** Return the sums of the counts along an axis of the picture. */
function marginal(found, axis) {
  const [height, width] = found.cells, out = new Float64Array(axis ? width : height);
  for (let row = 0, k = 0; row < height; row += 1) for (let column = 0; column < width; column += 1, k += 1) out[axis ? column : row] += found.counts[k];
  return out;
}
function drawMargins(pen, area, ink, found) {
  found.margins ??= [marginal(found, 0), marginal(found, 1)];
  const sides = isVector() ? [1] : [0, 1];
  for (const side of sides) {
    const values = found.margins[side], most = values.reduce((a, b) => Math.max(a, b), 0);
    if (!most) continue;
    const positive = Array.from(values).filter((v) => v > 0).sort((a, b) => a - b);
    const isLog = most / positive[positive.length >> 1] > 30;
    const floor = Math.max(positive[0], most / 1e6);
    const room = (isVector() ? 26 : MARGIN) - 4;
    const share = (v) => (v <= 0 ? 0 : isLog ? 0.06 + (0.94 * Math.log(Math.max(v / floor, 1))) / (Math.log(most / floor) || 1) : v / most);
    const place = found.window.ranges.length - (isVector() ? 1 : 2) + (isVector() ? 0 : side);
    const [start] = found.window.ranges[place], step = found.steps[place], range = state.ranges[place];
    const at = side ? spread(range, area.left, area.width) : spread(range, area.top, area.height);
    pen.fillStyle = side ? ink.second : ink.first;
    pen.globalAlpha = 0.75;
    pen.save();
    pen.beginPath();
    if (side) pen.rect(area.left, 0, area.width, area.top);
    else pen.rect(area.left + area.width, area.top, area.right, area.height);
    pen.clip();
    for (let k = 0; k < values.length; k += 1) {
      if (!values[k]) continue;
      const from = Math.round(at(start + k * step)), size = Math.max(Math.round(at(start + (k + 1) * step)) - from, 1), length = share(values[k]) * room;
      if (side) pen.fillRect(from, area.top - 5 - length, size, length);
      else pen.fillRect(area.left + area.width + 5, from, length, size);
    }
    pen.restore();
    pen.globalAlpha = 1;
    if (isLog) {
      pen.fillStyle = ink.soft;
      pen.textAlign = side ? "right" : "center";
      pen.textBaseline = "top";
      if (side) pen.fillText("log", area.left - 6, area.top - MARGIN);
      else pen.fillText("log", area.left + area.width + area.right / 2, area.top + area.height + 5);
    }
  }
}

/** Return round positions between two, with their distance. */
function ticks(low, high, most) {
  const raw = Math.max((high - low) / Math.max(most, 1), 1e-300), unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= raw);
  const out = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) out.push(at + 0);
  return [out, step];
}
function shorten(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
  return `${text.slice(0, end)}…`;
}
function drawAxes(pen, area, ink, found) {
  const names = state.axes.map((axis) => state.about.dims[axis]);
  pen.fillStyle = ink.text;
  pen.textBaseline = "alphabetic";
  pen.textAlign = "center";
  pen.font = "600 12px system-ui, sans-serif";
  pen.fillText(shorten(pen, names[names.length - 1], area.width), area.left + area.width / 2, area.top + area.height + 34);
  if (!isVector()) {
    pen.save();
    pen.translate(12, area.top + area.height / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(shorten(pen, names[0], area.height), 0, 0);
    pen.restore();
  }
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = ink.soft;
  pen.strokeStyle = ink.line;
  for (let k = 0; k < state.axes.length; k += 1) {
    const across = k === state.axes.length - 1, range = state.ranges[k], length = across ? area.width : area.height;
    const at = spread(range, across ? area.left : area.top, length);
    const own = found && found.window.axes.join() === state.axes.join() ? found.labels?.[k] : null;
    const room = across ? 82 : 20;
    const step = found?.steps[k] ?? 1, pixels = (step / (range[1] - range[0] || 1)) * length;
    let marks;
    if (own) {
      const every = Math.max(Math.ceil(room / Math.max(pixels, 1e-9)), 1), start = found.window.ranges[k][0];
      marks = own.map((text, n) => [start + n * step, text, n]).filter(([, , n]) => n % every === 0).map(([place, text]) => [place, text]);
    } else {
      const [places, apart] = ticks(range[0], Math.max(range[1] - 1, range[0]), length / (across ? 80 : 44));
      marks = places.filter((place) => Number.isInteger(place)).map((place) => [place, position(place, apart)]);
    }
    const half = Math.min((length / (range[1] - range[0] || 1)) * (own ? step : 1), 60) / 2;
    for (const [place, text] of marks) {
      const pixel = at(place) + half;
      if (pixel < (across ? area.left : area.top) - 1 || pixel > (across ? area.left + area.width : area.top + area.height) + 1) continue;
      if (across) {
        pen.textAlign = "center";
        pen.textBaseline = "top";
        const label = shorten(pen, text, room - 14), wide = pen.measureText(label).width / 2;
        pen.fillText(label, clamp(pixel, area.left - 40 + wide, area.left + area.width + area.right - wide), area.top + area.height + 6);
      } else {
        pen.textAlign = "right";
        pen.textBaseline = "middle";
        pen.fillText(shorten(pen, text, area.left - 27), area.left - 7, pixel);
      }
    }
  }
  if (isVector() && state.series) {
    const { low, high, y } = state.series, [places] = ticks(low, high, area.height / 50);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const place of places) pen.fillText(number(Number(place.toPrecision(6))), area.left - 7, y(place));
  }
}
function drawMark(pen, area, ink) {
  if (state.mark === null) return;
  const k = state.axes.indexOf(state.mark.axis);
  if (k < 0) return;
  const across = k === state.axes.length - 1;
  const at = spread(state.ranges[k], across ? area.left : area.top, across ? area.width : area.height);
  const from = at(state.mark.start), to = Math.max(at(state.mark.stop), from + 1);
  pen.save();
  pen.beginPath();
  pen.rect(area.left, area.top, area.width, area.height);
  pen.clip();
  pen.fillStyle = `${ink.mark}30`;
  pen.strokeStyle = ink.mark;
  if (across) {
    pen.fillRect(from, area.top, to - from, area.height);
    pen.strokeRect(from - 0.5, area.top - 2, to - from + 1, area.height + 4);
  } else {
    pen.fillRect(area.left, from, area.width, to - from);
    pen.strokeRect(area.left - 2, from - 0.5, area.width + 4, to - from + 1);
  }
  pen.restore();
}
function showLegend(scale) {
  $("legend").hidden = scale.kind === "none";
  if (scale.kind === "none") return;
  const bar = $("legend-bar"), pen = bar.getContext("2d"), map = table(scale.kind === "both" ? colors().both : colors().map);
  for (let k = 0; k < bar.width; k += 1) {
    pen.fillStyle = `rgb(${map[Math.round((k / (bar.width - 1)) * 255)].join()})`;
    pen.fillRect(k, 0, 1, bar.height);
  }
  const kind = measured(state.picture).kind, isCount = kind === "log", show = isCount ? count : number;
  $("legend-low").textContent = show(scale.low);
  $("legend-high").textContent = show(scale.high);
  const steps = state.picture.steps.map((n) => grouped.format(n)).join(" × ");
  const single = state.picture.steps.every((n) => n === 1) && state.about.shape.length === 2;
  const what = single && !isCount ? "value" : { log: "elements", sum: "sum of values", mean: "mean value" }[kind];
  const where = state.picture.steps.every((n) => n === 1) ? "per cell" : `per ${steps} cells`;
  $("legend-text").textContent = `${what} ${where}${scale.kind === "log" ? ", log" : ""}`;
}

// -- pointer and keyboard ---------------------------------------------------------------------------------

/** Return a point of the picture: its shares of the axes, and which axes it belongs to. */
function locate(event) {
  const { left, top } = $("picture").getBoundingClientRect(), area = layout();
  const x = event.clientX - left, y = event.clientY - top;
  const across = clamp((x - area.left) / area.width, 0, 1), down = clamp((y - area.top) / area.height, 0, 1);
  const onTop = y < area.top, onRight = x > area.left + area.width;
  const inside = x >= area.left && y >= area.top && !onRight && y <= area.top + area.height;
  return { x, y, area, inside, at: isVector() ? [across] : [down, across], which: isVector() ? [true] : [!onTop, !onRight] };
}
function hideTip() {
  $("tip").hidden = true;
}
function cellAt(k, share) {
  const found = state.picture, [low, high] = state.ranges[k];
  const place = low + share * (high - low), cell = Math.floor((place - found.window.ranges[k][0]) / found.steps[k]);
  return cell >= 0 && cell < found.cells[found.cells.length - found.steps.length + k] ? cell : -1;
}
function nameOf(k, cell) {
  const found = state.picture, step = found.steps[k], first = found.window.ranges[k][0] + cell * step;
  const last = Math.min(first + step, found.window.ranges[k][1]) - 1, label = found.labels?.[k]?.[cell];
  const dim = state.about.dims[state.axes[k]];
  const places = first === last ? grouped.format(first) : `${grouped.format(first)} to ${grouped.format(last)}`;
  if (label === undefined || label === null) return `${dim} ${places}`;
  return first === last ? `${dim} ${label} (${places})` : `${dim} from ${label} (${places})`;
}
function showTip(event) {
  const found = state.picture, { at, inside, x, y } = locate(event);
  if (!found || !inside || state.drag || found.window.axes.join() !== state.axes.join()) return hideTip();
  const cells = at.map((share, k) => cellAt(k, share));
  if (cells.some((cell) => cell < 0)) return hideTip();
  const k = isVector() ? cells[0] : cells[0] * found.cells[1] + cells[1], n = found.counts[k];
  const lines = cells.map((cell, axis) => nameOf(axis, cell));
  const single = found.steps.every((step) => step === 1);
  lines.push(n ? `${found.exact ? "" : "≈ "}${n < 10 && !found.exact ? number(n) : count(n)} element${n === 1 ? "" : "s"}` : "no element");
  if (found.sums && n) lines.push(single && n === 1 ? `value ${number(found.sums[k])}` : `mean value ${number(found.sums[k] / n)}`);
  const tip = $("tip"), stage = tip.parentElement.getBoundingClientRect();
  tip.textContent = lines.join("\n");
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${x + 16 + box.width > stage.width ? Math.max(x - box.width - 12, 0) : x + 16}px`;
  tip.style.top = `${y + 16 + box.height > stage.height ? Math.max(y - box.height - 12, 0) : y + 16}px`;
  return undefined;
}
function listen() {
  const picture = $("picture");
  picture.addEventListener("wheel", (event) => {
    const { at, which } = locate(event), factor = 1.0018 ** clamp(-event.deltaY * (event.deltaMode ? 30 : 1), -300, 300);
    const all = state.ranges.every(([low, high], k) => low <= 0 && high >= sizes()[k]);
    if (factor < 1 && all) return; // the page scrolls instead
    event.preventDefault();
    hideTip();
    zoom(factor, at, which, { soon: 70 });
  }, { passive: false });
  picture.addEventListener("dblclick", (event) => {
    const { at, which } = locate(event);
    event.preventDefault();
    zoom(event.shiftKey ? 1 / 3 : 3, at, which);
  });
  picture.addEventListener("pointerdown", (event) => {
    if (event.button > 1) return;
    picture.setPointerCapture(event.pointerId);
    const point = locate(event);
    state.pointers.set(event.pointerId, point);
    const moves = event.shiftKey || event.button === 1 || event.pointerType === "touch";
    state.drag = { from: point, moves, ranges: state.ranges.map((range) => [...range]) };
    hideTip();
  });
  picture.addEventListener("pointermove", (event) => {
    if (!state.drag) return showTip(event);
    const point = locate(event), before = new Map(state.pointers);
    state.pointers.set(event.pointerId, point);
    if (state.pointers.size === 2) return pinch(before);
    return state.drag.moves ? move(point) : select(point);
  });
  const end = (event) => {
    state.pointers.delete(event.pointerId);
    const { drag, box } = state;
    if (!drag || state.pointers.size) return;
    state.drag = state.box = null;
    if (box && event.type === "pointerup") zoomTo(drag, box);
    else draw();
  };
  picture.addEventListener("pointerup", end);
  picture.addEventListener("pointercancel", end);
  picture.addEventListener("pointerleave", hideTip);
  picture.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = event.shiftKey ? 0.8 : 0.2;
    const keys = {
      "+": () => zoom(2), "=": () => zoom(2), "-": () => zoom(0.5), "_": () => zoom(0.5), 0: reset, Home: reset,
      Backspace: back, Escape: () => { state.mark = null; draw(); },
      ArrowLeft: () => pan(isVector() ? [-by] : [0, -by]), ArrowRight: () => pan(isVector() ? [by] : [0, by]),
      ArrowUp: () => (isVector() ? zoom(2) : pan([-by, 0])), ArrowDown: () => (isVector() ? zoom(0.5) : pan([by, 0])),
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      $("search").focus();
    }
  });
  new ResizeObserver(() => {
    if (!state.about) return;
    drawAll();
    if (state.picture && !isVector() && state.asked !== layout().width) { state.asked = layout().width; load(200); }
  }).observe(picture);
  dark.addEventListener("change", () => { state.image = null; drawAll(); });
}
function move(point) {
  const { from, ranges } = state.drag;
  look(ranges.map(([low, high], k) => {
    const by = Math.round((from.at[k] - point.at[k]) * (high - low));
    return [low + by, high + by];
  }), { soon: 90 });
}
function pinch(before) {
  const [a, b] = [...before.values()], [c, d] = [...state.pointers.values()];
  const factor = Math.hypot(c.x - d.x, c.y - d.y) / (Math.hypot(a.x - b.x, a.y - b.y) || 1);
  if (Number.isFinite(factor) && factor) zoom(factor, c.at.map((share, k) => (share + d.at[k]) / 2), c.which, { soon: 120 });
  state.drag.moves = true;
  state.drag.ranges = state.ranges.map((range) => [...range]);
  state.drag.from = c;
}
/** Show the box between the beginning of a drag and a point. */
function select(point) {
  const { from } = state.drag, { area } = from;
  let [x0, x1] = [from.x, point.x].map((x) => clamp(x, area.left, area.left + area.width)).sort((a, b) => a - b);
  let [y0, y1] = [from.y, point.y].map((y) => clamp(y, area.top, area.top + area.height)).sort((a, b) => a - b);
  if (isVector() || !from.which[0]) [y0, y1] = [area.top, area.top + area.height];
  if (!isVector() && !from.which[1]) [x0, x1] = [area.left, area.left + area.width];
  state.box = Math.max(Math.abs(point.x - from.x), Math.abs(point.y - from.y)) < 5 ? null : { x: x0, y: y0, width: x1 - x0, height: y1 - y0 };
  draw();
}
function zoomTo({ from: { area } }, box) {
  const shares = [[(box.y - area.top) / area.height, box.height / area.height], [(box.x - area.left) / area.width, box.width / area.width]];
  const used = isVector() ? [shares[1]] : shares;
  look(state.ranges.map(([low, high], k) => {
    const [start, length] = used[k], from = Math.floor(low + start * (high - low));
    return [from, Math.max(Math.ceil(low + (start + length) * (high - low)), from + 1)];
  }));
  draw();
}

// -- degrees, values, row groups ----------------------------------------------------------------------------

function frame(pen, width, height, ink) {
  const box = { left: 38, top: 8, width: width - 48, height: height - 34 };
  pen.strokeStyle = ink.line;
  pen.beginPath();
  pen.moveTo(box.left - 0.5, box.top);
  pen.lineTo(box.left - 0.5, box.top + box.height + 0.5);
  pen.lineTo(box.left + box.width, box.top + box.height + 0.5);
  pen.stroke();
  pen.fillStyle = ink.soft;
  pen.font = "10.5px system-ui, sans-serif";
  return box;
}
/** Return the powers of ten between two numbers. */
function powers(low, high) {
  const out = [];
  for (let k = Math.ceil(Math.log10(low) - 1e-9); 10 ** k <= high * (1 + 1e-9); k += 1) out.push(10 ** k);
  return out;
}
function power(n) {
  if (n >= 0.01 && n < 1000) return String(Number(n.toPrecision(1)));
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹", k = Math.round(Math.log10(n));
  return `10${k < 0 ? "⁻" : ""}${[...String(Math.abs(k))].map((d) => digits[d]).join("")}`;
}
function drawDegrees() {
  $("degrees-card").hidden = isVector();
  if (isVector() || !state.distributions) return;
  const ink = colors(), [pen, width, height] = prepare($("degrees")), box = frame(pen, width, height, ink);
  const sides = state.distributions.degrees, names = state.axes.map((axis) => state.about.dims[axis]);
  const most = Math.max(1, ...sides.map((side) => side.largest)), many = Math.max(1, ...sides.flatMap((side) => side.count));
  const few = Math.min(1, ...sides.flatMap((side) => side.count).filter((n) => n > 0));
  const x = (n) => box.left + 4 + (Math.log10(n) / Math.log10(Math.max(most, 2))) * (box.width - 10);
  const y = (n) => box.top + box.height - 5 - (Math.log10(n / few) / Math.log10(Math.max(many / few, 2))) * (box.height - 10);
  pen.textAlign = "center";
  pen.textBaseline = "top";
  for (const n of powers(1, most)) pen.fillText(power(n), x(n), box.top + box.height + 5);
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const all = powers(few, many), every = Math.ceil((13 * all.length) / box.height);
  all.forEach((n, k) => { if (k % every === 0) pen.fillText(power(n), box.left - 5, y(n)); });
  sides.forEach((side, k) => {
    pen.fillStyle = k ? ink.second : ink.first;
    side.degree.forEach((degree, n) => {
      pen.globalAlpha = 0.75;
      pen.beginPath();
      if (k) pen.rect(x(degree) - 2, y(side.count[n]) - 2, 4, 4);
      else pen.arc(x(degree), y(side.count[n]), 2.4, 0, 7);
      pen.fill();
    });
    pen.globalAlpha = 1;
    pen.textAlign = "left";
    pen.textBaseline = "bottom";
    pen.fillText(`${k ? "■" : "●"} ${shorten(pen, names[k], 75)}`, box.left + 100 * k, height);
  });
  pen.fillStyle = ink.soft;
  pen.textAlign = "right";
  pen.textBaseline = "bottom";
  pen.fillText("elements", box.left + box.width, height);
  const { exact, read, chunks } = state.distributions;
  const facts = sides.map((side, k) => `${names[k]}: up to ${count(side.largest)}, ${side.whole ? "" : "in the part read "}${exact ? "" : "≈ "}${count(side.empty)} of ${count(side.size)} empty`);
  $("degrees-note").textContent = `${facts.join("; ")}. ${exact ? "" : `From ${count(read)} of ${plural(chunks, state.about.unit)}. `}How many have how many elements, both logarithmic.`;
  $("degrees").setAttribute("aria-label", `Degrees. ${facts.join("; ")}`);
}
function drawValues() {
  if (!state.distributions) return;
  const found = state.distributions.values, ink = colors(), [pen, width, height] = prepare($("values")), box = frame(pen, width, height, ink);
  const counts = found.count, most = Math.max(0, ...counts), about = state.distributions.exact ? "" : "≈ ";
  if (!most) {
    $("values-note").textContent = "No values here.";
    return;
  }
  const positive = counts.filter((n) => n > 0), isLog = most / Math.min(...positive) > 100;
  const few = Math.min(...positive) / 2, high = (n) => (n <= 0 ? 0 : isLog ? Math.log(n / few) / Math.log(most / few) : n / most) * (box.height - 4);
  const each = Math.min(box.width / counts.length, 90);
  pen.fillStyle = ink.first;
  counts.forEach((n, k) => pen.fillRect(box.left + k * each, box.top + box.height - high(n), Math.max(each - (each > 5 ? 1.5 : 0), 1), high(n)));
  pen.fillStyle = ink.soft;
  pen.textBaseline = "top";
  if (found.values) {
    const every = Math.ceil(44 / each);
    pen.textAlign = "center";
    found.values.forEach((text, k) => { if (k % every === 0) pen.fillText(shorten(pen, text, each * every), box.left + (k + 0.5) * each, box.top + box.height + 5); });
  } else {
    const { edges } = found, at = [0, edges.length >> 1, edges.length - 1];
    at.forEach((k, n) => {
      pen.textAlign = ["left", "center", "right"][n];
      pen.fillText(number(Number(edges[k].toPrecision(3))), box.left + (k / (edges.length - 1)) * box.width, box.top + box.height + 5);
    });
  }
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  pen.fillText(most >= 1000 ? power(10 ** Math.floor(Math.log10(most))) : number(Math.round(most)), box.left - 5, box.top + box.height - high(most >= 1000 ? 10 ** Math.floor(Math.log10(most)) : most));
  const parts = [`from ${number(found.least)} to ${number(found.largest)}`, `mean ${number(found.mean)}`];
  if (found.nan) parts.push(`${about}${count(found.nan)} NaN`);
  if (found.outside) parts.push(`${about}${count(found.outside)} at or below 0 not drawn`);
  if (found.scale === "log") parts.push("values logarithmic");
  if (isLog) parts.push("counts logarithmic");
  $("values-note").textContent = `${about}${plural(found.total, "element")} ${parts.join(", ")}.`;
  $("values").setAttribute("aria-label", `Values. ${$("values-note").textContent}`);
}
function drawGroups() {
  const found = state.groups;
  if (!found) return;
  $("groups-card").hidden = false;
  const ink = colors(), canvas = $("groups"), [pen, width, height] = prepare(canvas);
  canvas.hidden = !found.cells.length;
  if (!found.cells.length) {
    $("groups-note").textContent = `${found.reason}.`;
    return;
  }
  const many = found.cells.length, columns = Math.max(Math.ceil(Math.sqrt((many * width) / height)), 1), rows = Math.ceil(many / columns);
  const [w, h] = [width / columns, height / rows], gap = Math.min(w, h) > 4 ? 1 : 0;
  found.place = (x, y) => found.cells[Math.floor(y / h) * columns + Math.floor(x / w)];
  found.cells.forEach((cell, k) => {
    const size = Math.min(found.each, found.total - k * found.each);
    pen.globalAlpha = cell.read ? 0.35 + (0.65 * cell.read) / size : 1;
    pen.fillStyle = cell.read ? ink.first : ink.line;
    pen.fillRect((k % columns) * w, Math.floor(k / columns) * h, Math.max(w - gap, 0.5), Math.max(h - gap, 0.5));
  });
  pen.globalAlpha = 1;
  const skipped = found.total - found.read;
  $("groups-note").textContent = `This window reads ${count(found.read)} of ${plural(found.total, "row group")} (${bytes(found.bytes_read)} of ${bytes(found.bytes)}), skips ${count(skipped)}; sorted by ${found.order.join(", ")}, ${plural(found.files, "file")}.`;
  canvas.setAttribute("aria-label", $("groups-note").textContent);
}

// -- search -------------------------------------------------------------------------------------------------

let searching = 0, matches = [], chosen = -1;
async function search() {
  const text = $("search").value.trim();
  if (!text) return showMatches([], "");
  const found = await ask("search", { ...subject(), text });
  if ($("search").value.trim() !== text) return undefined;
  return showMatches(found.found, text);
}
function showMatches(found, text) {
  matches = found;
  chosen = found.length ? 0 : -1;
  const list = $("found");
  list.replaceChildren(...found.map((match, k) => {
    const places = match.stop - match.start > 1 ? `${grouped.format(match.start)}:${grouped.format(match.stop)}` : grouped.format(match.start);
    const item = make("li", { role: "option", id: `match-${k}`, "aria-selected": String(k === chosen) },
      make("span", {}, match.label ?? places), make("span", {}, match.label === null ? match.dim : `${match.dim} ${places}`));
    item.addEventListener("pointerdown", (event) => { event.preventDefault(); go(match); });
    return item;
  }));
  if (text && !found.length) list.replaceChildren(make("li", {}, make("span", {}, "no match")));
  list.hidden = !text;
  $("search").setAttribute("aria-expanded", String(Boolean(text)));
  if (chosen >= 0) $("search").setAttribute("aria-activedescendant", "match-0");
  else $("search").removeAttribute("aria-activedescendant");
}
function choose(by) {
  if (!matches.length) return;
  chosen = (chosen + by + matches.length) % matches.length;
  [...$("found").children].forEach((item, k) => item.setAttribute("aria-selected", String(k === chosen)));
  $("found").children[chosen].scrollIntoView({ block: "nearest" });
  $("search").setAttribute("aria-activedescendant", `match-${chosen}`);
}
/** Look at a match: zoom its axis to it, or fix an axis that is not shown. */
function go(match) {
  showMatches([], "");
  $("search").value = "";
  const k = state.axes.indexOf(match.axis);
  if (k < 0) {
    push();
    state.fixed = { ...state.fixed, [match.axis]: match.start };
    showControls();
    load(0);
    return;
  }
  state.mark = match;
  const length = match.stop - match.start, around = length > 1 ? 0 : 16;
  const ranges = state.ranges.map((range) => [...range]);
  ranges[k] = [match.start - around, match.stop + around];
  look(ranges);
  draw();
  $("picture").focus();
}

// -- SQL ------------------------------------------------------------------------------------------------------

const RESERVED = new Set(("all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create default "
  + "deferrable desc describe distinct do else end except false fetch for foreign from group having in initially intersect into lambda "
  + "lateral leading limit not null offset on only or order pivot placing primary qualify references returning select show some summarize "
  + "symmetric table then to trailing true union unique unpivot using variadic when where window with anti asof authorization binary by "
  + "collation columns concurrently cross freeze full generated glob ilike inner is isnull join left like map maintain natural notnull outer "
  + "overlaps positional right semi similar struct tablesample try_cast unpack verbose at pivot_longer pivot_wider tuple").split(" "));
const quoted = (name) => (/^[a-z_][a-z0-9_]*$/i.test(name) && !RESERVED.has(name.toLowerCase()) ? name : `"${name.replaceAll('"', '""')}"`);
function insert(text) {
  const box = $("query");
  box.setRangeText(text, box.selectionStart, box.selectionEnd, "end");
  box.focus();
}
function showTables() {
  const chips = [];
  for (const tensor of state.tensors) {
    const named = [[tensor.name, "name"], ...tensor.dims.map((dim) => [dim, ""]), ["value", ""]];
    for (const [text, kind] of named) {
      const chip = make("button", { type: "button", className: kind, title: `Insert ${text}` }, text);
      chip.addEventListener("click", () => insert(quoted(text)));
      chips.push(chip);
    }
  }
  const here = make("button", { type: "button", id: "insert-window", title: "Insert the window as a condition" }, "where: this window");
  here.addEventListener("click", () => insert(condition()));
  $("tables").replaceChildren(...chips, here);
  const first = state.about.dims[0];
  $("query").value = `select ${quoted(first)}, count(*) as elements, sum(value) as total\nfrom ${quoted(state.about.name)}\ngroup by ${quoted(first)} order by elements desc limit 10`;
}
/** Return the window as a condition of SQL. */
function condition() {
  const { axes, ranges, fixed } = windowNow();
  const name = (axis) => quoted(state.about.labelled.includes(Number(axis)) ? `${state.about.dims[axis]}_code` : state.about.dims[axis]);
  const parts = axes.map((axis, k) => `${name(axis)} between ${ranges[k][0]} and ${ranges[k][1] - 1}`);
  for (const [axis, place] of Object.entries(fixed)) parts.push(`${name(axis)} = ${place}`);
  return `where ${parts.join("\n  and ")}`;
}
async function run() {
  const ident = `${page}-${++state.query}`;
  state.running = ident;
  $("run").disabled = true;
  $("cancel").disabled = false;
  $("sql-error").hidden = true;
  $("sql-note").textContent = "Running…";
  try {
    const found = await ask("sql", { ...subject(), query: $("query").value, ident });
    $("sql-error").hidden = !found.error;
    $("result").hidden = Boolean(found.error);
    if (found.error) {
      $("sql-error").textContent = found.error;
      $("sql-note").textContent = "";
    } else {
      showResult($("result"), found.columns, found.types, found.rows);
      $("sql-note").textContent = `${found.more ? "The first " : ""}${plural(found.rows.length, "row")}${found.more ? " of more" : ""}, ${number(found.seconds)} s.`;
    }
  } catch (error) {
    report(error);
    $("sql-note").textContent = "";
  }
  state.running = null;
  $("run").disabled = false;
  $("cancel").disabled = true;
}
const isNumeric = (type) => /INT|DECIMAL|DOUBLE|FLOAT|NUMBER/i.test(type) && !type.endsWith("[]");
/** Show rows as a table. */
function showResult(place, columns, types, rows) {
  const kinds = types.map((type) => (isNumeric(type) ? "number" : ""));
  const head = make("tr", {}, ...columns.map((name, k) => make("th", { className: kinds[k], scope: "col" }, name, make("small", {}, types[k]))));
  const body = rows.map((row) => make("tr", {}, ...row.map((value, k) =>
    make("td", { className: value === null ? "null" : kinds[k] }, value === null ? "NULL" : String(value)))));
  place.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

// -- elements, plan, versions -----------------------------------------------------------------------------------

async function loadElements(signal) {
  const found = await ask("elements", { ...subject(), window: windowNow() }, signal);
  if (signal?.aborted) return;
  const rows = found.values.map((value, k) => [
    ...found.columns.map(({ positions, labels }) => (labels ? `${labels[k]}` : grouped.format(positions[k]))), value,
  ]);
  const types = [...found.columns.map(({ labels }) => (labels ? "label" : "INTEGER")), state.about.dtype.toUpperCase()];
  showResult($("elements"), [...found.columns.map(({ name }) => name), "value"], types, rows);
  $("elements-note").textContent = found.complete
    ? `All ${plural(rows.length, "element")} of the window.`
    : `The first ${plural(rows.length, "element")} of the window, from ${count(found.read)} of ${plural(found.chunks, state.about.unit)}.`;
}
async function loadPlan(signal) {
  const found = await ask("plan", { ...subject(), window: windowNow() }, signal);
  if (signal?.aborted) return;
  $("plan-code").textContent = found.code;
  $("plan").replaceChildren(planNode(JSON.parse(found.plan)));
}
/** Return a node of a plan with its operands below it. */
function planNode(plan) {
  const dims = Object.entries(plan.dims ?? {}).map(([name, size]) => `${name}: ${grouped.format(size)}`).join(", ");
  const list = make("dl");
  let skips = false;
  for (const [name, text] of Object.entries(plan.details ?? {})) {
    const key = name.replace(" ", "_"), read = plan.reads?.[`${key}_read`], value = make("dd", {}, String(text).replace(/\d{5,}/g, (n) => grouped.format(n)));
    if (read !== undefined) {
      const skipped = plan.reads[`${key}_skipped`], bar = make("div", { className: "bar" }, make("i"));
      bar.firstChild.style.width = `${(100 * read) / (read + skipped || 1)}%`;
      skips ||= skipped > 0;
      value.prepend(bar);
    }
    list.append(make("dt", {}, name), value);
  }
  const about = [dims && `(${dims})`, plan.dtype, plan.note].filter(Boolean).join(" ");
  const node = make("div", { className: skips ? "node skips" : "node" }, make("h3", {}, plan.operation, make("small", {}, about)), list);
  const operands = plan.operands ?? [];
  return make("div", {}, node, operands.length ? make("ul", {}, ...operands.map((operand) => make("li", {}, planNode(operand)))) : null);
}
async function loadVersions() {
  if (!state.about.has_versions) {
    $("versions-note").textContent = `${state.about.name} is ${state.about.kind}, or a view: it has no versions of its own.`;
    $("versions").replaceChildren();
    return;
  }
  const found = await ask("versions", subject()), listed = found.versions.slice().reverse();
  const most = Math.max(1, ...listed.map(({ nnz }) => nnz ?? 0)), now = state.version ?? state.about.version;
  $("versions-note").textContent = `${plural(listed.length, "version")}, oldest first. Select one to look at it.`;
  $("versions").replaceChildren(...listed.map((version) => {
    const bar = make("span", { className: "size" });
    bar.style.height = `${Math.round((54 * (version.nnz ?? 0)) / most)}px`;
    const when = version.time ? version.time.slice(0, 16).replace("T", " ") : "";
    const button = make("button", { type: "button", "aria-pressed": String(version.version === now), title: `${version.operation}, ${version.time ?? ""} UTC` },
      make("span", { className: "nnz" }, version.nnz === null ? "" : count(version.nnz)), bar, make("span", { className: "dot" }),
      make("b", {}, `v${version.version}`), make("span", {}, version.operation), make("span", { className: "when" }, when));
    button.addEventListener("click", () => select_version(version.version).catch(report));
    return make("li", {}, button);
  }));
  $("versions").querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}
async function select_version(version) {
  await open(state.about.name, version, { a: state.axes, r: state.ranges, f: state.fixed, m: state.measure });
  await loadVersions();
}

// -- tabs, axes, header --------------------------------------------------------------------------------------------

function showPanel(name, focus = false) {
  state.panel = name;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const own = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(own));
    tab.tabIndex = own ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !own;
    if (own && focus) tab.focus();
  }
  if (name === "versions") loadVersions().catch(report);
  else loadPanel().catch(report);
}
function showFacts() {
  const { shape, dims, dtype, nnz, density, bytes: size, kind, version, stype, is_latest: latest, fill } = state.about;
  const item = (text, strong, title = "", className = "") => make("li", { title, className }, strong ? make("b", {}, strong) : null, strong && text ? ` ${text}` : text);
  const facts = [item("", dims.map((dim, k) => `${dim} ${count(shape[k])}`).join(" × "), `shape (${shape.map((n) => grouped.format(n)).join(", ")})`)];
  facts.push(item("elements", nnz === null ? "?" : count(nnz), nnz === null ? "not counted yet" : grouped.format(nnz)));
  if (density !== null) facts.push(item("dense", `${Number((100 * density).toPrecision(3))} %`));
  facts.push(item("", dtype, `${dtype}, ${fill} where nothing is stored, ${stype}`));
  if (size !== null) facts.push(item("", bytes(size)));
  facts.push(version === null ? item(kind) : item(latest ? "" : "(not the one opened)", `version ${version}`, "", latest ? "" : "old"));
  $("facts").replaceChildren(...facts);
  $("title").textContent = state.about.name === state.title ? state.title : `${state.title} / ${state.about.name}`;
  document.title = `${$("title").textContent} · sparrow`;
}
function showControls() {
  const { dims, shape } = state.about;
  const options = (id, own) => {
    $(id).replaceChildren(...dims.map((dim, axis) => make("option", { value: String(axis) }, dim)));
    $(id).value = String(own);
  };
  $("vertical-box").hidden = $("horizontal-box").hidden = dims.length < 2;
  $("measure-box").hidden = isVector();
  if (!isVector()) {
    options("vertical", state.axes[0]);
    options("horizontal", state.axes[1]);
  }
  $("measure").value = state.measure;
  const others = dims.map((dim, axis) => [dim, axis]).filter(([, axis]) => !state.axes.includes(axis));
  $("others").replaceChildren(...others.map(([dim, axis]) => {
    const isFixed = axis in state.fixed, last = shape[axis] - 1;
    const sum = make("input", { type: "checkbox", checked: !isFixed });
    const slider = make("input", { type: "range", min: "0", max: String(last), value: String(state.fixed[axis] ?? 0), disabled: !isFixed, "aria-label": `Position along ${dim}` });
    const exact = make("input", { type: "number", min: "0", max: String(last), value: String(state.fixed[axis] ?? 0), disabled: !isFixed, "aria-label": `Position along ${dim}, as a number` });
    const set = (place) => {
      if (place === null) delete state.fixed[axis];
      else state.fixed[axis] = clamp(Math.round(Number(place)) || 0, 0, last);
      slider.disabled = exact.disabled = place === null;
      slider.value = exact.value = String(state.fixed[axis] ?? 0);
      load(60);
    };
    sum.addEventListener("change", () => { push(); set(sum.checked ? null : Number(slider.value)); });
    slider.addEventListener("input", () => set(slider.value));
    exact.addEventListener("change", () => set(exact.value));
    return make("div", {}, make("b", {}, dim), make("label", {}, sum, `sum over all ${count(shape[axis])}`), slider, exact);
  }));
}
function changeAxes(vertical, horizontal) {
  push();
  if (vertical === horizontal) [vertical, horizontal] = vertical === state.axes[0] ? [state.axes[1], vertical] : [horizontal, state.axes[0]];
  state.axes = [vertical, horizontal];
  state.ranges = sizes().map((size) => [0, size]);
  state.fixed = Object.fromEntries(Object.entries(state.fixed).filter(([axis]) => !state.axes.includes(Number(axis))));
  state.picture = null;
  showControls();
  load(0);
}
/** Show a tensor at a version, in a window if it fits. */
async function open(name, version, wanted = {}) {
  const about = await ask("describe", { tensor: name, version });
  const dims = about.shape.length, fits = (axis) => Number.isInteger(axis) && axis >= 0 && axis < dims;
  state.about = about;
  state.version = version;
  state.axes = Array.isArray(wanted.a) && wanted.a.length === Math.min(dims, 2) && wanted.a.every(fits) && new Set(wanted.a).size === wanted.a.length
    ? wanted.a : dims === 1 ? [0] : [0, dims - 1];
  state.ranges = sizes().map((size, k) => {
    const range = Array.isArray(wanted.a) && wanted.a.join() === state.axes.join() ? wanted.r?.[k] : null;
    return Array.isArray(range) && range[0] >= 0 && range[0] < range[1] && range[1] <= size ? [...range] : [0, size];
  });
  state.fixed = Object.fromEntries(Object.entries(wanted.f ?? {}).filter(([axis, at]) => fits(Number(axis)) && !state.axes.includes(Number(axis)) && at < about.shape[axis]));
  state.measure = ["auto", "count", "sum", "mean"].includes(wanted.m) ? wanted.m : "auto";
  state.picture = state.groups = state.distributions = state.mark = null;
  state.history = [];
  $("back").disabled = true;
  $("tensor").value = about.name;
  showFacts();
  showControls();
  load(0);
}

// -- start ------------------------------------------------------------------------------------------------------------

function start() {
  $("theme").addEventListener("click", () => {
    const names = Object.keys(THEMES);
    setTheme(names[(names.indexOf(root.dataset.theme) + 1) % names.length]);
  });
  $("zoom-in").addEventListener("click", () => zoom(2));
  $("zoom-out").addEventListener("click", () => zoom(0.5));
  $("reset").addEventListener("click", reset);
  $("back").addEventListener("click", back);
  $("vertical").addEventListener("change", (event) => changeAxes(Number(event.target.value), state.axes[1]));
  $("horizontal").addEventListener("change", (event) => changeAxes(state.axes[0], Number(event.target.value)));
  $("measure").addEventListener("change", (event) => { state.measure = event.target.value; load(0); });
  $("tensor").addEventListener("change", (event) => { open(event.target.value, null).then(showTables).catch(report); });
  $("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText($("code").textContent);
    $("copy").textContent = "Copied";
    setTimeout(() => { $("copy").textContent = "Copy"; }, 1200);
  });
  $("search").addEventListener("input", () => {
    clearTimeout(searching);
    searching = setTimeout(() => search().catch(report), 120);
  });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); choose(event.key === "ArrowDown" ? 1 : -1); }
    if (event.key === "Escape") showMatches([], "");
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(searching);
      search().then(() => { if (matches.length) go(matches[Math.max(chosen, 0)]); }).catch(report);
    }
  });
  $("search").addEventListener("blur", () => { $("found").hidden = true; });
  $("run").addEventListener("click", run);
  $("cancel").addEventListener("click", () => { if (state.running) ask("cancel", { ident: state.running }).catch(report); });
  $("query").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !$("run").disabled) { event.preventDefault(); run(); }
  });
  for (const tab of document.querySelectorAll("[role=tab]")) {
    tab.addEventListener("click", () => showPanel(tab.id.slice(4)));
    tab.addEventListener("keydown", (event) => {
      const all = [...document.querySelectorAll("[role=tab]")], by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (by) showPanel(all[(all.indexOf(tab) + by + all.length) % all.length].id.slice(4), true);
    });
  }
  $("groups").addEventListener("pointermove", (event) => {
    const { left, top } = $("groups").getBoundingClientRect(), cell = state.groups?.place?.(event.clientX - left, event.clientY - top);
    $("groups").title = cell ? `file ${cell.file}, row group ${cell.number}${state.groups.each > 1 ? ` and ${state.groups.each - 1} more` : ""}: ${state.groups.order[0]} ${grouped.format(cell.low)} to ${grouped.format(cell.high)}, ${plural(cell.rows, "element")}, ${bytes(cell.bytes)}, ${cell.read ? "read" : "skipped"}` : "";
  });
  listen();
  setTheme(THEMES[stored("sparrow-theme")] ? stored("sparrow-theme") : "auto");
  begin().catch(report);
}
async function begin() {
  const found = await ask("meta", {}), wanted = readHash();
  state.title = found.title;
  state.tensors = found.tensors;
  $("tensor").replaceChildren(...found.tensors.map(({ name }) => make("option", { value: name }, name)));
  $("tensor-box").hidden = found.tensors.length < 2;
  const known = found.tensors.some(({ name }) => name === wanted.t);
  await open(known ? wanted.t : found.tensors[0].name, known ? wanted.v ?? null : null, known ? wanted : {});
  showTables();
  window.sparrow = state; // for tests and the curious
}
start();
