// @ts-check
/** A study: read-outs of its charts, and keys for its buttons. */

import "../ui/copy_buttons.js";
import { readings } from "../curves/chart_readings.js";
import { describe, onKey } from "../ui/shortcuts.js";

readings(document);
document.addEventListener("htmx:afterSwap", () => {
  const results = document.getElementById("study-results");
  if (results) readings(results);
});

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
