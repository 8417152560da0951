// @ts-check
/** Form of an alert rule: shows only the fields that apply to the chosen events, runs and channel. */

const form = document.querySelector("[data-rule]");

/** An error of a field that does not apply is none, so such a field is hidden with it. */
function fold() {
  if (!(form instanceof HTMLFormElement)) return;
  const data = new FormData(form);
  const chosen = new Set([...data.getAll("events"), data.get("scope"), data.get("channel")].map(String));
  for (const part of form.querySelectorAll("[data-for]")) {
    const requested = (part.getAttribute("data-for") ?? "").split(" ").some((word) => chosen.has(word));
    /** @type {HTMLElement} */ (part).hidden = !requested;
  }
  form.dataset.folded = "";
}

form?.addEventListener("change", fold);
fold();
const wrong = form?.querySelector("[aria-invalid=true]");
if (wrong instanceof HTMLElement) wrong.focus();
