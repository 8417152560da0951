// @ts-check
/** Parts of a page that the server renders, loaded again while the page is open. */

/**
 * Replace the contents of an element with a part of a page; they stay if there is none, or the network is away.
 * @param {HTMLElement} place
 * @param {string} address
 */
export async function loadFragment(place, address) {
  const answer = await fetch(address, { headers: { "X-Fragment": "1" } }).catch(() => null);
  if (answer?.status !== 200) return;
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  place.replaceChildren(...parsed.body.childNodes);
}
