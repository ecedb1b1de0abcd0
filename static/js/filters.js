// A link that changes the filter changes its form too. A morph keeps what stands in the fields, as it should while somebody types; after
// anything else the fields go back to what the server says.

document.addEventListener("htmx:after:swap", ({ detail }) => {
  const form = document.getElementById("runs-filter");
  if (form && !form.contains(detail.ctx?.sourceElement)) form.reset();
});
