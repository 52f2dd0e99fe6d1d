import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LaneModel, limitText } from "l5kit/lane_model";

/** Lane a leads to b and to c, which is beyond the map; b lies on the left of a. */
const lanes = new LaneModel({
  facts: { num_lanes: 2, ids: ["a", "b", "c"] },
  arrays: {
    limit_mps: Float32Array.of(10, Number.NaN),
    length_m: Float32Array.of(1, 2),
    has_light: Uint8Array.of(0, 1),
    left: Int32Array.of(1, -1),
    right: Int32Array.of(-1, 0),
    ahead_starts: Uint32Array.of(0, 2, 2),
    ahead: Uint32Array.of(1, 2),
    behind_starts: Uint32Array.of(0, 0, 1),
    behind: Uint32Array.of(0),
  },
});

test("lanes are found by id, those beyond the map are not", () => {
  assert.equal(lanes.numberOf("b"), 1);
  assert.equal(lanes.numberOf("c"), null);
  assert.equal(lanes.numberOf("toString"), null);
});

test("neighbours have ids, and say whether they are here", () => {
  const a = { number: 0, id: "a", isHere: true };
  const b = { number: 1, id: "b", isHere: true };
  const c = { number: 2, id: "c", isHere: false };
  assert.deepEqual(lanes.neighbours(0), { left: [b], right: [], ahead: [b, c], behind: [] });
  assert.deepEqual(lanes.neighbours(1), { left: [], right: [a], ahead: [], behind: [a] });
});

describe("limits", () => {
  const cases = [
    [13.4112, "13.4 m/s (48 km/h)"],
    [Number.NaN, "unknown"],
  ];
  for (const [limit_mps, text] of cases) test(text, () => assert.equal(limitText(limit_mps), text));
});
