// @ts-check
/** Held driving keys: on the keyboard, or by fingers on the pads of the page. */

import { KEYS } from "l5kit/drive/vehicle";

/** @type {Record<string, number>} */
const BY_KEY = {
  ArrowUp: KEYS.FORWARD,
  w: KEYS.FORWARD,
  ArrowDown: KEYS.BRAKE,
  s: KEYS.BRAKE,
  ArrowLeft: KEYS.LEFT,
  a: KEYS.LEFT,
  ArrowRight: KEYS.RIGHT,
  d: KEYS.RIGHT,
  " ": KEYS.HARD_BRAKE,
};

/** Listens to keyboard and pads. */
export class HeldKeys {
  /** @param {() => void} onFirst called when a driving key is pressed */
  constructor(onFirst) {
    this.onFirst = onFirst;
    /** @type {Map<string, number>} */
    this.held = new Map(); // by key of the keyboard, or by pad and pointer
    document.addEventListener("keydown", (event) => this.press(event));
    document.addEventListener("keyup", (event) => this.held.delete(nameOf(event.key)));
    addEventListener("blur", () => this.held.clear());
  }

  /** @returns {number} sum of the held KEYS */
  get keys() {
    return [...this.held.values()].reduce((all, key) => all | key, 0);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const key = BY_KEY[nameOf(event.key)];
    const { target } = event;
    const isTaken = target instanceof HTMLElement && target.matches("select, input, button") && event.key === " ";
    if (!key || isTaken || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target instanceof HTMLElement && target.matches("select") && event.key.startsWith("Arrow")) return;
    if (document.querySelector("dialog[open]")) return;
    event.preventDefault();
    this.held.set(nameOf(event.key), key);
    if (!event.repeat) this.onFirst();
  }

  /** Let a pad hold a key while a finger is on it. @param {HTMLElement} pad with `data-key`, a name of KEYS */
  listenTo(pad) {
    const key = KEYS[/** @type {keyof typeof KEYS} */ (pad.dataset.key)];
    const release = (/** @type {PointerEvent} */ { pointerId }) => {
      this.held.delete(`${pad.dataset.key} ${pointerId}`);
      pad.classList.toggle(
        "held",
        [...this.held.keys()].some((name) => name.startsWith(`${pad.dataset.key} `)),
      );
    };
    pad.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      pad.setPointerCapture(event.pointerId);
      this.held.set(`${pad.dataset.key} ${event.pointerId}`, key);
      pad.classList.add("held");
      this.onFirst();
    });
    for (const name of /** @type {const} */ (["pointerup", "pointercancel", "lostpointercapture"]))
      pad.addEventListener(name, release);
    pad.addEventListener("contextmenu", (event) => event.preventDefault());
  }
}

/** @param {string} key @returns {string} letters in lower case */
function nameOf(key) {
  return key.length === 1 ? key.toLowerCase() : key;
}
