// What to say when the server can't be reached; what it says itself comes as HTML into the same place.

function unreachable(link) {
  const content = document.getElementById("unreachable").content.cloneNode(true);
  const asOf = document.querySelector("[data-as-of]")?.textContent ?? "earlier";
  content.querySelector('[data-slot="as-of"]').textContent = asOf;
  content.querySelector("[data-retry]").addEventListener("click", () => link.click());
  return content;
}

const toast = () => document.getElementById("toast");

document.addEventListener("htmx:error", ({ detail }) => {
  const source = detail.ctx?.sourceElement;
  if (source?.matches("a")) toast().replaceChildren(unreachable(source));
});

document.addEventListener("htmx:after:swap", ({ detail }) => {
  if (detail.ctx.target !== "#toast") toast().replaceChildren();
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-dismiss]")) toast().replaceChildren();
});

// What was done needs no click to go away; it stays while the pointer or the focus is on it, and errors stay.
const SECONDS = 6;

function fade() {
  if (!toast()?.querySelector("[data-fades]")) return;
  if (toast().matches(":hover, :focus-within")) setTimeout(fade, 1000);
  else toast().replaceChildren();
}

if (document.querySelector("#toast [data-fades]")) setTimeout(fade, SECONDS * 1000);
