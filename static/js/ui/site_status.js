// @ts-check
/** The line about programs of the site that are away: renewed while there is one, so that it goes away by itself. */

const INTERVAL_MS = 15_000;

async function renew() {
  const line = document.querySelector("[data-site-status]");
  if (!(line instanceof HTMLElement)) return;
  const response = await fetch(line.dataset.siteStatus ?? "").catch(() => null);
  if (response?.status === 204) {
    line.remove();
    return;
  }
  // rendered by this site's template, which escapes; the log-in page if the session has ended
  if (response?.ok && !response.redirected) line.outerHTML = await response.text();
  window.setTimeout(renew, INTERVAL_MS);
}

if (document.querySelector("[data-site-status]")) window.setTimeout(renew, INTERVAL_MS);
