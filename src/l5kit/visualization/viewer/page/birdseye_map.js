// @ts-check
/** Lanes, their lights and crosswalks; the map is split into tiles, which are built when they first come into view. */

import { LIGHT_COLORS, toNumber } from "l5kit/palette";
import { stripesOf } from "l5kit/stripes";
import { Container } from "pixi.js";

const TILE_M = 100;
const BORDER_M = 0.14;
const BORDERS_FROM = 0.8; // CSS pixels per metre; at smaller scales borders would fill the lanes
const STRIPES_FROM = 2.5;
const BUILD_MS = 20; // spent on new tiles in one frame
const LIGHTS = Object.values(LIGHT_COLORS).map(toNumber);

/** @typedef {import("l5kit/paint_webgl").Batch} Batch */
/** @typedef {{lanes: number[], crosswalks: number[], bounds: number[], layers: Record<string, Batch>}} Tile */

const LAYERS = ["lanes", "crosswalks", "borders", "stripes"]; // each is built when visible

/** The static map layer. Coordinates are metres from the origin of the map. */
export class MapLayer {
  /**
   * @param {import("l5kit/unpack").PackedMap} map
   * @param {import("l5kit/paint_webgl").Frame} frame of a painter
   * @param {import("l5kit/palette").Tones & {laneAlpha: number}} tones laneAlpha: opacity of lanes and crosswalks
   */
  constructor(map, frame, tones) {
    this.arrays = map.arrays;
    this.origin = map.facts.origin_m;
    this.frame = frame;
    this.tones = tones;
    this.node = new Container();
    /** @type {Record<string, Container>} */
    this.groups = Object.fromEntries(LAYERS.map((name) => [name, new Container()]));
    this.lights = frame.batch();
    this.litLanes = "";
    const { lanes, borders, crosswalks, stripes } = this.groups;
    this.node.addChild(lanes, this.lights.node, crosswalks, borders, stripes);
    /** @type {Map<string, Tile>} */
    this.tiles = new Map();
    this.cut("lanes", this.arrays.lane_starts, this.arrays.lane_xy);
    this.cut("crosswalks", this.arrays.crosswalk_starts, this.arrays.crosswalk_xy);
  }

  /** @param {"lanes" | "crosswalks"} kind @param {Uint32Array} starts @param {Float32Array} xy */
  cut(kind, starts, xy) {
    for (let element = 0; element + 1 < starts.length; element++) {
      const bounds = boundsOf(xy, starts[element], starts[element + 1]);
      if (!bounds) continue;
      const tile = this.tileAt((bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2);
      tile[kind].push(element);
      widen(tile.bounds, bounds);
    }
  }

  /** @param {number} x @param {number} y @returns {Tile} */
  tileAt(x, y) {
    const key = `${Math.floor(x / TILE_M)} ${Math.floor(y / TILE_M)}`;
    const tile = this.tiles.get(key) ?? {
      lanes: [],
      crosswalks: [],
      bounds: [Infinity, Infinity, -Infinity, -Infinity],
      layers: {},
    };
    this.tiles.set(key, tile);
    return tile;
  }

  /**
   * Show the tiles in view.
   * @param {import("l5kit/paint_webgl").View} view metres from the origin of the map
   * @returns {boolean} whether all are built; otherwise call again in the next frame
   */
  look({ x, y, scale, width, height }) {
    const [dx, dy] = [width / 2 / scale, height / 2 / scale];
    this.groups.borders.visible = scale >= BORDERS_FROM;
    this.groups.stripes.visible = scale >= STRIPES_FROM;
    const wanted = LAYERS.filter((name) => this.groups[name].visible);
    const end = performance.now() + BUILD_MS;
    let complete = true;
    for (const tile of this.tiles.values()) {
      const [left, bottom, right, top] = tile.bounds;
      const seen = left < x + dx && right > x - dx && bottom < y + dy && top > y - dy;
      const missing = seen ? wanted.filter((name) => !tile.layers[name]) : [];
      if (missing.length && performance.now() < end) for (const name of missing) this.build(tile, name);
      else if (missing.length) complete = false;
      for (const layer of Object.values(tile.layers)) layer.node.visible = seen;
    }
    return complete;
  }

  /** @param {Tile} tile @param {string} name of a layer */
  build(tile, name) {
    const batch = this.frame.batch();
    const { lane, crosswalk, crosswalkGround, laneAlpha } = this.tones;
    if (name === "lanes") for (const index of tile.lanes) batch.fill(this.laneOutline(index), lane, laneAlpha);
    if (name === "borders") for (const index of tile.lanes) this.drawBorders(batch, index);
    if (name === "crosswalks")
      for (const index of tile.crosswalks) batch.fill(this.crosswalkOutline(index), crosswalkGround, laneAlpha);
    if (name === "stripes") {
      for (const stripe of tile.crosswalks.flatMap((index) => stripesOf(this.crosswalkOutline(index))))
        batch.fillConvex(stripe, crosswalk);
    }
    batch.seal();
    tile.layers[name] = batch;
    this.groups[name].addChild(batch.node);
  }

  /** @param {number} lane @returns {Float32Array} */
  laneOutline(lane) {
    const { lane_xy, lane_starts } = this.arrays;
    return lane_xy.subarray(2 * lane_starts[lane], 2 * lane_starts[lane + 1]);
  }

  /** @param {number} crosswalk @returns {Float32Array} */
  crosswalkOutline(crosswalk) {
    const { crosswalk_xy, crosswalk_starts } = this.arrays;
    return crosswalk_xy.subarray(2 * crosswalk_starts[crosswalk], 2 * crosswalk_starts[crosswalk + 1]);
  }

  /** @param {Batch} batch @param {number} lane */
  drawBorders(batch, lane) {
    const outline = this.laneOutline(lane);
    const split = 2 * this.arrays.lane_left_counts[lane];
    const stroke = { color: this.tones.border, width_m: BORDER_M, leastWidth_px: 1 };
    batch.line(outline.subarray(0, split), stroke);
    batch.line(outline.subarray(split), stroke);
  }

  /** @param {ArrayLike<number>} lanes with a light @param {ArrayLike<number>} colors indices of LIGHT_COLORS */
  light(lanes, colors) {
    const lit = Array.from(lanes, (lane, at) => `${lane}:${colors[at]}`).join();
    if (lit === this.litLanes) return;
    this.litLanes = lit;
    this.lights.clear();
    for (let at = 0; at < lanes.length; at++) {
      if (lanes[at] + 1 >= this.arrays.lane_starts.length) continue;
      this.lights.fill(this.laneOutline(lanes[at]), LIGHTS[colors[at]] ?? this.tones.border, this.tones.lightTint);
    }
    this.lights.commit();
  }

  destroy() {
    for (const tile of this.tiles.values()) for (const layer of Object.values(tile.layers)) layer.destroy();
    this.lights.destroy();
    this.node.destroy({ children: true });
  }
}

/**
 * @param {Float32Array} xy
 * @param {number} start
 * @param {number} end
 * @returns {number[] | null} left, bottom, right, top
 */
function boundsOf(xy, start, end) {
  if (end - start < 3) return null;
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = start; at < end; at++) widen(bounds, [xy[2 * at], xy[2 * at + 1], xy[2 * at], xy[2 * at + 1]]);
  return bounds.every(Number.isFinite) ? bounds : null;
}

/** @param {number[]} bounds extended to contain the others @param {number[]} others */
function widen(bounds, others) {
  bounds[0] = Math.min(bounds[0], others[0]);
  bounds[1] = Math.min(bounds[1], others[1]);
  bounds[2] = Math.max(bounds[2], others[2]);
  bounds[3] = Math.max(bounds[3], others[3]);
}
