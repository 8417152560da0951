// Applies the light or dark theme before the first paint: loaded in the head, not as a module.
(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let stored = null;
  try {
    stored = localStorage.getItem("theme");
  } catch {
    stored = null; // storage is disabled: the system's preference applies
  }
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  root.classList.add("js");

  function activeTheme() {
    return root.dataset.theme || (dark.matches ? "dark" : "light");
  }
  function announce() {
    const button = document.querySelector("[data-theme-toggle]");
    if (button) {
      button.textContent = activeTheme() === "dark" ? "Light theme" : "Dark theme";
      button.setAttribute("aria-label", `${button.textContent}: switch between light and dark`);
    }
    for (const choice of document.querySelectorAll("[data-theme-choice] input")) {
      if (choice instanceof HTMLInputElement) choice.checked = choice.value === (root.dataset.theme ?? "");
    }
    document.dispatchEvent(new CustomEvent("themechange"));
  }
  /** @param {string} theme "light", "dark", or "" for the system's preference */
  function choose(theme) {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    try {
      if (theme) localStorage.setItem("theme", theme);
      else localStorage.removeItem("theme");
    } catch {
      // the choice lasts for this page only
    }
    announce();
  }
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest("[data-theme-toggle]")) return;
    choose(activeTheme() === "dark" ? "light" : "dark");
  });
  document.addEventListener("change", (event) => {
    if (event.target instanceof HTMLInputElement && event.target.closest("[data-theme-choice]"))
      choose(event.target.value);
  });
  dark.addEventListener("change", announce);
  document.addEventListener("DOMContentLoaded", announce);
})();
