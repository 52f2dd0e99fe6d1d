// @ts-check
/**
 * Simulation of a scene: the AV by keys, vehicles on lanes by the IDM, others as logged, in steps of 0.1 s.
 * Mirrors `simulation/engine/scene_simulation.py` (SceneSimulation.step), `engine/agent_control.py` (choose, is_near,
 * moved_records, mark_blocked_rows) and `drivers/intelligent.py` (IntelligentDriver.drive).
 */

import { boxesOverlap } from "l5kit/drive/boxes_apart";
import { driveOn, locateOnPath, noMotion } from "l5kit/drive/lane_driver";
import { readPaths } from "l5kit/drive/lane_paths";
import { objectOf } from "l5kit/drive/leaders";
import { actionOfKeys, stepBicycle } from "l5kit/drive/vehicle";

/** @typedef {import("l5kit/drive/vehicle").Vehicle} Vehicle */
/** @typedef {import("l5kit/drive/lane_driver").Motion} Motion */
/**
 * @typedef {object} AgentRow an agent in a frame; values that are float32 in records are rounded to it
 * @property {number} track
 * @property {number} x
 * @property {number} y
 * @property {number} yaw
 * @property {number} length
 * @property {number} width
 * @property {number} height
 * @property {number} vx
 * @property {number} vy
 * @property {number} group -1 if it is not a road user
 * @property {number} label
 */
/**
 * @typedef {object} EgoFrame the AV in a frame, input of the judge
 * @property {number} x
 * @property {number} y
 * @property {number} yaw in (-pi, pi]
 * @property {number} speed at least 0
 * @property {number} along acceleration along the heading
 * @property {number} across to its left
 */
/** @typedef {{ego: EgoFrame, vehicle: Vehicle, rows: AgentRow[]}} DrivenFrame */
/** @typedef {{yaw: number, speed: number}} Kept state of a driven track between steps */

/** Simulates a scene, one frame per step. */
export class DriveSimulation {
  /** @param {{facts: any, arrays: any}} scene packed by `drive_content.py` */
  constructor({ facts, arrays }) {
    this.facts = facts;
    this.arrays = arrays;
    const [length_m] = facts.size_m;
    this.model = { step_s: facts.step_s, length_m, bicycle: facts.bicycle, response: facts.response };
    this.paths = readPaths(arrays, "path");
    this.avPath = readPaths(arrays, "av_path")[0];
    this.numFrames = facts.num_frames;
    this.restart();
  }

  /** Restart the scene. */
  restart() {
    const { start, num_frames } = this.facts;
    const numTracks = this.arrays.track_may_drive.length;
    /** @type {number} */
    this.frame = 0;
    /** @type {Vehicle} */
    this.vehicle = { ...start };
    /** @type {AgentRow[][]} */
    this.rows = Array.from({ length: num_frames }, (_, frame) => this.loggedRows(frame));
    /** @type {Uint8Array} */
    this.isDriven = new Uint8Array(numTracks);
    /** @type {Int32Array} */
    this.lastDriven = new Int32Array(numTracks).fill(-2);
    /** @type {Motion[]} */
    this.motions = Array.from(this.isDriven, noMotion);
    /** @type {(Kept | null)[]} */
    this.kept = Array.from(this.isDriven, () => null);
    /** @type {number[]} */
    this.keys = [];
    /** @type {DrivenFrame[]} */
    this.frames = [this.drivenFrame(this.vehicle, start.yaw_rate)];
    /** @type {Motion} */
    this.planMotion = noMotion();
    /** @type {number} */
    this.planFrame = -2;
  }

  /** @returns {boolean} whether the scene has ended */
  get isDone() {
    return this.frame + 1 >= this.numFrames;
  }

  /** @param {number} frame @returns {AgentRow[]} */
  loggedRows(frame) {
    const { agent_starts, agent_track, agent_xy, agent_yaw, agent_extent, agent_velocity } = this.arrays;
    const { agent_group, agent_label } = this.arrays;
    const rows = [];
    for (let row = agent_starts[frame]; row < agent_starts[frame + 1]; row += 1)
      rows.push({
        track: agent_track[row],
        x: agent_xy[2 * row],
        y: agent_xy[2 * row + 1],
        yaw: agent_yaw[row],
        length: agent_extent[3 * row],
        width: agent_extent[3 * row + 1],
        height: agent_extent[3 * row + 2],
        vx: agent_velocity[2 * row],
        vy: agent_velocity[2 * row + 1],
        group: agent_group[row],
        label: agent_label[row],
      });
    return rows;
  }

  /** @returns {import("l5kit/drive/boxes_apart").DrivenBox} the AV now */
  get egoBox() {
    const [length, width] = this.facts.size_m;
    return { x: this.vehicle.x, y: this.vehicle.y, yaw: this.vehicle.yaw, length, width };
  }

  /** @param {Vehicle} vehicle @param {number} yawRate @returns {DrivenFrame} the current frame */
  drivenFrame(vehicle, yawRate) {
    const { x, y, yaw, speed, acceleration } = vehicle;
    const ego = {
      x,
      y,
      yaw: Math.atan2(Math.sin(yaw), Math.cos(yaw)), // range of a rotation matrix
      speed: Math.abs(speed),
      along: acceleration,
      across: speed * yawRate,
    };
    return { ego, vehicle, rows: this.rows[this.frame] };
  }

  /**
   * Simulate one frame.
   * @param {number} keys sum of the held KEYS
   */
  step(keys) {
    if (this.isDone) return;
    const rows = this.rows[this.frame];
    const actors = rows.filter((row) => this.isChosen(row));
    const moved = this.moveAgents(rows, actors);
    const vehicle = stepBicycle(this.vehicle, actionOfKeys(keys, this.vehicle, this.model), this.model);
    this.isDriven.fill(0);
    for (const { track } of actors) this.isDriven[track] = 1;
    this.putAgents(moved);
    const yawRate = (vehicle.yaw - this.vehicle.yaw) / this.model.step_s;
    this.vehicle = vehicle;
    this.keys.push(keys);
    this.frame += 1;
    this.withhold(rows);
    this.frames.push(this.drivenFrame(vehicle, yawRate));
  }

  /** Mirrors `AgentControl.choose` for traffic that keeps its vehicles. @param {AgentRow} row @returns {boolean} */
  isChosen({ track, x, y, length, group }) {
    if (!this.arrays.track_may_drive[track] || group < 0 || !(length > 0)) return false;
    const [dx, dy] = [x - this.vehicle.x, y - this.vehicle.y];
    return Math.sqrt(dx * dx + dy * dy) < (this.isDriven[track] ? Infinity : this.facts.near_m);
  }

  /** @param {AgentRow[]} rows @returns {import("l5kit/drive/leaders").RoadObject[]} road users; null for others */
  objectsOf(rows) {
    return rows.filter(({ group }) => group >= 0).map((row) => objectOf(row, row.vx, row.vy));
  }

  /** @returns {Map<number, number>} ranks of yellow and red lights now, by lane */
  ranksNow() {
    const { color_starts, color_lanes, color_ranks } = this.arrays;
    const ranks = new Map();
    for (let at = color_starts[this.frame]; at < color_starts[this.frame + 1]; at += 1)
      ranks.set(color_lanes[at], Math.max(ranks.get(color_lanes[at]) ?? 0, color_ranks[at]));
    return ranks;
  }

  /** Mirrors `IntelligentDriver.drive` and `PoseModel.step`. @param {AgentRow[]} rows @param {AgentRow[]} actors @returns {AgentRow[]} rows of the next frame */
  moveAgents(rows, actors) {
    const { step_s } = this.model;
    const { speed, yaw } = this.vehicle;
    const users = rows.filter(({ group }) => group >= 0);
    const objects = this.objectsOf(rows);
    const objectByTrack = new Map(users.map(({ track }, index) => [track, objects[index]]));
    objects.push(objectOf(this.egoBox, speed * Math.cos(yaw), speed * Math.sin(yaw)));
    const [ranks, drive] = [this.ranksNow(), { params: this.facts.agent_driver, step_s, numSteps: 1 }];
    return actors.flatMap((row) => {
      const { track } = row;
      const path = this.paths[track];
      if (!path) throw new Error(`track ${this.facts.track_ids[track]} follows no lanes`);
      const now = this.stateOf(row);
      locateOnPath(path, row, now.speed, this.lastDriven[track] !== this.frame - 1, this.motions[track]);
      this.lastDriven[track] = this.frame;
      const size = /** @type {[number, number]} */ ([0.5 * row.length, 0.5 * row.width]);
      const own = objectByTrack.get(track) ?? null;
      const [[x, y, heading]] = driveOn(path, this.motions[track], size, objects, own, ranks, drive);
      if (this.arrays.track_last_frame[track] <= this.frame) return [];
      const [dx, dy] = [x - row.x, y - row.y];
      const moved = { yaw: heading, speed: Math.sqrt(dx * dx + dy * dy) / step_s };
      this.kept[track] = moved;
      const [vx, vy] = [moved.speed * Math.cos(heading), moved.speed * Math.sin(heading)].map(Math.fround);
      return [{ ...row, x, y, yaw: Math.fround(heading), vx, vy }];
    });
  }

  /** Mirrors the states in `_decide_agents`, and `VehicleStates.of_boxes`. @param {AgentRow} row @returns {Kept} */
  stateOf({ track, yaw, vx, vy }) {
    const kept = this.kept[track];
    if (this.isDriven[track] && kept) return kept;
    const ahead = vx * Math.cos(yaw) + vy * Math.sin(yaw);
    const speed = Math.sqrt(vx * vx + vy * vy);
    return { yaw, speed: ahead < 0 || Object.is(ahead, -0) ? -speed : speed };
  }

  /** Mirrors `RecordBuffer.put_agents`. @param {AgentRow[]} moved */
  putAgents(moved) {
    const rows = this.rows[this.frame + 1];
    const indices = new Map(rows.map(({ track }, index) => [track, index]));
    for (const row of moved) {
      const index = indices.get(row.track);
      if (index === undefined) rows.push(row);
      else rows[index] = row;
    }
  }

  /** Mirrors `_withhold_agents`: agents that would appear inside a box wait. @param {AgentRow[]} before rows of the last frame */
  withhold(before) {
    const rows = this.rows[this.frame];
    const wasThere = new Set(before.map(({ track }) => track));
    const isNew = rows.map((row) => this.isChosen(row) && !wasThere.has(row.track));
    if (!isNew.includes(true)) return;
    const isBlocked = new Array(rows.length).fill(false);
    rows.forEach((row, index) => {
      if (!isNew[index]) return;
      isBlocked[index] = boxesOverlap(row, this.egoBox);
      for (let other = 0; other < rows.length && !isBlocked[index]; other += 1) {
        const stands = rows[other].group >= 0 && other !== index && !isBlocked[other];
        if (stands && (other < index || !isNew[other])) isBlocked[index] = boxesOverlap(row, rows[other]);
      }
    });
    if (isBlocked.includes(true)) this.rows[this.frame] = rows.filter((_, index) => !isBlocked[index]);
  }

  /** Mirrors `drive_vehicles`: the `idm` plan from here. @returns {[number, number, number][]} poses of the next steps */
  plan() {
    if (!this.avPath) return [];
    const { step_s } = this.model;
    const { facts, vehicle } = this;
    const isNew = this.planFrame !== this.frame - 1;
    if (this.planFrame !== this.frame) locateOnPath(this.avPath, vehicle, vehicle.speed, isNew, this.planMotion);
    this.planFrame = this.frame;
    const size = /** @type {[number, number]} */ ([0.5 * facts.size_m[0], 0.5 * facts.size_m[1]]);
    const objects = this.objectsOf(this.rows[this.frame]);
    const drive = { params: facts.av_driver, step_s, numSteps: facts.num_planned_steps };
    return driveOn(this.avPath, { ...this.planMotion }, size, objects, null, this.ranksNow(), drive);
  }
}
