import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { colorOf, describe as describeFailure, frameBefore, rowsOfMarks } from "l5kit/failures";

const TIME_S = Float64Array.from({ length: 60 }, (_, frame) => frame / 10);
const failure = (
  first_frame,
  last_frame = first_frame,
  { kind = "off_road", name = "Off road", track_id = null } = {},
) => ({
  kind,
  name,
  first_frame,
  last_frame,
  track_id,
});

describe("a failure is played from two seconds before", () => {
  const cases = [
    [43, 23],
    [20, 0],
    [21, 1],
    [3, 0],
    [0, 0],
  ];
  for (const [first, start] of cases) {
    test(`frame ${first}`, () => assert.equal(frameBefore(failure(first), TIME_S), start));
  }
  test("by time, not by number, where frames are missing", () => {
    assert.equal(frameBefore(failure(3), [0, 1, 5, 6.5]), 1);
  });
});

describe("a failure is described", () => {
  const cases = [
    [failure(43), "Off road, 4.3 s"],
    [failure(43, 50), "Off road, 4.3 to 5.0 s"],
    [
      failure(43, 43, { kind: "collision", name: "Collision, at fault", track_id: "18446744073709551615" }),
      "Collision, at fault with track 18446744073709551615, 4.3 s",
    ],
    [
      failure(46, 46, { kind: "appeared_close", name: "Appears close", track_id: "31" }),
      "Appears close: track 31, 4.6 s",
    ],
  ];
  for (const [given, text] of cases) test(text, () => assert.equal(describeFailure(given, TIME_S), text));
});

test("kinds have tones of their own", () => {
  const kinds = ["collision_at_fault", "collision", "off_road", "wrong_direction", "time_to_collision", "speeding"];
  const tones = [...kinds, "appeared_close", "comfort"].map((kind) => colorOf(failure(0, 0, { kind })));
  assert.equal(new Set([...tones, colorOf(failure(0, 0, { kind: "of_somebody" }))]).size, 9);
});

test("marks lie in as few rows as they need, none over another", () => {
  assert.deepEqual(rowsOfMarks([], 2), []);
  assert.deepEqual(
    rowsOfMarks([failure(0, 9), failure(5, 6), failure(10, 12), failure(10), failure(11)], 2),
    [0, 1, 0, 1, 2],
  );
});
