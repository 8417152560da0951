// @ts-check
/** A study: read-outs of its charts, and keys for its buttons. */

import "../curves/chart_readings.js";
import "../ui/copy_buttons.js";
import { describe, onKey } from "../ui/shortcuts.js";

const forms = /** @type {HTMLFormElement[]} */ ([...document.querySelectorAll("form[data-study-key]")]);

onKey((key) => {
  const form = forms.find((one) => one.dataset.studyKey === key);
  form?.requestSubmit();
  return form !== undefined;
});

if (forms.length) {
  describe(
    "This study",
    forms.map((form) => [
      form.dataset.studyKey ?? "",
      (form.querySelector("button")?.textContent ?? "").trim().toLowerCase(),
    ]),
  );
}
