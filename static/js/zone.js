// Sends the reader's time zone to the server in a cookie, and reloads the page if it was rendered for another zone.

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const kept = `zone=${encodeURIComponent(zone)}`;
const cookies = () => document.cookie.split("; ");
const isKnown = () => cookies().includes(kept);
// Pages are in the server's zone for whom they know nothing of.
const isPlain = zone === document.documentElement.dataset.zone && !cookies().some((one) => one.startsWith("zone="));

if (zone && !isKnown() && !isPlain) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  // This file is /static/js/zone.js below the path that the server is at.
  const path = new URL("../..", import.meta.url).pathname.replace(/(.)\/$/, "$1");
  document.cookie = `${kept}; path=${path}; max-age=31536000; samesite=lax${secure}`;
  // A browser that keeps no cookies would ask for ever.
  if (isKnown()) location.reload();
}
