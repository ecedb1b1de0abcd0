// The button's answer says which theme it is now; the document takes it without being loaded again.

document.addEventListener("htmx:after:swap", () => {
  const now = document.getElementById("theme")?.dataset.themeNow;
  if (now) document.documentElement.dataset.theme = now;
});
