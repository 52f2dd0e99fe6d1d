// @ts-check
/** Content in place of the player: the player, a loading message, or an error. */

import { byId, errorBox, make } from "l5kit/dom";

const PATIENCE_MS = 150; // faster scenes show no message

/** The centre of the page. */
export class Stage {
  constructor() {
    this.timer = 0; // of the loading message
  }

  /** @param {string} text such as "Loading scene 3" */
  showLoading(text) {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => cover("loading", make("p", { class: "loading" }, text)), PATIENCE_MS);
    byId("stage").setAttribute("aria-busy", "true");
  }

  /** Show the player. */
  showPlayer() {
    const message = byId("stage-message");
    message.hidden = true;
    message.replaceChildren();
    byId("player").inert = false;
    this.settle("ready");
  }

  /** @param {string} title @param {string} detail */
  showError(title, detail) {
    cover("error", errorBox(title, detail));
    this.settle("error");
  }

  /** @param {string} text such as "This dataset has no scenes." */
  showEmpty(text) {
    cover("empty", make("p", { "data-testid": "empty" }, text));
    this.settle("empty");
  }

  /** @param {string} state */
  settle(state) {
    clearTimeout(this.timer);
    byId("stage").dataset.state = state;
    byId("stage").setAttribute("aria-busy", "false");
  }
}

/** @param {string} state @param {HTMLElement} content */
function cover(state, content) {
  const message = byId("stage-message");
  message.replaceChildren(content);
  message.hidden = false;
  byId("player").inert = true;
  byId("stage").dataset.state = state;
}
