// Forms with data-try="<method>" of the API reference send their request to this server, and show its answer. A key stays in this page. The
// fields have no names, so that nothing of them is in an address, whatever happens to this script.

const SHOWN = 20_000;
// This file is /static/js/try.js below the path that the server is at.
const base = new URL("../..", import.meta.url);

function legible(text, type) {
  try {
    if (type.includes("json")) return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // It says that it is JSON, and is shown as it came.
  }
  return text;
}

async function answer(form) {
  const [path, key, body] = ["path", "key", "body"].map((name) => form.querySelector(`[data-${name}]`)?.value);
  const url = new URL(path.trim().replace(/^\/+/, ""), base);
  if (url.origin !== base.origin) throw new Error("Write a path of this server.");
  const headers = {};
  if (key) headers.Authorization = `Bearer ${key.trim()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(url, { method: form.dataset.try, headers, body, credentials: "omit" });
  const text = legible(await response.text(), response.headers.get("Content-Type") ?? "");
  const more = text.length > SHOWN ? `\n… ${text.length - SHOWN} more characters` : "";
  return [`${response.status} ${response.statusText}`.trim(), text.slice(0, SHOWN) + more];
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("[data-try]");
  if (!form) return;
  event.preventDefault();
  const [status, shown] = [form.querySelector("[data-status]"), form.querySelector("pre")];
  status.textContent = "Sending…";
  let text = "";
  try {
    [status.textContent, text] = await answer(form);
  } catch (error) {
    status.textContent = `Nothing came back: ${error.message}`;
  }
  shown.textContent = text;
  shown.hidden = text === "";
});

function fill(key) {
  for (const one of document.querySelectorAll("[data-try] [data-key]")) one.value = key;
}

document.addEventListener("input", ({ target }) => {
  if (target.matches("[data-try] [data-key]")) fill(target.value);
});

document.addEventListener("htmx:after:swap", () => {
  const made = document.querySelector("[data-made]");
  if (made) fill(made.value);
  made?.remove();
});

for (const one of document.querySelectorAll("[data-try] [type=submit]")) one.disabled = false;
