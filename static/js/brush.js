// A click on a bucket of a chart narrows the page to its time, a drag over several to theirs: where their rows in the table lead.

const BOX = ".chart-plot[data-chart-narrows]:not([data-failed])";
const LEAST_PIXELS = 6;

let drag;

function begin(event) {
  cancel();
  const box = event.target.closest?.(BOX);
  if (!box || event.button !== 0) return;
  drag = { box, from: event.clientX, isTouch: event.pointerType === "touch" };
  // Dragging selects a time range, not the text around the chart.
  if (!drag.isTouch) event.preventDefault();
}

function move(event) {
  // A finger that moves scrolls the page.
  if (!drag?.box.view || drag.isTouch || Math.abs(event.clientX - drag.from) < LEAST_PIXELS) return;
  drag.mark ??= drag.box.appendChild(Object.assign(document.createElement("div"), { className: "brush" }));
  const [first, last] = chosen(event);
  const { left, bucket } = scale();
  drag.mark.style.left = `${left - drag.box.getBoundingClientRect().left + first * bucket}px`;
  drag.mark.style.width = `${(last - first + 1) * bucket}px`;
}

function finish(event) {
  if (!drag) return;
  const { box } = drag;
  // The first touch of a page is what makes the chart answer.
  if (!box.view) {
    box.addEventListener("drawn", () => finish(event), { once: true });
    return;
  }
  const [first, last] = chosen(event);
  const links = box.closest("figure").querySelectorAll("tbody th a");
  const isInside = inside(event);
  const isDragged = Boolean(drag.mark);
  cancel();
  if (!links[first] || !links[last] || !(isInside || isDragged)) return;
  const url = new URL(links[first].href);
  url.searchParams.set("until", new URL(links[last].href).searchParams.get("until"));
  const page = box.closest("[id='report'], [id='overview']");
  htmx.ajax("GET", url.pathname + url.search, { source: page, target: page, swap: "outerMorph", push: "true" });
}

function cancel() {
  drag?.mark?.remove();
  drag = undefined;
}

// Where the first bucket begins on the screen, and how wide each is.
function scale() {
  const { view } = drag.box;
  const [start, end] = view.scale("x").range();
  const [from, until] = view.scale("x").domain();
  const left = drag.box.querySelector("svg").getBoundingClientRect().left + view.origin()[0] + start;
  return { left, bucket: (end - start) / (until - from), buckets: until - from };
}

function chosen(event) {
  const { left, bucket, buckets } = scale();
  const at = (x) => Math.min(buckets - 1, Math.max(0, Math.floor((x - left) / bucket)));
  const ends = [at(drag.from), at(event.clientX)];
  return [Math.min(...ends), Math.max(...ends)];
}

function inside({ clientX }) {
  const { left, bucket, buckets } = scale();
  return clientX >= left && clientX < left + bucket * buckets;
}

document.addEventListener("pointerdown", begin);
document.addEventListener("pointermove", move);
document.addEventListener("pointerup", finish);
document.addEventListener("pointercancel", cancel);
document.addEventListener("keydown", (event) => event.key === "Escape" && cancel());
