// @ts-check
/** “Alert me” on a run's page: switched in place. */

import { toast } from "../ui/toast.js";

document.addEventListener("submit", async (event) => {
  const form = event.target;
  const control = form instanceof HTMLFormElement ? form.closest("[data-alert-me]") : null;
  if (!(form instanceof HTMLFormElement) || !control) return;
  event.preventDefault();
  const data = new FormData(form);
  const response = await fetch(form.action, { method: "POST", body: data, headers: { "X-Fragment": "1" } }).catch(
    () => null,
  );
  if (response?.redirected) {
    // to the log-in page: the session has expired
    toast("Log in again.");
    return;
  }
  if (!response?.ok) {
    toast("The site did not respond. Try again.");
    return;
  }
  control.outerHTML = await response.text(); // rendered by this site's template, which escapes
  toast(
    data.get("on") === "1"
      ? "You get an alert when this run finishes, fails or collapses."
      : "No more alerts about this run.",
  );
  /** @type {HTMLElement|null} */ (document.querySelector("[data-alert-me] button"))?.focus();
});
