// @ts-check
/** The selected lane: by click, by address or as a neighbour of another lane. */

import { LaneMark } from "l5kit/birdseye_lane";
import { messageOf } from "l5kit/format";
import { LaneModel } from "l5kit/lane_model";
import { LanePanel } from "l5kit/lane_panel";
import { lanesAt, midlineOf, pointAlong } from "l5kit/lane_shapes";
import { LIGHT_COLORS } from "l5kit/palette";

const LIGHT_NAMES = Object.keys(LIGHT_COLORS);

/** Connects view, panel and address for lanes. */
export class LaneView {
  /**
   * @param {import("l5kit/birdseye").Birdseye} birdseye
   * @param {object} hooks
   * @param {() => Promise<import("l5kit/unpack").PackedLanes>} hooks.load
   * @param {() => void} hooks.onChange called when the lane has changed
   * @param {(x: number, y: number) => void} hooks.onLook called with a world position outside the view to look at
   * @param {(problem: string) => void} hooks.onProblem called when the lane of the address does not exist
   */
  constructor(birdseye, { load, onChange, onLook, onProblem }) {
    this.birdseye = birdseye;
    this.hooks = { load, onChange, onLook, onProblem };
    /** @type {string | null} */
    this.id = null; // as in the address
    /** @type {number | null} */
    this.lane = null;
    /** @type {Promise<LaneModel> | null} */
    this.loading = null;
    /** @type {LaneModel | null} */
    this.lanes = null;
    this.mark = new LaneMark(birdseye);
    this.panel = new LanePanel({ onOpen: (lane) => this.choose(lane, { look: true }), onLeave: () => this.leave() });
    /** @type {(map: unknown) => void} */
    this.mapIsHere = () => {};
    this.map = new Promise((resolve) => {
      this.mapIsHere = resolve;
    });
  }

  /** The map has been loaded, or there is none. */
  setMap() {
    this.mapIsHere(null);
  }

  /** @returns {Promise<LaneModel>} loaded once; retried after an error */
  load() {
    this.loading ??= this.hooks
      .load()
      .then((packed) => {
        this.lanes = new LaneModel(packed);
        return this.lanes;
      })
      .catch((error) => {
        this.loading = null;
        throw error;
      });
    return this.loading;
  }

  /** Select the lane at a position, cycling through several. @param {{x: number, y: number}} point CSS pixels */
  pick(point) {
    const { map } = this.birdseye;
    if (!map) return;
    const { x, y } = this.birdseye.pageToWorld(point.x, point.y);
    const found = lanesAt(map.arrays, x - map.facts.origin_m[0], y - map.facts.origin_m[1]);
    if (!found.length) this.leave();
    else void this.choose(found[(found.indexOf(this.lane ?? -1) + 1) % found.length]);
  }

  /** @param {string} id of an address @param {{look?: boolean}} [how] look: bring it into view */
  async open(id, { look = false } = {}) {
    if (id === this.id) return;
    this.leave();
    this.id = id;
    try {
      await this.map;
      const lane = this.birdseye.map ? (await this.load()).numberOf(id) : null;
      if (this.id !== id) return;
      if (lane !== null) await this.choose(lane, { look });
      else this.refuse(`lane=${id} (this map has no such lane)`);
    } catch (error) {
      if (this.id === id) this.refuse(`lane=${id} (${messageOf(error)})`);
    }
  }

  /** @param {string} problem */
  refuse(problem) {
    this.leave();
    this.hooks.onProblem(problem);
  }

  /** @param {number} lane @param {{look?: boolean}} [how] */
  async choose(lane, { look = false } = {}) {
    this.lane = lane;
    this.show();
    if (look) this.lookAt(lane);
    if (!this.lanes) {
      this.panel.showText("Loading");
      try {
        await this.load();
      } catch (error) {
        if (this.lane === lane) this.panel.showText(`What the map says of it cannot be shown: ${messageOf(error)}`);
        return;
      }
      if (this.lane !== lane) return;
    }
    if (!this.lanes) return;
    this.id = this.lanes.ids[lane];
    this.panel.show(this.lanes, lane);
    this.showFrame();
    this.hooks.onChange();
  }

  /** Deselect the lane. @returns {boolean} whether there was one */
  leave() {
    const was = this.lane !== null || this.id !== null;
    this.lane = null;
    this.id = null;
    this.panel.hide();
    this.show();
    if (was) this.hooks.onChange();
    return was;
  }

  /** Draw the lane, as after a change of the theme. */
  show() {
    this.mark.show(this.birdseye.map, this.lane);
  }

  /** Show the light in the current frame. */
  showFrame() {
    const { lanes, lane } = this;
    const { scene, frame } = this.birdseye;
    if (!lanes || lane === null) return;
    const { light_starts, light_lanes, light_colors } = scene?.arrays ?? {};
    let text = lanes.arrays.has_light[lane] ? "unknown" : "none";
    if (light_starts && light_lanes && light_colors)
      for (let at = light_starts[frame]; at < light_starts[frame + 1]; at += 1)
        if (light_lanes[at] === lane) text = LIGHT_NAMES[light_colors[at]] ?? text;
    this.panel.showLight(text);
  }

  /** Bring a lane into view if it is outside. @param {number} lane */
  lookAt(lane) {
    const { map, view } = this.birdseye;
    if (!map) return;
    const [x, y] = pointAlong(midlineOf(map.arrays, lane), 0.5);
    const place = { x: x + map.facts.origin_m[0], y: y + map.facts.origin_m[1] };
    const point = this.birdseye.worldToPage(place.x, place.y);
    const isSeen = point.x > 0 && point.x < view.width && point.y > 0 && point.y < view.height;
    if (!isSeen) this.hooks.onLook(place.x, place.y);
  }
}
