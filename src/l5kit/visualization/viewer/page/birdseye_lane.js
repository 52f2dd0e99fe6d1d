// @ts-check
/** The selected lane in the view: its area, its border and an arrow along it. */

import { midlineOf } from "l5kit/lane_shapes";

const TONES = { light: 0x1f5fa8, dark: 0x7db4f0 }; // as --accent in page.css
const HEAD_M = 2;

/** Mark above the map, below the agents. Coordinates are metres from the origin of the map. */
export class LaneMark {
  /** @param {import("l5kit/birdseye").Birdseye} birdseye */
  constructor(birdseye) {
    this.birdseye = birdseye;
    this.batch = birdseye.mapFrame.batch();
    birdseye.markSpace.addChild(this.batch.node);
  }

  /**
   * @param {import("l5kit/unpack").PackedMap | null} map
   * @param {number | null} lane null for none
   */
  show(map, lane) {
    this.batch.clear();
    if (map && lane !== null) this.draw(map.arrays, lane);
    this.batch.commit();
    this.birdseye.redraw();
  }

  /** @param {import("l5kit/unpack").MapArrays} arrays @param {number} lane */
  draw(arrays, lane) {
    const { lane_xy, lane_starts } = arrays;
    const outline = lane_xy.subarray(2 * lane_starts[lane], 2 * lane_starts[lane + 1]);
    const color = this.birdseye.theme === "dark" ? TONES.dark : TONES.light;
    const middle = midlineOf(arrays, lane);
    this.batch.fill(outline, color, 0.3);
    this.batch.line(outline, { color, width_m: 0.2, leastWidth_px: 2 }, true);
    this.batch.line(middle, { color, alpha: 0.8, width_m: 0.12, leastWidth_px: 1.5 });
    this.batch.fillConvex(headOf(middle), color);
  }
}

/** @param {number[]} line @returns {number[]} a triangle at its end */
function headOf(line) {
  const [ax, ay, bx, by] = line.slice(-4);
  const length = Math.hypot(bx - ax, by - ay) || 1;
  const [dx, dy] = [((bx - ax) / length) * HEAD_M, ((by - ay) / length) * HEAD_M];
  return [bx, by, bx - dx - dy / 2, by - dy + dx / 2, bx - dx + dy / 2, by - dy - dx / 2];
}
