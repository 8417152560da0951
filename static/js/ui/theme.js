// Applies the light or dark theme before the first paint: loaded in the head, not as a module.
(function () {
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
    if (button) button.textContent = activeTheme() === "dark" ? "Light" : "Dark";
    document.dispatchEvent(new CustomEvent("themechange"));
  }
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest("[data-theme-toggle]")) return;
    root.dataset.theme = activeTheme() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch {
      // the choice lasts for this page only
    }
    announce();
  });
  dark.addEventListener("change", announce);
  document.addEventListener("DOMContentLoaded", announce);
})();
