// Keys: [ and ] change the range, g and a letter goes to a page, j and k go through the runs, ? lists them.

const SECONDS_BETWEEN = 1;

let goPressedAt = -Infinity;

function moveRange(step) {
  const ranges = [...document.querySelectorAll(".segmented-range a")];
  const chosen = ranges.findIndex((link) => link.hasAttribute("aria-current"));
  const link = ranges[chosen + step];
  link?.focus();
  link?.click();
}

function showKeys() {
  const dialog = document.getElementById("keys");
  if (!dialog.open) dialog.showModal();
}

function moveRow(step) {
  const rows = [...document.querySelectorAll(".runs tbody th a")];
  if (!rows.length) return;
  const now = rows.indexOf(document.activeElement);
  rows[Math.min(Math.max(now + step, 0), rows.length - 1)].focus();
}

const PLACES = { o: "go-overview", r: "go-runs", e: "go-experiments", p: "go-prices" };

const ACTIONS = {
  "[": () => moveRange(-1),
  "]": () => moveRange(1),
  "?": showKeys,
  j: () => moveRow(1),
  k: () => moveRow(-1),
};

document.addEventListener("keydown", (event) => {
  // Some keyboards have the brackets on AltGr, which also counts as Ctrl.
  const isCommand = (event.ctrlKey && !event.getModifierState("AltGraph")) || event.metaKey;
  if (isCommand || event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "g") {
    goPressedAt = event.timeStamp;
    return;
  }
  const isSecond = event.timeStamp - goPressedAt < SECONDS_BETWEEN * 1000;
  goPressedAt = -Infinity;
  if (isSecond && event.key in PLACES) document.getElementById(PLACES[event.key])?.click();
  else ACTIONS[event.key]?.();
});

// A layer over the page closes with Escape, which returns the focus to its button, or with a click outside of it.
document.addEventListener("keydown", (event) => {
  const open = event.key === "Escape" && event.target.closest(".menu[open]");
  if (!open) return;
  open.open = false;
  open.querySelector("summary").focus();
});

// A menu that the server fills asks for its list when it is opened.
document.addEventListener(
  "toggle",
  ({ target }) => {
    if (target.matches(".menu[open][hx-get]")) target.dispatchEvent(new Event("opened"));
  },
  true,
);

document.addEventListener("submit", ({ target }) => {
  if (target.closest(".menu[data-closes]")) target.closest(".menu").open = false;
});

// A morph leaves it closed, so that it opens again for what is wrong in it.
document.addEventListener("htmx:after:swap", () => {
  for (const wrong of document.querySelectorAll(".menu[data-closes] .field-error")) wrong.closest(".menu").open = true;
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-show-keys]")) showKeys();
  for (const open of document.querySelectorAll(".menu[open]")) {
    // A morph leaves it open, so that a link closes the menu that it is in.
    if (open.contains(event.target) && !event.target.closest(".menu-list a")) continue;
    // What is hidden has no focus, and the next Tab would begin at the top of the page.
    if (open.contains(document.activeElement)) open.querySelector("summary").focus();
    open.open = false;
  }
});

// Nor has what a swap takes away, such as the link that removes a filter.
let focused = document.body;
document.addEventListener("htmx:before:swap", () => (focused = document.activeElement));
document.addEventListener("htmx:after:swap", () => {
  if (!focused.isConnected && document.activeElement === document.body) {
    document.getElementById("main").focus({ preventScroll: true });
  }
});
