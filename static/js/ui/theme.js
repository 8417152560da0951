// Light or dark, before the first paint: loaded in the head, not as a module. Everything else about colours is CSS.
(function () {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let stored = null;
  try {
    stored = localStorage.getItem("theme");
  } catch {
    stored = null; // storage is switched off: the system's choice holds
  }
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  root.classList.add("js");

  function shown() {
    return root.dataset.theme || (dark.matches ? "dark" : "light");
  }
  function told() {
    const button = document.querySelector("[data-theme-toggle]");
    if (button) button.textContent = shown() === "dark" ? "Light" : "Dark";
    document.dispatchEvent(new CustomEvent("themechange"));
  }
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest("[data-theme-toggle]")) return;
    root.dataset.theme = shown() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch {
      // not kept beyond this page
    }
    told();
  });
  dark.addEventListener("change", told);
  document.addEventListener("DOMContentLoaded", told);
})();
