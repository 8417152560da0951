/**
 * What this site answers as JSON. A server that is away for a moment is no fault of the page: whoever asks gets null and
 * decides when to ask again.
 */

/**
 * @param {string} address
 * @returns {Promise<any>} null if nothing came, or anything but a whole answer
 */
export async function answer(address) {
  try {
    const response = await fetch(address);
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}
