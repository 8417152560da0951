// @ts-check
/**
 * Images that the policy observed: next to the state of a turn, in place of a board that says nothing, and enlarged in a
 * dialog. Their sizes are in the journal, so nothing moves when they arrive.
 */

import { html } from "../ui/dom.js";

/** @typedef {import("../types.js").Turn} Turn */
/** @typedef {import("../types.js").Board} Board */
/** @typedef {import("../types.js").ObservationImage} ObservationImage */

/** Width and height that an image may take next to a state; as in webapp/trajectories/observation_images.py. */
const SHOWN_BOX = [480, 260];
/** Images whose sides are shorter, such as frames of games, are shown at a whole multiple of their size. */
const MIN_SHOWN_SIDE = 160;

/**
 * @param {number} width pixels of the image
 * @param {number} height
 * @returns {[number, number]} width and height at which it is shown
 */
export function shownSize(width, height) {
  const factor =
    Math.max(width, height) < MIN_SHOWN_SIDE
      ? Math.max(1, Math.min(Math.floor(SHOWN_BOX[0] / width), Math.floor(SHOWN_BOX[1] / height)))
      : Math.min(1, SHOWN_BOX[0] / width, SHOWN_BOX[1] / height);
  return [Math.max(1, Math.round(width * factor)), Math.max(1, Math.round(height * factor))];
}

/**
 * Address of a trajectory's images, up to their hash. The stage of a live run shows one trajectory after another.
 * @param {HTMLElement} root of the player
 * @param {import("../types.js").Trajectory|null} trajectory
 */
export function imagesAddress(root, trajectory) {
  return root.dataset.images ?? `/t/${trajectory?.slug}/images/`;
}

/**
 * The images of a turn, with the markup of templates/trajectories/_images.html.
 * @param {Turn} turn
 * @param {string} address where the images are, up to their hash
 * @returns {HTMLElement[]} nothing without any
 */
export function renderImages(turn, address) {
  const images = turn.images ?? [];
  if (!images.length) return [];
  return [
    html(
      "div",
      { class: "turn-images" },
      images.map((image, index) => {
        const [width, height] = shownSize(image.width, image.height);
        return link(image, address, words(turn, index), { width, height, loading: "lazy" });
      }),
    ),
  ];
}

/**
 * Show the first image of a turn in place of its board, if that is an empty text: a recorder has no other board to
 * send.
 * @param {HTMLElement} host of the board, which shows the text
 * @param {Board} board
 * @param {Turn|undefined} turn
 * @param {string} address
 * @returns {boolean} whether it is shown
 */
export function showOnBoard(host, board, turn, address) {
  const image = turn?.images?.[0];
  if (!turn || !image || board.kind !== "text" || board.text.trim()) return false;
  host.replaceChildren(link(image, address, words(turn, 0), { width: image.width, height: image.height }));
  host.setAttribute("aria-label", "What the policy observed");
  return true;
}

/**
 * Enlarge images on a click or Enter, and name those that cannot be loaded.
 * @param {HTMLElement} root
 */
export function watchImages(root) {
  root.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target.closest("[data-enlarge]") : null;
    if (!(target instanceof HTMLAnchorElement) || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    enlarge(target);
  });
  root.addEventListener(
    "error",
    (event) => {
      // which does not bubble
      const image = event.target;
      if (!(image instanceof HTMLImageElement) || !image.closest("[data-enlarge]")) return;
      const text = html("span", { class: "image-missing" }, [
        `${image.alt}: the image was not sent, or cannot be loaded.`,
      ]);
      image.closest("[data-enlarge]")?.replaceWith(text);
    },
    { capture: true },
  );
}

/**
 * @param {Turn} turn
 * @param {number} index of the image
 */
function words(turn, index) {
  const count = turn.images?.length ?? 0;
  return `Observation of turn ${turn.turn + 1}${count > 1 ? `, image ${index + 1} of ${count}` : ""}`;
}

/**
 * @param {ObservationImage} image
 * @param {string} address
 * @param {string} alt
 * @param {Record<string, string|number>} size attributes of the image
 */
function link(image, address, alt, size) {
  const source = address + image.sha256;
  const small = Math.max(image.width, image.height) < MIN_SHOWN_SIDE;
  return html(
    "a",
    {
      class: `turn-image${small ? " pixelated" : ""}`,
      href: source,
      "data-enlarge": `${image.width} ${image.height}`,
      "aria-haspopup": "dialog",
    },
    [html("img", { src: source, alt, ...size, decoding: "async" })],
  );
}

/** @param {HTMLAnchorElement} target */
function enlarge(target) {
  const [width, height] = (target.dataset.enlarge ?? "").split(" ");
  const alt = target.querySelector("img")?.alt ?? "";
  const dialog = html("dialog", { class: "image-dialog", "aria-label": alt }, [
    html("div", { class: "image-dialog-head" }, [
      html("span", {}, [alt]),
      html("span", { class: "soft number" }, [`${width} × ${height} pixels`]),
      html("form", { method: "dialog" }, [html("button", { class: "button small", autofocus: true }, ["Close"])]),
    ]),
    html("img", {
      src: target.href,
      alt,
      width,
      height,
      class: target.classList.contains("pixelated") ? "pixelated" : null,
    }),
  ]);
  if (!(dialog instanceof HTMLDialogElement)) return;
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    // next to the image, or on it
    if (event.target === dialog || event.target instanceof HTMLImageElement) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
}
