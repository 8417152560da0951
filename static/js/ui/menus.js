// @ts-check
/** Closes menus (`details.menu`) on Escape, on a click elsewhere and when they lose the focus. */

/** @param {Element | null} except stays open */
function closeAll(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== except) menu.removeAttribute("open");
}

/** @param {EventTarget | null} target */
const menuOf = (target) => (target instanceof Element ? target.closest("details.menu") : null);

document.addEventListener("click", (event) => closeAll(menuOf(event.target)));
document.addEventListener("focusin", (event) => closeAll(menuOf(event.target)));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = document.querySelector("details.menu[open]");
  if (!menu) return;
  closeAll(null);
  const summary = menu.querySelector("summary");
  if (summary instanceof HTMLElement) summary.focus();
});
