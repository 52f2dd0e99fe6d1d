// @ts-check
/** Track ids beside boxes; of labels that would overlap only the more important one is shown. */

import { BitmapFont, BitmapText, Container } from "pixi.js";
import { EGO } from "l5kit/palette";

const SIZE_PX = 12;
const ATLAS_PX = 24; // size of the glyphs that labels are scaled from
const FROM = 5; // CSS pixels per metre; from farther away only chosen agents have labels
const GAP_PX = 9; // from the box to the middle of the text
const DIGIT_PX = 7.2;
const HEIGHT_PX = 14;
const MOST_KEPT = 400;
const CHARACTERS = ["0123456789AV"];

/** Labels on the page, in CSS pixels. */
export class LabelLayer {
  /** @param {string} theme @param {import("l5kit/palette").Tones} tones @param {number} resolution device pixels per CSS pixel */
  constructor(theme, tones, resolution) {
    this.font = `l5kit ${theme} ${resolution}`;
    this.install(tones, resolution);
    this.node = new Container();
    /** @type {Map<number, BitmapText>} */
    this.texts = new Map();
  }

  /** @param {import("l5kit/palette").Tones} tones @param {number} resolution */
  install(tones, resolution) {
    const style = { fontFamily: "system-ui, sans-serif", fontWeight: /** @type {"600"} */ ("600"), fontSize: ATLAS_PX, fill: tones.label };
    const stroke = { color: tones.halo, width: 6, join: /** @type {"round"} */ ("round") };
    BitmapFont.install({ name: this.font, style: { ...style, stroke }, chars: CHARACTERS, resolution, padding: 6 });
  }

  /**
   * @param {import("l5kit/boxes").Box[]} boxes metres from the origin of the scene
   * @param {object} how
   * @param {(x: number, y: number) => {x: number, y: number}} how.toPage from these metres
   * @param {{scale: number, width: number, height: number}} how.view
   * @param {string[]} how.trackIds
   * @param {(number | null)[]} how.chosen tracks that have a label at any zoom
   * @param {boolean} how.all whether others have one
   */
  draw(boxes, { toPage, view, trackIds, chosen, all }) {
    for (const text of this.texts.values()) text.visible = false;
    const dense = all && view.scale >= FROM;
    const wanted = boxes.filter((box) => chosen.includes(box.track) || (dense && box.track !== EGO));
    const rank = (/** @type {{track: number}} */ { track }) => (chosen.includes(track) ? -1 : track);
    wanted.sort((one, other) => rank(one) - rank(other));
    /** @type {number[][]} */
    const taken = [];
    for (const box of wanted) {
      const name = box.track === EGO ? "AV" : trackIds[box.track];
      const { x, y } = labelPoint(box, toPage(box.x, box.y), view.scale);
      if (x < 0 || y < 0 || x > view.width || y > view.height) continue;
      const half = (name.length * DIGIT_PX) / 2 + 1;
      if (taken.some(([otherX, otherY, otherHalf]) => Math.abs(x - otherX) < half + otherHalf && Math.abs(y - otherY) < HEIGHT_PX)) continue;
      taken.push([x, y, half]);
      this.show(box.track, name, x, y);
    }
  }

  /** @param {number} track @param {string} name @param {number} x @param {number} y */
  show(track, name, x, y) {
    const text = this.texts.get(track) ?? this.make(track, name);
    text.visible = true;
    text.position.set(x, y);
  }

  /** @param {number} track @param {string} name @returns {BitmapText} */
  make(track, name) {
    if (this.texts.size >= MOST_KEPT) this.clear();
    const text = new BitmapText({ text: name, style: { fontFamily: this.font, fontSize: SIZE_PX }, anchor: 0.5 });
    this.texts.set(track, text);
    this.node.addChild(text);
    return text;
  }

  /** Forget the labels, as for another scene. */
  clear() {
    for (const text of this.texts.values()) text.destroy();
    this.texts.clear();
  }

  destroy() {
    this.clear();
    this.node.destroy();
    BitmapFont.uninstall(this.font);
  }
}

/** @param {import("l5kit/boxes").Box} box @param {{x: number, y: number}} middle @param {number} scale @returns {{x: number, y: number}} */
function labelPoint({ yaw, length, width }, { x, y }, scale) {
  const reach = (Math.abs(Math.sin(yaw)) * length + Math.abs(Math.cos(yaw)) * width) / 2;
  return { x: Math.round(x), y: Math.round(y - reach * scale - GAP_PX) };
}
