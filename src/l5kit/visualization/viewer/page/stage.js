// @ts-check
/** What stands in the place of the player: the player, that a scene is loading, or what went wrong. */

import { byId, errorBox, make } from "l5kit/dom";

const PATIENCE_MS = 150; // a scene that comes sooner shows no message

let timer = 0;

/** @param {string} text such as "Loading scene 3" */
export function showLoading(text) {
  clearTimeout(timer);
  timer = window.setTimeout(() => cover("loading", make("p", { class: "loading" }, text)), PATIENCE_MS);
  byId("stage").setAttribute("aria-busy", "true");
}

/** Show the player. */
export function showPlayer() {
  clearTimeout(timer);
  const message = byId("stage-message");
  message.hidden = true;
  message.replaceChildren();
  byId("player").inert = false;
  settle("ready");
}

/** @param {string} title @param {string} detail */
export function showError(title, detail) {
  clearTimeout(timer);
  cover("error", errorBox(title, detail));
  settle("error");
}

/** @param {string} text such as "This dataset has no scenes." */
export function showEmpty(text) {
  clearTimeout(timer);
  cover("empty", make("p", { "data-testid": "empty" }, text));
  settle("empty");
}

/** @param {string} state @param {HTMLElement} content */
function cover(state, content) {
  const message = byId("stage-message");
  message.replaceChildren(content);
  message.hidden = false;
  byId("player").inert = true;
  byId("stage").dataset.state = state;
}

/** @param {string} state */
function settle(state) {
  byId("stage").dataset.state = state;
  byId("stage").setAttribute("aria-busy", "false");
}
