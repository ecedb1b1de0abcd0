// Buttons with data-copy="<id>" copy the text of that element, and say so.

const SECONDS_SAID = 2;

async function copy(source) {
  if (navigator.clipboard) return navigator.clipboard.writeText(source.textContent);
  // Browsers keep the clipboard from pages that come without TLS; what is selected can still be copied.
  getSelection().selectAllChildren(source);
  if (!document.execCommand("copy")) throw new Error("The browser refused to copy.");
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await copy(source);
    // A second click finds the word of the first one there.
    const label = (button.dataset.label ??= button.textContent);
    button.textContent = button.dataset.copied;
    setTimeout(() => (button.textContent = label), SECONDS_SAID * 1000);
  } catch {
    // It is selected now, for the reader's own keys.
    getSelection().selectAllChildren(source);
  }
});
