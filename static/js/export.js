// Links with data-export, the number of runs of their file, save it while the page says how far it is: the server sends it in frames, each
// with how many runs the file has by then.

const FRAMES = "application/vnd.runtally.frames";
const HEAD_BYTES = 8;
// A larger file is the browser's own download, which needs no room for all of it before it is saved.
const MOST_RUNS = 1_000_000;

const box = document.getElementById("export");
const part = (selector) => box.querySelector(selector);
const number = (value) => value.toLocaleString("en");

let running;

function size(bytes) {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function joined(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

// Takes the frames off. The last one is empty: without it the file broke off.
function unframed(onRuns) {
  let rest = new Uint8Array();
  let isWhole = false;
  return new TransformStream({
    transform(chunk, controller) {
      rest = joined(rest, chunk);
      while (rest.length >= HEAD_BYTES) {
        const head = new DataView(rest.buffer, rest.byteOffset);
        const end = HEAD_BYTES + head.getUint32(4);
        if (rest.length < end) return;
        isWhole = end === HEAD_BYTES;
        if (!isWhole) controller.enqueue(rest.slice(HEAD_BYTES, end));
        onRuns(head.getUint32(0), end - HEAD_BYTES);
        rest = rest.subarray(end);
      }
    },
    flush() {
      if (!isWhole) throw new Error("The file broke off.");
    },
  });
}

function show(said, { isOver, link }) {
  box.hidden = false;
  part("[data-slot='said']").textContent = said;
  part("progress").hidden = part("[data-slot='so-far']").hidden = isOver;
  part("[data-export-again]").hidden = !link;
  part("[data-export-again]").onclick = () => save(link);
  part("[data-export-end]").textContent = isOver ? "Dismiss" : "Cancel";
}

function download(blob, name) {
  const url = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  // The browser reads it once the click is handled.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

async function save(link) {
  const name = `runs.${new URL(link.href).pathname.split(".").pop()}`;
  const expected = Number(link.dataset.export);
  let runs = 0;
  let bytes = 0;
  const tell = (runsNow, more) => {
    runs = runsNow;
    bytes += more;
    part("progress").max = Math.max(expected, runs, 1);
    part("progress").value = runs;
    part("[data-slot='so-far']").textContent = `${number(runs)} of about ${number(expected)} runs · ${size(bytes)}`;
  };
  running = new AbortController();
  show(`Exporting ${name}`, { isOver: false });
  tell(0, 0);
  try {
    const response = await fetch(link.href, { headers: { Accept: FRAMES }, signal: running.signal });
    if (!response.ok) throw new Error(`${response.status} for ${link.href}`);
    const blob = await new Response(response.body.pipeThrough(unframed(tell))).blob();
    download(blob, name);
    show(`${name} is saved: ${number(runs)} ${runs === 1 ? "run" : "runs"}, ${size(bytes)}.`, { isOver: true });
  } catch (error) {
    if (running.signal.aborted) {
      show(`The export of ${name} is cancelled; nothing was saved.`, { isOver: true });
    } else {
      console.warn("An export broke off:", error);
      show(`The export broke off after ${number(runs)} runs; nothing was saved.`, { isOver: true, link });
    }
  }
  running = undefined;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-export]");
  const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (!link || !isPlain || running || Number(link.dataset.export) > MOST_RUNS) return;
  event.preventDefault();
  save(link);
});

part("[data-export-end]").addEventListener("click", () => {
  if (running) running.abort();
  else box.hidden = true;
});

// Another page would end it.
addEventListener("beforeunload", (event) => running && event.preventDefault());
