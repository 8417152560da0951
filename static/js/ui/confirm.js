// @ts-check
/**
 * Asks before a form is sent that removes something: `data-confirm` holds the question, `data-confirm-about` what it
 * means, `data-confirm-button` the word on the button. Without scripts, the form is sent at once.
 */

import { html } from "./dom.js";

/** @param {HTMLFormElement} form @param {HTMLElement | null} submitter */
function ask(form, submitter) {
  const word = form.dataset.confirmButton || submitter?.textContent?.trim() || "Continue";
  const yes = html("button", { class: "button danger", value: "yes" }, [word]);
  const dialog = /** @type {HTMLDialogElement} */ (
    html("dialog", { class: "dialog", "aria-labelledby": "confirm-title" }, [
      html("h2", { id: "confirm-title" }, [form.dataset.confirm ?? ""]),
      html("p", {}, [form.dataset.confirmAbout ?? "This cannot be undone."]),
      html("form", { method: "dialog", class: "buttons" }, [
        html("button", { class: "button", value: "" }, ["Keep it"]),
        yes,
      ]),
    ])
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (dialog.returnValue !== "yes") {
      submitter?.focus();
      return;
    }
    form.dataset.confirmed = "1";
    if (!form.isConnected) document.body.append(form); // its list was refreshed meanwhile; only forms of a page are sent
    form.requestSubmit(submitter);
  });
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener(
  "submit",
  (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || !form.dataset.confirm) return;
    if (form.dataset.confirmed) {
      delete form.dataset.confirmed;
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
    ask(form, event.submitter);
  },
  { capture: true },
);
