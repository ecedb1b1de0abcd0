// The command palette: / or Ctrl+K opens it, the arrows choose, Enter goes there. Its list comes from the server as it is typed.

const dialog = () => document.getElementById("palette");
const field = () => document.getElementById("palette-field");
const links = () => [...dialog().querySelectorAll("#find a")];

function show() {
  if (!dialog() || dialog().open) return;
  dialog().showModal();
  field().select();
  // What is there before anything is typed.
  field().dispatchEvent(new Event("input", { bubbles: true }));
}

function move(step) {
  const all = links();
  if (!all.length) return;
  const now = all.indexOf(document.activeElement);
  const next = now + step;
  if (next < 0) field().focus();
  else all[Math.min(next, all.length - 1)].focus();
}

document.addEventListener("keydown", (event) => {
  const isOpen = dialog()?.open;
  if ((event.ctrlKey || event.metaKey) && event.key === "k") {
    event.preventDefault();
    show();
  } else if (event.key === "/" && !isOpen && !event.target.closest("input, textarea, select, dialog")) {
    event.preventDefault();
    show();
  } else if (isOpen && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  } else if (isOpen && event.key === "Enter" && event.target === field()) {
    event.preventDefault();
    links()[0]?.click();
  }
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-show-palette]")) {
    event.preventDefault();
    show();
  } else if (event.target === dialog() || event.target.closest("#palette a")) {
    // A click outside it, or on a result, which may lead to the same page.
    dialog().close();
    const button = event.target.closest("#palette a[href^='#']")?.hash;
    if (button) {
      event.preventDefault();
      document.querySelector(button).click();
    }
  }
});
