// @ts-check
/**
 * The driven vehicle: controls from keys, and steps of the kinematic bicycle and of the curvature model.
 * Mirrors `simulation/drivers/key_driver.py` (action_of_keys) and `simulation/vehicle_steps.py` (_step_bicycle,
 * _step_by_curvature, _moved_centre).
 */

/**
 * @typedef {object} Vehicle
 * @property {number} x of its centre, world, metres
 * @property {number} y
 * @property {number} yaw radians, any number of turns
 * @property {number} speed m/s
 * @property {number} acceleration m/s2
 * @property {number} steering radians
 */
/**
 * @typedef {object} Response numbers of `KeyResponse`
 * @property {number} acceleration_mps2
 * @property {number} top_speed_mps
 * @property {number} coasting_mps2
 * @property {number} braking_mps2
 * @property {number} hard_braking_mps2
 * @property {number} max_steering_rad
 * @property {number} lateral_mps2
 * @property {number} steering_rate_radps
 * @property {number} halving_speed_mps
 */

/** Bits of the keys of a step, those of `DrivingKeys`. */
export const KEYS = { FORWARD: 1, BRAKE: 2, LEFT: 4, RIGHT: 8, HARD_BRAKE: 16 };

/**
 * Mirrors `action_of_keys`.
 * @param {number} keys sum of KEYS
 * @param {Vehicle} vehicle
 * @param {{step_s: number, length_m: number, bicycle: number[], response: Response}} facts
 * @returns {[number, number]} acceleration, m/s2, and steering rate, rad/s
 */
export function actionOfKeys(keys, { speed, acceleration, steering }, { step_s, length_m, bicycle, response }) {
  const [, accelerationGain, steeringGain, , wheelBaseShare] = bicycle;
  let wanted = -response.coasting_mps2;
  if (keys & KEYS.FORWARD) wanted = response.acceleration_mps2 * (1 - speed / response.top_speed_mps);
  if (keys & KEYS.BRAKE) wanted = -response.braking_mps2;
  if (keys & KEYS.HARD_BRAKE) wanted = -response.hard_braking_mps2;
  const stopping = acceleration + (-speed / step_s - acceleration) / accelerationGain;
  wanted = Math.max(wanted, stopping);

  const side = Number((keys & KEYS.LEFT) !== 0) - Number((keys & KEYS.RIGHT) !== 0);
  const inBend_rad = Math.atan((wheelBaseShare * length_m * response.lateral_mps2) / Math.max(speed * speed, 1));
  const target_rad = side * Math.min(response.max_steering_rad, inBend_rad);
  const most = response.steering_rate_radps / (1 + Math.abs(speed) / response.halving_speed_mps);
  const rate = (target_rad - steering) / (steeringGain * step_s);
  return [wanted, Math.min(Math.max(rate, -most), most)];
}

/**
 * Mirrors `_step_bicycle`.
 * @param {Vehicle} now
 * @param {[number, number]} action
 * @param {{step_s: number, length_m: number, bicycle: number[]}} facts
 * @returns {Vehicle}
 */
export function stepBicycle(now, action, { step_s, length_m, bicycle }) {
  const [maxSteering, accelerationGain, steeringGain, rearShare, wheelBaseShare] = bicycle;
  const way_m = now.speed * step_s;
  const acceleration = now.acceleration + accelerationGain * (action[0] - now.acceleration);
  const yaw = now.yaw + (way_m * Math.tan(now.steering)) / (wheelBaseShare * length_m);
  const turned = now.steering + steeringGain * action[1] * step_s;
  return {
    ...movedCentre(now, way_m, yaw, rearShare * length_m),
    speed: now.speed + acceleration * step_s,
    acceleration,
    steering: Math.min(Math.max(turned, -maxSteering), maxSteering),
  };
}

/**
 * Mirrors `_step_by_curvature`.
 * @param {Vehicle} now
 * @param {[number, number]} action acceleration, m/s2, and curvature, 1/m
 * @param {{step_s: number, length_m: number, curvature: number[]}} facts
 * @returns {Vehicle}
 */
export function stepByCurvature(now, action, { step_s, length_m, curvature: limits }) {
  const [maxAcceleration, maxCurvature, rearShare, wheelBaseShare] = limits;
  const acceleration = Math.min(Math.max(action[0], -maxAcceleration), maxAcceleration);
  const curvature = Math.min(Math.max(action[1], -maxCurvature), maxCurvature);
  const way_m = now.speed * step_s + (acceleration * step_s * step_s) / 2;
  return {
    ...movedCentre(now, way_m, now.yaw + curvature * way_m, rearShare * length_m),
    speed: now.speed + acceleration * step_s,
    acceleration,
    steering: Math.atan(curvature * wheelBaseShare * length_m),
  };
}

/**
 * Mirrors `_moved_centre`.
 * @param {Vehicle} before
 * @param {number} way_m distance of the rear axle
 * @param {number} yaw after the step
 * @param {number} rear_m distance of the rear axle behind the centre
 * @returns {{x: number, y: number, yaw: number}}
 */
function movedCentre(before, way_m, yaw, rear_m) {
  const [cos, sin] = [Math.cos(before.yaw), Math.sin(before.yaw)];
  const x = before.x + (way_m * cos + rear_m * (Math.cos(yaw) - cos));
  const y = before.y + (way_m * sin + rear_m * (Math.sin(yaw) - sin));
  return { x, y, yaw };
}
