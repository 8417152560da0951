// @ts-check
/** The line that explains the live page to first visitors, until it is dismissed in this browser. */

const YEAR = 365 * 24 * 3600; // seconds

document.querySelector("[data-intro-close]")?.addEventListener("click", () => {
  document.cookie = `intro_seen=1; path=/; max-age=${YEAR}; samesite=lax`; // INTRO_COOKIE of webapp/pages/runs/live_layout.py
  document.querySelector("[data-intro]")?.remove();
});
