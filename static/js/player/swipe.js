// @ts-check
/** Horizontal swipes on a touch screen. */

const MIN_DISTANCE = 40; // pixels
const MAX_SLOPE = 0.6; // steeper gestures scroll the page
const MAX_MS = 700;
/** Elements with their own use of horizontal gestures. */
const OWN_GESTURES = "input, select, pre, textarea, .tabs-turns";

/**
 * Direction of a gesture: 1 for a swipe to the left, which shows the next thing, −1 to the right, 0 for anything else.
 * @param {number} across pixels to the right
 * @param {number} down pixels
 * @param {number} duration milliseconds
 * @returns {1|-1|0}
 */
export function swipeWay(across, down, duration) {
  if (duration > MAX_MS || Math.abs(across) < MIN_DISTANCE || Math.abs(down) > MAX_SLOPE * Math.abs(across)) return 0;
  return across < 0 ? 1 : -1;
}

/**
 * @param {HTMLElement} root
 * @param {(way: 1|-1) => void} onSwipe
 */
export function watchSwipes(root, onSwipe) {
  /** @type {{x: number, y: number, time: number}|null} */ let start = null;
  root.addEventListener(
    "touchstart",
    (event) => {
      const target = /** @type {Element} */ (event.target);
      const [touch] = event.touches;
      start =
        event.touches.length === 1 && !target.closest(OWN_GESTURES)
          ? { x: touch.clientX, y: touch.clientY, time: event.timeStamp }
          : null;
    },
    { passive: true },
  );
  root.addEventListener(
    "touchend",
    (event) => {
      const [touch] = event.changedTouches;
      const way =
        start && touch ? swipeWay(touch.clientX - start.x, touch.clientY - start.y, event.timeStamp - start.time) : 0;
      start = null;
      if (way) onSwipe(way);
    },
    { passive: true },
  );
}
