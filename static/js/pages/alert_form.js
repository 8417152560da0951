// @ts-check
/** The form of an alert rule: shows only the questions that the chosen events, runs and channel raise. */

const form = document.querySelector("[data-rule]");

function fold() {
  if (!(form instanceof HTMLFormElement)) return;
  const data = new FormData(form);
  const chosen = new Set([...data.getAll("events"), data.get("scope"), data.get("channel")].map(String));
  for (const part of form.querySelectorAll("[data-for]")) {
    const wanted = (part.getAttribute("data-for") ?? "").split(" ").some((word) => chosen.has(word));
    const wrong = part.querySelector(".bad") !== null;
    /** @type {HTMLElement} */ (part).hidden = !wanted && !wrong;
  }
}

form?.addEventListener("change", fold);
fold();
const wrong = form?.querySelector("[aria-invalid=true]");
if (wrong instanceof HTMLElement) wrong.focus();
