// @ts-check
/** JSON from this site. A server that is temporarily unavailable gives null; callers decide when to retry. */

/**
 * @param {string} address
 * @returns {Promise<any>} null on a network error, an error status or invalid JSON
 */
export async function fetchJson(address) {
  try {
    const response = await fetch(address, { headers: { Accept: "application/json" } });
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}
