// Draws the charts: every .chart-plot with a data-chart-src, whenever it appears or the server renders it anew. What it draws came with the
// page, in the data block below the box; without one it is asked for.
//
// The server has drawn it already; what the script adds is that it answers. So the drawing of the server stays until there is somebody to
// answer, and a page that nobody touches costs its device nothing.
//
// The box carries its state for styles and tests: data-pictured, data-loading, data-refreshing, data-ready or data-failed. A morph takes
// these attributes away, because the server does not send them; that is how a chart is seen to need fresh figures under the same URL.

const BOX = ".chart-plot[data-chart-src]";
const TOOLTIP = "chart-tooltip";
const SECONDS_TO_LOAD = 30;
// A chart is drawn when it comes so near to what is seen: drawing all at once keeps a phone busy for half a second.
const NEAR = "400px";
const STATES = ["pictured", "loading", "refreshing", "ready", "failed"];
// A mouse that moves, a finger, a key, a wheel.
const SIGNS = ["pointermove", "pointerdown", "keydown", "wheel"];

const charts = new Map();
const pageLoaded =
  document.readyState === "complete"
    ? Promise.resolve()
    : new Promise((resolve) => addEventListener("load", resolve, { once: true }));

const reader = new Promise((resolve) => {
  for (const sign of SIGNS) addEventListener(sign, resolve, { once: true, passive: true, capture: true });
});

let bundle;
let compiler;
let attempts = 0;

// Vega is three times as heavy as all the rest of a page, so it comes after the page.
function loadBundle() {
  bundle ??= pageLoaded
    .then(() => {
      startCompiler();
      const { chartsBundle: url, chartsShared: shared } = document.body.dataset;
      // The bundle and the compiler would ask for it only when they have come.
      document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href: shared }));
      // A module that failed to load fails for good under the same URL in some browsers.
      return import(attempts ? `${url}#${attempts}` : url);
    })
    .catch((error) => {
      bundle = undefined;
      attempts += 1;
      throw error;
    });
  return bundle;
}

// So that the first touch waits for no line: the browser fetches it when it has nothing else to do, and runs nothing of it.
function fetchBundle() {
  if (navigator.connection?.saveData) return;
  const { chartsBundle, chartsShared, chartsCompiler } = document.body.dataset;
  for (const href of [chartsBundle, chartsShared, chartsCompiler]) {
    document.head.append(Object.assign(document.createElement("link"), { rel: "prefetch", href }));
  }
}

// From a spec to what Vega runs takes as long as drawing it, so a worker does that, and the page stays free for its reader.
function startCompiler() {
  if (!compiler) {
    compiler = new Worker(document.body.dataset.chartsCompiler, { type: "module" });
    compiler.addEventListener("error", () => (compiler = undefined), { once: true });
  }
  return compiler;
}

function dataflowOf(spec) {
  const { port1, port2 } = new MessageChannel();
  const answered = new AbortController();
  const worker = startCompiler();
  return new Promise((resolve, reject) => {
    worker.addEventListener("error", () => reject(new Error("The compiler did not load.")), { signal: answered.signal });
    port1.onmessage = ({ data: { dataflow, error } }) => (dataflow ? resolve(dataflow) : reject(new Error(error)));
    worker.postMessage(spec, [port2]);
  }).finally(() => {
    answered.abort();
    port1.close();
  });
}

async function fetchText(url, signal) {
  const limit = AbortSignal.timeout(SECONDS_TO_LOAD * 1000);
  const response = await fetch(url, {
    headers: { Accept: "application/json" },
    signal: AbortSignal.any([signal, limit]),
  });
  if (!response.ok) throw new Error(`${response.status} for ${url}`);
  return response.text();
}

// Charts are drawn one after the other, and each step is a task of its own, so that nobody who types or clicks meanwhile waits.
const breath = () => globalThis.scheduler?.yield?.() ?? new Promise((resolve) => setTimeout(resolve));
let turn = Promise.resolve();

function inTurn(work) {
  const mine = turn.then(breath).then(work);
  turn = mine.catch(() => {});
  return mine;
}

class Chart {
  constructor(box) {
    this.box = box;
    this.drawn = box.dataset.chartSrc;
    this.isPictured = box.querySelector("svg") !== null;
    this.sizes = new ResizeObserver(() => this.fit());
    this.sizes.observe(box);
    this.nearness = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.come(), {
      rootMargin: NEAR,
    });
    this.nearness.observe(box);
  }

  come() {
    this.nearness.disconnect();
    this.isNear = true;
    this.sync();
  }

  // Bring the chart in step with its box.
  sync() {
    const src = this.box.dataset.chartSrc;
    if (src !== this.drawn) {
      // What was drawn is of other figures than the new key and table.
      this.drawn = src;
      this.isPictured = false;
      this.clear();
      this.box.replaceChildren();
    }
    if (!this.isNear) return;
    if (src !== this.src) this.load(src);
    else if (!this.box.hasAttribute(`data-${this.state}`)) {
      if (this.state === "loading" || this.state === "refreshing") this.show(this.state);
      else this.load(src);
    }
  }

  async load(src) {
    this.request?.abort();
    const { signal } = (this.request = new AbortController());
    // Under the same URL the figures are nearly the same, so the chart stays as bright as it is.
    const state = src === this.src && this.view ? "refreshing" : "loading";
    this.src = src;
    if (this.isPictured) {
      // What is drawn anew has other figures than the picture.
      this.isPictured = false;
      this.show("pictured");
      await reader;
      if (signal.aborted) return;
    }
    this.show(state);
    try {
      const [text, vega] = await Promise.all([this.sent() ?? fetchText(src, signal), loadBundle()]);
      if (signal.aborted) return;
      if (text !== this.text || !this.view) await inTurn(() => this.draw(JSON.parse(text), vega, signal));
      if (signal.aborted) return;
      this.text = text;
      this.show("ready");
    } catch (error) {
      if (signal.aborted) return;
      console.warn("A chart did not load:", error);
      this.fail();
    }
  }

  // Data that was sent with the page.
  sent() {
    const block = this.box.nextElementSibling;
    return block?.matches("script[type='application/json']") ? block.textContent : undefined;
  }

  async draw({ spec, ...words }, { View, expressionInterpreter }, signal) {
    if (signal.aborted) return;
    const dataflow = await dataflowOf({ ...spec, ...this.size() });
    const plot = document.createElement("div");
    // Takes the width of the box without ever giving it one, so that a narrower window can shrink it again.
    Object.assign(plot.style, { width: "0", minWidth: "100%", height: "0", overflow: "visible" });
    // The box speaks for the drawing.
    plot.setAttribute("aria-hidden", "true");
    const view = new View(dataflow, {
      container: plot,
      expr: expressionInterpreter,
      renderer: "svg",
    });
    view.tooltip((_, event, __, value) => (value ? showTooltip(words, value.i, event) : hideTooltip()));
    await breath();
    await view.runAsync();
    if (signal.aborted) {
      view.finalize();
      return;
    }
    this.clear();
    // Other modules ask the box where its buckets are.
    this.view = this.box.view = view;
    this.box.replaceChildren(plot);
    this.fit();
    this.box.dispatchEvent(new Event("drawn"));
  }

  size() {
    return { width: this.box.clientWidth || 600, height: this.box.clientHeight || 276 };
  }

  fit() {
    const { width, height } = this.size();
    const { view } = this;
    if (view && (view.width() !== width || view.height() !== height)) view.width(width).height(height).runAsync();
  }

  fail() {
    this.clear();
    const message = Object.assign(document.createElement("p"), { className: "chart-failed", role: "status" });
    const retry = Object.assign(document.createElement("button"), {
      type: "button",
      className: "button",
      textContent: "Try again",
    });
    retry.addEventListener("click", retryAll);
    message.append("This chart didn't load. The table below has the same figures. ", retry);
    this.box.replaceChildren(message);
    this.show("failed");
  }

  show(state) {
    this.state = state;
    for (const name of STATES) this.box.toggleAttribute(`data-${name}`, name === state);
    // An image may hold no button.
    this.box.setAttribute("role", state === "failed" ? "group" : "img");
  }

  clear() {
    hideTooltip();
    this.view?.finalize();
    this.view = this.box.view = undefined;
    this.text = undefined;
  }

  dispose() {
    this.request?.abort();
    this.sizes.disconnect();
    this.nearness.disconnect();
    this.clear();
  }
}

// What failed for one chart mostly failed for all.
function retryAll() {
  for (const chart of charts.values()) if (chart.state === "failed") chart.load(chart.src);
}

function tooltip() {
  let element = document.getElementById(TOOLTIP);
  if (!element) {
    element = document.createElement("div");
    element.id = TOOLTIP;
    element.hidden = true;
    element.setAttribute("aria-hidden", "true");
    document.body.append(element);
  }
  return element;
}

let shownTip;

function showTooltip(words, bucket, event) {
  const element = tooltip();
  const tip = words.tips[bucket];
  if (tip !== shownTip || element.hidden) element.replaceChildren(...tooltipContent(words, tip));
  shownTip = tip;
  element.hidden = false;
  const gap = 14;
  const { offsetWidth: width, offsetHeight: height } = element;
  const right = event.clientX + gap;
  const left = right + width > innerWidth - gap ? event.clientX - gap - width : right;
  const top = Math.min(event.clientY + gap, innerHeight - gap - height);
  element.style.left = `${Math.max(4, left)}px`;
  element.style.top = `${Math.max(4, top)}px`;
}

function hideTooltip() {
  const element = document.getElementById(TOOLTIP);
  if (element) element.hidden = true;
}

function tooltipContent(words, { title, values, total, previous }) {
  const heading = Object.assign(document.createElement("p"), { className: "tooltip-title", textContent: title });
  const table = document.createElement("table");
  words.rows.forEach(([name, slot], number) => {
    if (values[number] !== null) table.append(tooltipRow(name, values[number], slot));
  });
  if (total !== undefined) table.append(tooltipRow("Total", total, "", "total"));
  if (previous !== undefined) table.append(tooltipRow(words.previous, previous, "previous", "previous"));
  return [heading, table];
}

function tooltipRow(name, value, slot, kind = "") {
  const row = document.createElement("tr");
  row.className = kind;
  const mark = row.insertCell();
  if (slot) {
    mark.append(Object.assign(document.createElement("span"), { className: `swatch ${slot}` }));
  }
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = name;
  row.append(head);
  row.insertCell().textContent = value;
  return row;
}

function syncAll() {
  for (const [box, chart] of charts) {
    if (!box.isConnected || !box.matches(BOX)) {
      chart.dispose();
      charts.delete(box);
    }
  }
  for (const box of document.querySelectorAll(BOX)) {
    if (!charts.has(box)) charts.set(box, new Chart(box));
    charts.get(box).sync();
  }
}

// Swaps, morphs and Back all end in changes of the document; what charts and tooltip change themselves is not news.
new MutationObserver((records) => {
  const isNews = ({ type, target }) =>
    type === "attributes" || !(target instanceof Element && target.closest(`.chart-plot, #${TOOLTIP}`));
  if (records.some(isNews)) syncAll();
}).observe(document.documentElement, {
  childList: true,
  subtree: true,
  attributeFilter: ["data-chart-src", ...STATES.map((state) => `data-${state}`)],
});
addEventListener("scroll", hideTooltip, { passive: true, capture: true });
addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTooltip();
});
syncAll();
if (charts.size) pageLoaded.then(fetchBundle);
