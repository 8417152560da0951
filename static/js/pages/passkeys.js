// @ts-check
/**
 * Forms that create or use a passkey: `data-passkey="create"` or `"use"`. The browser's answer is posted in the field
 * `credential`. The options are in the page (`#passkey-options`), or come from the address of the form.
 */

import { fetchJson } from "../ui/fetch_json.js";
import { need } from "../ui/dom.js";
import { toast } from "../ui/toast.js";

/**
 * @typedef {{publicKey: any}} Options
 * @typedef {{creation_options?: Options, request_options?: Options}} Data
 */

const UNSUPPORTED = "This browser cannot use passkeys here. They need HTTPS, or localhost.";
const UNAVAILABLE = "The site did not respond. Wait a minute, then try again.";
const REFUSED = "The passkey was not used: it was cancelled, is not known here, or took too long.";

/** @param {HTMLFormElement} form @returns {Promise<Data|null>} */
async function data(form) {
  const own = document.querySelector("#passkey-options");
  return own ? JSON.parse(own.textContent ?? "") : await fetchJson(form.action);
}

/** A passkey can be found without a name only if the device keeps it. @param {Options} options @param {boolean} kept */
function creation(options, kept) {
  const parsed = PublicKeyCredential.parseCreationOptionsFromJSON(options.publicKey);
  const wanted = kept ? "required" : "discouraged";
  const selection = { ...parsed.authenticatorSelection, residentKey: wanted, requireResidentKey: kept };
  if (kept) selection.userVerification = "required";
  return { publicKey: { ...parsed, authenticatorSelection: /** @type {any} */ (selection) } };
}

/** @param {HTMLFormElement} form @param {Data} found @returns {Promise<Credential|null>} */
async function credential(form, found) {
  if (form.dataset.passkey === "create") {
    const kept = form.querySelector("[name=passwordless]");
    const options = creation(
      /** @type {Options} */ (found.creation_options),
      kept instanceof HTMLInputElement && kept.checked,
    );
    return navigator.credentials.create(options);
  }
  const options = /** @type {Options} */ (found.request_options).publicKey;
  return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
}

/** @param {HTMLFormElement} form */
async function submit(form) {
  if (!window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
    toast(UNSUPPORTED);
    return;
  }
  const found = await data(form);
  if (!found) {
    toast(UNAVAILABLE);
    return;
  }
  try {
    const answer = /** @type {PublicKeyCredential} */ (await credential(form, found));
    const field = /** @type {HTMLInputElement} */ (need(form, "[name=credential]"));
    field.value = JSON.stringify(answer.toJSON());
    form.submit();
  } catch {
    toast(REFUSED);
  }
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(/** @type {HTMLFormElement} */ (form));
  });
}
