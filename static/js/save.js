// Links with data-save="png" save the picture that they lead to as a PNG, in the colours of the page.

const SCALE = 2;

function theme() {
  const { theme } = document.documentElement.dataset;
  if (theme !== "auto") return theme;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

async function png(url) {
  const source = new URL(url);
  source.searchParams.set("theme", theme());
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width * SCALE;
  canvas.height = image.height * SCALE;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

document.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-save='png']");
  if (!link) return;
  event.preventDefault();
  const url = URL.createObjectURL(await png(link.href));
  const download = new URL(link.href).pathname.split("/").pop().replace(/svg$/, "png");
  Object.assign(document.createElement("a"), { href: url, download }).click();
  URL.revokeObjectURL(url);
});
