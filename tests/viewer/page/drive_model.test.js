import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { DriveModel } from "l5kit/drive_model";

const NAN = Number.NaN;
const drive = (failures = []) =>
  new DriveModel({
    facts: { failures, plan_times_s: [0.1, 0.2, 0.3] },
    arrays: {
      log_xy: Float32Array.of(1, 2, NAN, NAN),
      log_yaw: Float32Array.of(0.5, NAN),
      log_speed: Float32Array.of(3, NAN),
      ghost_starts: Uint32Array.of(0, 0, 3),
      ghost_xy: Float32Array.of(1, 2, 3, 4, NAN, 6),
      ghost_yaw: Float32Array.of(0, 1, 2),
      ghost_extent: Float32Array.of(4, 2, 1, 5, 3, 1, 4, 2, 1),
      plan_xy: Float32Array.of(1, 0, 2, 0, 3, 0, 4, 1, NAN, NAN, NAN, NAN),
      speed: Float32Array.of(7, 8),
      time_to_collision: Float32Array.of(NAN, NAN),
    },
  });

test("a plan ends where it is no longer known", () => {
  assert.deepEqual(drive().planAt(0), [1, 0, 2, 0, 3, 0]);
  assert.deepEqual(drive().planAt(1), [4, 1]);
});

test("the AV of the log has the size of the AV, and is nowhere in frames that the log lacks", () => {
  assert.deepEqual(drive().egoGhost(0, [5, 2]), { track: -2, row: -1, x: 1, y: 2, yaw: 0.5, length: 5, width: 2 });
  assert.equal(drive().egoGhost(1, [5, 2]), null);
});

test("ghosts of agents are those of the frame that are somewhere", () => {
  assert.deepEqual(drive().agentGhosts(0), []);
  assert.deepEqual(
    drive()
      .agentGhosts(1)
      .map(({ x, y, yaw, length, width }) => [x, y, yaw, length, width]),
    [
      [1, 2, 0, 4, 2],
      [3, 4, 1, 5, 3],
    ],
  );
});

test("curves have gaps where there is no value, and are none where there is not one", () => {
  assert.deepEqual(drive().curve("log_speed"), [3, null]);
  assert.ok(drive().hasCurve("speed"));
  assert.ok(!drive().hasCurve("time_to_collision"));
});

describe("failures come one after the other", () => {
  const three = [{}, {}, {}];
  const cases = [
    ["the first to begin with", three, -1, 1, 0],
    ["the last, backwards", three, -1, -1, 2],
    ["the next", three, 0, 1, 1],
    ["the first behind the last", three, 2, 1, 0],
    ["the last before the first", three, 0, -1, 2],
    ["none where there is none", [], -1, 1, null],
  ];
  for (const [name, failures, at, by, next] of cases) {
    test(name, () => {
      const model = drive(failures);
      model.at = at;
      assert.equal(model.nextFailure(by), next);
    });
  }
});
