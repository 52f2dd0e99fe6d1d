// @ts-check
/** Decoding of the packed blobs: "L5KV", length of the header, header JSON, arrays. */

/** @typedef {Float64Array | Float32Array | Uint32Array | Uint16Array | Uint8Array | Int32Array} Column */
/**
 * @typedef {object} Packed
 * @property {Record<string, unknown>} facts
 * @property {Record<string, Column>} arrays
 * @property {Record<string, number[]>} shapes of the arrays
 */
/**
 * @typedef {object} SceneFacts
 * @property {number} scene_index
 * @property {number} num_frames F
 * @property {string} host
 * @property {string} start_time_ns since 1970, decimal
 * @property {[number, number]} origin_m of all positions of the scene, world
 * @property {string[]} track_ids decimal, (T,)
 * @property {[number, number]} ego_size_m length and width
 * @property {string[]} labels names of the classes, (L,)
 * @property {{threshold: number, distance_av_m: number, min_frame_history: number, min_frame_future: number}} mask
 * @property {string[]} reasons why agents are in the agents mask or not
 */
/**
 * @typedef {object} SceneArrays frames F, rows of agents N, lights K, classes L
 * @property {Float32Array} time_s since the first frame, (F,)
 * @property {Float32Array} ego_xy (F, 2)
 * @property {Float32Array} ego_yaw radians, (F,)
 * @property {Float32Array} ego_speed m/s, (F,)
 * @property {Uint32Array} agent_starts first row of each frame, (F+1,)
 * @property {Uint32Array} agent_track index of the track, (N,)
 * @property {Float32Array} agent_xy (N, 2)
 * @property {Float32Array} agent_yaw radians, (N,)
 * @property {Float32Array} agent_extent length, width, height, (N, 3)
 * @property {Float32Array} agent_velocity m/s, (N, 2)
 * @property {Uint8Array} agent_label index of the most probable class, (N,)
 * @property {Float32Array} agent_probabilities (N, L)
 * @property {Uint8Array} agent_in_mask (N,)
 * @property {Uint32Array} agent_reason index of the reason, (N,)
 * @property {Uint32Array} light_starts first light of each frame, (F+1,)
 * @property {Uint32Array} light_lanes index of the lane in the map, (K,)
 * @property {Uint8Array} light_colors index of the colour: green, yellow, red, (K,)
 */
/**
 * @typedef {object} MapFacts
 * @property {[number, number]} origin_m of all positions of the map, world
 * @property {number} num_lanes
 * @property {number} num_crosswalks
 */
/**
 * @typedef {object} MapArrays points P of lanes, points Q of crosswalks
 * @property {Uint32Array} lane_left_counts points of the left border, the start of the outline, (num_lanes,)
 * @property {Uint32Array} lane_starts first point of each lane, (num_lanes+1,)
 * @property {Float32Array} lane_xy (P, 2)
 * @property {Uint32Array} crosswalk_starts (num_crosswalks+1,)
 * @property {Float32Array} crosswalk_xy (Q, 2)
 */
/**
 * @typedef {object} Failure frames with one kind of failure of the AV
 * @property {string} kind
 * @property {string} name of the kind, for display
 * @property {number} first_frame
 * @property {number} last_frame
 * @property {string | null} track_id decimal; the other road user of a collision
 */
/**
 * @typedef {object} MetricValue
 * @property {string} name
 * @property {string} label for display
 * @property {string} sentence description
 * @property {string} unit
 * @property {number} digits decimal places
 * @property {number | null} value null if not applicable
 * @property {boolean} failed whether the metric failed
 */
/**
 * @typedef {object} Curve
 * @property {string} key
 * @property {string} name
 * @property {string} chip short name, for the button that hides it
 * @property {string} unit
 * @property {number} digits decimal places of values
 * @property {string} axis name of its range
 * @property {string[]} kinds of failures that are marked on it
 */
/**
 * @typedef {object} DriveFacts
 * @property {string} log name of the log
 * @property {number} log_scene index of the scene in the log
 * @property {number | null} score 0 to 1
 * @property {MetricValue[]} metrics
 * @property {Curve[]} curves with values in the arrays of their keys, (F,)
 * @property {Failure[]} failures by first frame
 * @property {number[]} plan_times_s from the frame of the plan, (T,)
 * @property {boolean} has_log whether the log is available
 */
/**
 * @typedef {object} DriveArrays curves by key; and for frames F, rows of ghosts G, poses of a plan T; NaN for none
 * @property {Float32Array} log_xy the logged AV, (F, 2)
 * @property {Float32Array} log_yaw radians, (F,)
 * @property {Float32Array} log_speed m/s, (F,)
 * @property {Uint32Array} ghost_starts first ghost of each frame, (F+1,)
 * @property {Float32Array} ghost_xy logged poses of moved agents, (G, 2)
 * @property {Float32Array} ghost_yaw radians, (G,)
 * @property {Float32Array} ghost_extent length, width, height, (G, 3)
 * @property {Float32Array} plan_xy plan in each frame, (F, T, 2)
 */
/**
 * @typedef {object} LaneFacts
 * @property {number} num_lanes L, lanes of the map of the page, in its order
 * @property {string[]} ids ids of these, then of neighbours that this map lacks
 */
/**
 * @typedef {object} LaneArrays lane indices refer to the ids
 * @property {Float32Array} limit_mps NaN if unknown, (L,)
 * @property {Float32Array} length_m of the midline, (L,)
 * @property {Uint8Array} has_light whether a traffic light controls it, (L,)
 * @property {Int32Array} left target of a lane change, -1 for none, (L,)
 * @property {Int32Array} right likewise
 * @property {Uint32Array} ahead_starts first of the lanes ahead of each, (L+1,)
 * @property {Uint32Array} ahead
 * @property {Uint32Array} behind_starts likewise
 * @property {Uint32Array} behind
 */
/** @typedef {{facts: LaneFacts, arrays: LaneArrays}} PackedLanes made by `content_bytes.py` */
/**
 * @typedef {object} PredictionFacts
 * @property {string} name of the file
 * @property {number} num_modes M
 * @property {number} num_steps T
 * @property {number} num_lost predictions at times of the scene whose track is not in that frame
 */
/**
 * @typedef {object} PredictionArrays frames F, predictions P, modes M, steps T; NaN for no mode
 * @property {Uint32Array} starts first prediction of each frame, (F+1,)
 * @property {Int32Array} agent_row of the scene, -1 for the AV, (P,)
 * @property {Float32Array} confidence (P, M)
 * @property {Float32Array} xy from the frame after the prediction on, (P, M, T, 2)
 */
/** @typedef {{facts: PredictionFacts, arrays: PredictionArrays}} PackedPredictions made by `prediction_matches.py` */
/** @typedef {{facts: DriveFacts, arrays: DriveArrays}} PackedDrive made by `viewed_simulation.py` */
/** @typedef {{facts: SceneFacts, arrays: SceneArrays}} PackedScene made by `content_bytes.py` */
/** @typedef {{facts: MapFacts, arrays: MapArrays}} PackedMap */

const MAGIC = 0x564b354c; // "L5KV", little-endian
const KINDS = {
  float64: Float64Array,
  float32: Float32Array,
  uint32: Uint32Array,
  uint16: Uint16Array,
  uint8: Uint8Array,
  int32: Int32Array,
};

/**
 * Decode the facts and arrays of a blob; the arrays are views of the buffer.
 * @param {ArrayBuffer} buffer
 * @returns {Packed}
 * @throws {Error} if the bytes are not such a blob, or are truncated
 */
export function unpack(buffer) {
  if (buffer.byteLength < 8) throw new Error(`a packed blob has at least 8 bytes, got ${buffer.byteLength}`);
  const view = new DataView(buffer);
  if (view.getUint32(0, true) !== MAGIC)
    throw new Error("the bytes are not a packed blob (they do not start with L5KV)");
  const headerLength = view.getUint32(4, true);
  const start = 8 + headerLength;
  if (start > buffer.byteLength) throw new Error(`the header needs ${start} bytes, the blob has ${buffer.byteLength}`);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, headerLength)));
  /** @type {Packed} */
  const packed = { facts: header.facts, arrays: {}, shapes: {} };
  for (const entry of header.arrays) {
    packed.arrays[entry.name] = column(buffer, start, entry);
    packed.shapes[entry.name] = entry.shape;
  }
  return packed;
}

/** @param {ArrayBuffer} buffer of a scene @returns {PackedScene} */
export function unpackScene(buffer) {
  return /** @type {{facts: any, arrays: any}} */ (unpack(buffer));
}

/** @param {ArrayBuffer} buffer of a drive @returns {PackedDrive} */
export function unpackDrive(buffer) {
  return /** @type {{facts: any, arrays: any}} */ (unpack(buffer));
}

/** @param {ArrayBuffer} buffer of lanes @returns {PackedLanes} */
export function unpackLanes(buffer) {
  return /** @type {{facts: any, arrays: any}} */ (unpack(buffer));
}

/** @param {ArrayBuffer} buffer of predictions @returns {PackedPredictions} */
export function unpackPredictions(buffer) {
  return /** @type {{facts: any, arrays: any}} */ (unpack(buffer));
}

/** @param {ArrayBuffer} buffer of a map @returns {PackedMap} */
export function unpackMap(buffer) {
  return /** @type {{facts: any, arrays: any}} */ (unpack(buffer));
}

/**
 * @param {ArrayBuffer} buffer
 * @param {number} start start of the data
 * @param {{name: string, dtype: string, shape: number[], offset: number}} entry
 * @returns {Column}
 */
function column(buffer, start, { name, dtype, shape, offset }) {
  const Kind = KINDS[/** @type {keyof typeof KINDS} */ (dtype)];
  if (!Kind) throw new Error(`array "${name}" is ${dtype}; known are ${Object.keys(KINDS).join(", ")}`);
  const length = shape.reduce((product, size) => product * size, 1);
  const end = start + offset + length * Kind.BYTES_PER_ELEMENT;
  if (end > buffer.byteLength) throw new Error(`array "${name}" ends at byte ${end}, the blob at ${buffer.byteLength}`);
  return new Kind(buffer, start + offset, length);
}
