// @ts-check
/**
 * Sounds of the player: a tap for an action, two rising notes when the puzzle is solved, a low one where it was lost.
 * Off until the viewer turns them on; the browser remembers it.
 */

const KEY = "sound";
/** Notes in hertz, with the seconds at which they begin. @type {Record<"tap"|"solved"|"lost", Array<[number, number]>>} */
const NOTES = {
  tap: [[1100, 0]],
  solved: [
    [659, 0],
    [988, 0.12],
  ],
  lost: [[165, 0]],
};
const LENGTH = { tap: 0.05, solved: 0.5, lost: 0.35 };
const VOLUME = { tap: 0.03, solved: 0.12, lost: 0.12 };

export class Sound {
  /** @param {HTMLInputElement} toggle */
  constructor(toggle) {
    this.toggle = toggle;
    /** @type {AudioContext|null} */ this.context = null;
    toggle.checked = stored();
    toggle.addEventListener("change", () => {
      store(toggle.checked);
      this.play("tap");
    });
  }

  flip() {
    this.toggle.checked = !this.toggle.checked;
    this.toggle.dispatchEvent(new Event("change"));
  }

  /** Play a sound, if they are on. @param {"tap"|"solved"|"lost"} kind */
  play(kind) {
    if (!this.toggle.checked || !("AudioContext" in window)) return;
    this.context ??= new AudioContext();
    if (this.context.state === "suspended") void this.context.resume(); // until the first click or key on the page
    for (const [pitch, after] of NOTES[kind])
      note(this.context, pitch, this.context.currentTime + after, LENGTH[kind], VOLUME[kind]);
  }
}

/**
 * @param {AudioContext} context
 * @param {number} pitch hertz
 * @param {number} start seconds on the clock of the context
 * @param {number} length seconds until it has faded
 * @param {number} volume 0 to 1
 */
function note(context, pitch, start, length, volume) {
  const [tone, gain] = [context.createOscillator(), context.createGain()];
  tone.type = "triangle";
  tone.frequency.value = pitch;
  gain.gain.setValueAtTime(volume, start);
  gain.gain.exponentialRampToValueAtTime(0.0001, start + length);
  tone.connect(gain).connect(context.destination);
  tone.start(start);
  tone.stop(start + length);
}

function stored() {
  try {
    return localStorage.getItem(KEY) === "on";
  } catch {
    return false; // the browser stores nothing
  }
}

/** @param {boolean} on */
function store(on) {
  try {
    if (on) localStorage.setItem(KEY, "on");
    else localStorage.removeItem(KEY);
  } catch {
    // remembered until the page is left
  }
}
