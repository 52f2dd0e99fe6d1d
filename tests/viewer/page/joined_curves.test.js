import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { joinCurves, shiftOf } from "l5kit/joined_curves";

const SPEED = { key: "speed", name: "Speed", chip: "Speed", unit: "m/s", digits: 1, axis: "speed", kinds: [] };
const GAP = { ...SPEED, key: "gap", name: "Gap", axis: "" };

/** A drive of some frames, a tenth of a second apart. */
function drive(name, speeds, { source = 3, start_time_ns = "1000000000", gaps = speeds.map(() => null) } = {}) {
  return {
    name,
    source,
    start_time_ns,
    time_s: speeds.map((_, frame) => frame / 10),
    curves: [SPEED, GAP],
    values: { speed: speeds, gap: gaps, log_speed: speeds.map((speed) => speed + 10) },
  };
}

describe("two drives of a scene", () => {
  test("share an axis, the log is that of the first", () => {
    const joined = joinCurves([drive("a", [1, 2]), drive("b", [3, 4])]);
    assert.deepEqual(joined.time_s, [0, 0.1]);
    assert.deepEqual(joined.curves[0].lines, [
      { name: "a", kind: "first", values: [1, 2] },
      { name: "b", kind: "second", values: [3, 4] },
      { name: "log", kind: "log", values: [11, 12] },
    ]);
  });
  test("curves without a value are left out, and lines of one drive alone stay", () => {
    const joined = joinCurves([drive("a", [1, 2]), drive("b", [3, 4], { gaps: [null, 5] })]);
    assert.deepEqual(
      joined.curves.map(({ curve, lines }) => [curve.key, lines.map(({ name }) => name)]),
      [
        ["speed", ["a", "b", "log"]],
        ["gap", ["b"]],
      ],
    );
    assert.deepEqual(joinCurves([drive("a", [1]), drive("b", [2])]).curves.length, 1);
  });
  test("one that begins later stands later, and one that is shorter ends earlier", () => {
    const joined = joinCurves([drive("a", [1, 2, 3]), drive("b", [4, 5, 6], { start_time_ns: "1200000000" })]);
    assert.deepEqual(joined.time_s, [0, 0.1, 0.2, 0.3, 0.4]);
    assert.deepEqual(
      joined.curves[0].lines.slice(0, 2).map(({ values }) => values),
      [
        [1, 2, 3, null, null],
        [null, null, 4, 5, 6],
      ],
    );
  });
});

test("beside a log the drive stands alone, in the colour of its side", () => {
  const { curves } = joinCurves([null, drive("b", [1, 2])]);
  assert.deepEqual(
    curves[0].lines.map(({ kind }) => kind),
    ["second", "log"],
  );
});

test("nothing is joined without drives, or while the scenes are not the same", () => {
  assert.equal(joinCurves([null, null]), null);
  assert.equal(joinCurves([drive("a", [1]), drive("b", [1], { source: 4 })]), null);
});

test("drives of other days begin together", () => {
  const first = drive("a", [1, 2, 3]);
  assert.equal(shiftOf(drive("b", [1, 2, 3], { start_time_ns: "90000000000000" }), first), 0);
  assert.equal(shiftOf(drive("b", [1, 2, 3], { start_time_ns: "900000000" }), first), -0.1);
});
