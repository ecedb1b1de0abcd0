// Live mode: while it is on and somebody can see it, the page is asked for again and morphed into its new state.

const SECONDS = 10;

function refresh() {
  const live = document.querySelector("[data-live]");
  // Who is about to choose a time, or rows to compare, must not have it changed underneath.
  if (live && !document.hidden && !document.querySelector(".menu[open], main tbody :checked")) live.dispatchEvent(new Event("refresh"));
}

setInterval(refresh, SECONDS * 1000);
document.addEventListener("visibilitychange", refresh);
