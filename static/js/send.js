// Ways to send runs: marks the one that the address names, and stays with it when a key is made.

function mark() {
  const links = [...document.querySelectorAll("#ways a")];
  const here = links.find((link) => link.hash === location.hash) ?? links[0];
  for (const link of links) {
    if (link === here) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  for (const form of document.querySelectorAll("#send-runs form[method=post]")) {
    form.action = new URL(location.hash, form.action);
  }
}

// A browser gives no focus by itself where the address names a part of the page.
addEventListener("load", () => document.getElementById("new-key")?.focus());
addEventListener("hashchange", mark);
document.addEventListener("htmx:after:swap", mark);
mark();
