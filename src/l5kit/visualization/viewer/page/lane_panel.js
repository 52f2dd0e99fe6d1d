// @ts-check
/** Map data of the selected lane, and the colour of its light in the current frame. */

import { byId, icon, make, onPress, setText } from "l5kit/dom";
import { quantity } from "l5kit/format";
import { limitText } from "l5kit/lane_model";

const SIDES = /** @type {const} */ (["left", "right", "ahead", "behind"]);
const SIDE_NAMES = { left: "Change to the left", right: "Change to the right", ahead: "Ahead", behind: "Behind" };

/** The panel; hidden while no lane is selected. */
export class LanePanel {
  /**
   * @param {object} hooks
   * @param {(lane: number) => void} hooks.onOpen called when a neighbour is pressed
   * @param {() => void} hooks.onLeave
   */
  constructor({ onOpen, onLeave }) {
    this.onOpen = onOpen;
    this.section = byId("lane-panel");
    this.title = make("h2", { "data-testid": "lane-title" });
    const close = make("button", {
      type: "button",
      class: "button icon",
      title: "Let go (Esc)",
      "aria-label": "Let go",
    });
    close.append(icon("close"));
    onPress(close, onLeave);
    this.about = make("p", { class: "absent" });
    this.limit = make("dd", { "data-testid": "lane-limit" });
    this.length = make("dd", { "data-testid": "lane-length" });
    this.light = make("dd", { "data-testid": "lane-light" });
    /** @type {Record<string, HTMLElement>} */
    this.sides = Object.fromEntries(SIDES.map((side) => [side, make("dd", { "data-testid": `lane-${side}` })]));
    const row = (/** @type {string} */ name, /** @type {HTMLElement} */ value) =>
      make("div", {}, make("dt", {}, name), value);
    this.facts = make(
      "dl",
      { class: "agent-facts" },
      row("Speed limit", this.limit),
      row("Length", this.length),
      row("Light", this.light),
      ...SIDES.map((side) => row(SIDE_NAMES[side], this.sides[side])),
    );
    this.section.append(make("div", { class: "panel-head" }, this.title, close), this.about, this.facts);
  }

  hide() {
    this.section.hidden = true;
  }

  /** @param {string} text placeholder, as while loading */
  showText(text) {
    this.section.hidden = false;
    setText(this.title, "Lane");
    this.facts.hidden = true;
    this.about.hidden = false;
    setText(this.about, text);
  }

  /** @param {import("l5kit/lane_model").LaneModel} lanes @param {number} lane */
  show(lanes, lane) {
    this.section.hidden = false;
    this.facts.hidden = false;
    this.about.hidden = true;
    setText(this.title, `Lane ${lanes.ids[lane]}`);
    setText(this.limit, limitText(lanes.arrays.limit_mps[lane]));
    setText(this.length, quantity(lanes.arrays.length_m[lane], 1, "m"));
    const neighbours = lanes.neighbours(lane);
    for (const side of SIDES) this.sides[side].replaceChildren(...this.links(neighbours[side]));
  }

  /** @param {import("l5kit/lane_model").Neighbour[]} neighbours @returns {HTMLElement[]} */
  links(neighbours) {
    if (!neighbours.length) return [make("span", {}, "none")];
    return neighbours.map(({ id, number, isHere }) => {
      if (!isHere) return make("span", { class: "lane-away", title: "Its outline is not here" }, id);
      const link = make("button", { type: "button", class: "text-button", title: `Show lane ${id}` }, id);
      onPress(link, () => this.onOpen(number));
      return link;
    });
  }

  /** @param {string} text such as "red" */
  showLight(text) {
    this.light.dataset.light = text;
    setText(this.light, text);
  }
}
