// @ts-check
/** Copying to the clipboard. */

import { toast } from "./toast.js";

/** Copy text and confirm with a toast. @param {string} text @param {string} message toast on success */
export async function copy(text, message) {
  try {
    await navigator.clipboard.writeText(text);
    toast(message);
  } catch {
    window.prompt("Copy this:", text); // the clipboard is available to secure pages only
  }
}
