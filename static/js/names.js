// A name that is cut off says in its title what it is in whole.

document.addEventListener("pointerover", (event) => {
  const name = event.target.closest?.("bdi");
  if (name && (name.scrollHeight > name.clientHeight || name.scrollWidth > name.clientWidth)) name.title = name.textContent;
});
