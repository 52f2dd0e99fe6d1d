// @ts-check
/** Track ids next to boxes, as PixiJS texts. */

import { placeLabels } from "l5kit/label_places";
import { BitmapFont, BitmapText, Container } from "pixi.js";

const SIZE_PX = 12;
const ATLAS_PX = 24; // size of the glyphs, which are scaled
const MOST_KEPT = 400;
const CHARACTERS = ["0123456789AV"];

/** Labels on the page, in CSS pixels. */
export class LabelLayer {
  /**
   * @param {string} theme
   * @param {import("l5kit/palette").Tones} tones
   * @param {number} resolution device pixels per CSS pixel
   */
  constructor(theme, tones, resolution) {
    this.font = `l5kit ${theme} ${resolution}`;
    this.install(tones, resolution);
    this.node = new Container();
    /** @type {Map<number, BitmapText>} */
    this.texts = new Map();
  }

  /** @param {import("l5kit/palette").Tones} tones @param {number} resolution */
  install(tones, resolution) {
    const style = {
      fontFamily: "system-ui, sans-serif",
      fontWeight: /** @type {"600"} */ ("600"),
      fontSize: ATLAS_PX,
      fill: tones.label,
    };
    const stroke = { color: tones.halo, width: 6, join: /** @type {"round"} */ ("round") };
    BitmapFont.install({ name: this.font, style: { ...style, stroke }, chars: CHARACTERS, resolution, padding: 6 });
  }

  /** @param {import("l5kit/boxes").Box[]} boxes @param {import("l5kit/label_places").Labelled} how */
  draw(boxes, how) {
    for (const text of this.texts.values()) text.visible = false;
    for (const { track, name, x, y } of placeLabels(boxes, how)) this.show(track, name, x, y);
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

  /** Remove all labels, as before another scene. */
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
