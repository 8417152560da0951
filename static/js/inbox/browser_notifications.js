// @ts-check
/** Notifications of the browser, while a page of the site is open: switch, and showing them. */

import { setText } from "../ui/dom.js";

/**
 * @typedef {{kind: string, slug: string, title: string, run: string, message: string, href: string, at: number}} Entry
 */

const KEY = "echoscope.browserNotifications";

/** Whether the user switched them on in this browser, and the browser allows them. */
export function areOn() {
  try {
    return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(KEY) === "on";
  } catch {
    return false;
  }
}

/** Show an entry; a click opens it. @param {Entry} entry */
export function notify(entry) {
  try {
    const shown = new Notification(entry.run ? `${entry.title}: ${entry.run}` : entry.title, {
      body: entry.message,
      tag: `echoscope-${entry.slug}`,
      icon: "/static/img/icon.svg",
    });
    shown.addEventListener("click", () => {
      window.focus();
      location.assign(entry.href);
      shown.close();
    });
  } catch {
    /* browsers of phones show them to installed pages only */
  }
}

/** @param {HTMLElement} panel */
function bind(panel) {
  const words = panel.querySelector("[data-state-words]");
  const button = panel.querySelector("[data-switch]");
  if (!words || !(button instanceof HTMLButtonElement)) return;
  const show = () => {
    const state = "Notification" in window ? (areOn() ? "on" : Notification.permission) : "missing";
    setText(
      words,
      /** @type {Record<string, string>} */ ({
        on: "On in this browser.",
        missing: "This browser has no notifications, or this address is not secure (https).",
        denied: "Blocked in this browser: allow notifications for this site in its settings, then come back.",
      })[state] ?? "Off in this browser.",
    );
    setText(button, state === "on" ? "Turn off" : "Turn on");
    button.hidden = state === "missing" || state === "denied";
  };
  button.addEventListener("click", async () => {
    const on = !areOn() && (await Notification.requestPermission()) === "granted";
    try {
      localStorage.setItem(KEY, on ? "on" : "off");
    } catch {
      /* storage is forbidden: they stay off */
    }
    show();
  });
  show();
}

const panel = document.querySelector("[data-browser-notifications]");
if (panel instanceof HTMLElement) bind(panel);
