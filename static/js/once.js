// A form on its way is not sent again: two clicks while a slow server answers would make two things. Those of htmx say it with hx-sync.

// Whoever stopped the browser can then send it again.
const SECONDS = 10;

let sentAt = new WeakMap();

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
  if (event.timeStamp - (sentAt.get(form) ?? -Infinity) < SECONDS * 1000) event.preventDefault();
  else sentAt.set(form, event.timeStamp);
});

// Back shows the page again as it was.
addEventListener("pageshow", () => (sentAt = new WeakMap()));
