// @ts-check
/**
 * The plan of a policy that drives along its route: the positions of the AV if the current action continues.
 * Mirrors `environment/policy_driver.py` (RoutePolicyPlanner.drive) and `environment/model_actions.py`
 * (RouteActions.steered, control_of).
 */

import { CompactSight } from "l5kit/drive/compact_sight";
import { followRoute } from "l5kit/drive/lane_paths";
import { PolicyNetwork } from "l5kit/drive/policy_network";
import { trackRoute } from "l5kit/drive/route_tracking";
import { stepByCurvature } from "l5kit/drive/vehicle";

const [PLANNED_S, HELD_S] = [4, 1.5];

/** Mirrors `control_of`. @param {number} value @param {number} low @param {number} high @returns {number} */
function controlOf(value, low, high) {
  if (value < 0) return value < -1 ? low : -value * low;
  return value > 1 ? high : value * high;
}

/** Plans for the AV of a simulation. */
export class PolicyPlanner {
  /**
   * @param {import("l5kit/unpack").Packed} packed content of a `PagePolicy`
   * @param {import("l5kit/drive/simulation").DriveSimulation} simulation
   */
  constructor(packed, simulation) {
    this.facts = /** @type {any} */ (packed.facts);
    this.simulation = simulation;
    this.network = new PolicyNetwork(packed);
    this.sight = new CompactSight(simulation, this.facts.layout);
  }

  /** Restart the scene. */
  restart() {
    this.sight.restart();
  }

  /** Mirrors `RoutePolicyPlanner.drive`. @returns {[number, number, number][]} poses of the next steps; none without a route */
  plan() {
    const { simulation, facts } = this;
    const path = simulation.avPath;
    if (!path) return [];
    const { step_s, length_m } = simulation.model;
    const [rearShare, wheelBaseShare] = facts.curvature.slice(2);
    const axles_m = /** @type {[number, number]} */ ([length_m * rearShare, length_m * wheelBaseShare]);
    const sight = this.sight.look(path);
    const [action] = this.network.act(sight.seen);
    const model = { step_s, length_m, curvature: facts.curvature };
    let { vehicle } = simulation;
    let { position } = sight;
    /** @type {[number, number, number][]} */
    const poses = [];
    for (let step = 0; step < Math.round(PLANNED_S / step_s); step += 1) {
      const held = step * step_s < HELD_S ? action : Math.min(action, 0);
      const wanted_mps2 = controlOf(held, facts.low_mps2, facts.high_mps2);
      vehicle = stepByCurvature(vehicle, trackRoute(path, position, vehicle, axles_m, wanted_mps2, step_s), model);
      position = followRoute(path, vehicle, position);
      poses.push([vehicle.x, vehicle.y, vehicle.yaw]);
    }
    return poses;
  }
}
