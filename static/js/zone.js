// Tells the server in a cookie which time zone its reader is in, and asks for the page again where it was made for another one.

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const kept = `zone=${encodeURIComponent(zone)}`;
const cookies = () => document.cookie.split("; ");
const isKnown = () => cookies().includes(kept);
// Pages are in UTC for whom they know nothing of.
const isPlain = zone === "UTC" && !cookies().some((one) => one.startsWith("zone="));

if (zone && !isKnown() && !isPlain) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${kept}; path=/; max-age=31536000; samesite=lax${secure}`;
  // A browser that keeps no cookies would ask for ever.
  if (isKnown()) location.reload();
}
