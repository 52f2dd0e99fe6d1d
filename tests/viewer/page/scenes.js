/** Small scenes and blobs for the tests of the page. */

import { Buffer } from "node:buffer";

const LABELS = ["PERCEPTION_LABEL_UNKNOWN", "PERCEPTION_LABEL_CAR", "PERCEPTION_LABEL_PEDESTRIAN"];

/**
 * A scene as `unpackScene` gives it; each frame is a list of agents `{track, x, y}` with what else an agent has.
 * @param {{track: number, x?: number, y?: number, yaw?: number, label?: number, velocity?: number[], extent?: number[]}[][]} frames
 */
export function packedScene(frames, { trackIds = ["7", "12", "345"], times, ego } = {}) {
  const rows = frames.flat();
  const starts = [0];
  for (const frame of frames) starts.push(starts.at(-1) + frame.length);
  const arrays = {
    time_s: Float32Array.from(times ?? frames.map((_, frame) => frame / 10)),
    ego_xy: Float32Array.from(ego ?? frames.flatMap((_, frame) => [frame, 0])),
    ego_yaw: new Float32Array(frames.length),
    ego_speed: new Float32Array(frames.length).fill(10),
    agent_starts: Uint32Array.from(starts),
    agent_track: Uint32Array.from(rows, (row) => row.track),
    agent_xy: Float32Array.from(rows.flatMap(({ x = 0, y = 0 }) => [x, y])),
    agent_yaw: Float32Array.from(rows, (row) => row.yaw ?? 0),
    agent_extent: Float32Array.from(rows.flatMap(({ extent = [4, 2, 1.5] }) => extent)),
    agent_velocity: Float32Array.from(rows.flatMap(({ velocity = [0, 0] }) => velocity)),
    agent_label: Uint8Array.from(rows, (row) => row.label ?? 1),
  };
  const facts = {
    scene_index: 4,
    num_frames: frames.length,
    track_ids: trackIds,
    labels: LABELS,
    origin_m: [100, 200],
  };
  return { facts, arrays };
}

/**
 * Bytes as `packed_arrays.py` makes them.
 * @param {Record<string, unknown>} facts
 * @param {Record<string, [string, number[], ArrayBufferView]>} arrays type, shape and values by name
 * @returns {ArrayBuffer}
 */
export function blob(facts, arrays) {
  const entries = [];
  const parts = [];
  let offset = 0;
  for (const [name, [dtype, shape, values]] of Object.entries(arrays)) {
    const bytes = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
    const padded = Buffer.concat([bytes, Buffer.alloc((8 - (bytes.length % 8)) % 8)]);
    entries.push({ name, dtype, shape, offset });
    parts.push(padded);
    offset += padded.length;
  }
  const json = JSON.stringify({ facts, arrays: entries });
  const length = Buffer.byteLength(json);
  const header = Buffer.from(json + " ".repeat((8 - (length % 8)) % 8));
  const start = Buffer.alloc(8);
  start.write("L5KV");
  start.writeUInt32LE(header.length, 4);
  const whole = Buffer.concat([start, header, ...parts]);
  return whole.buffer.slice(whole.byteOffset, whole.byteOffset + whole.length);
}

/**
 * Compare numbers that were computed.
 * @param {ArrayLike<number>} got
 * @param {ArrayLike<number>} expected
 */
export function isClose(got, expected, tolerance = 1e-6) {
  return (
    got.length === expected.length && Array.from(got).every((value, at) => Math.abs(value - expected[at]) <= tolerance)
  );
}
