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

// What the form before this page did was read by then; what there is to do about it, or to try again, stays.
const SECONDS_SAID = 5;

function leave() {
  const said = toast().querySelector("p[data-said]");
  if (!said) return;
  if (toast().matches(":hover, :focus-within")) setTimeout(leave, SECONDS_SAID * 1000);
  else toast().replaceChildren();
}

setTimeout(leave, SECONDS_SAID * 1000);

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-dismiss]")) toast().replaceChildren();
});
