import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { addressOf, differs, gainOf, partnerOf, sorted } from "l5kit/overview_model";

const planners = ["base", "one", "two"].map((name) => ({ name, mean: "", verdict: "" }));

/** Scenes of three planners, of which the first is the reference. */
function facts(values, changes = {}) {
  const scenes = values.map((of_scene, at) => ({
    scene: 10 * at,
    places: [at, at + 1, at + 2],
    values: of_scene,
    failures: ["", "", ""],
    tags: [],
  }));
  return { label: "Score", digits: 3, low_is_better: false, reference: 0, planners, scenes, ...changes };
}

describe("what a planner gains on the reference", () => {
  const { scenes, ...rest } = facts([[0.5, 0.75, null]]);
  test("is above 0 where it is better", () => assert.equal(gainOf(rest, scenes[0], 1), 0.25));
  test("turns round where less is better", () =>
    assert.equal(gainOf({ ...rest, low_is_better: true }, scenes[0], 1), -0.25));
  test("is nothing where a value is missing", () => assert.equal(gainOf(rest, scenes[0], 2), 0));
  test("is nothing where values have the same digits", () => {
    const same = facts([[0.5, 0.5 + 1e-12, 0.5]]);
    assert.equal(differs(same, same.scenes[0]), false);
  });
});

test("a planner plays beside the reference, the reference beside the planner that differs most", () => {
  const all = facts([[0.5, 0.6, 0.1]]);
  assert.deepEqual(
    [0, 1, 2].map((planner) => partnerOf(all, all.scenes[0], planner)),
    [2, 0, 0],
  );
});

test("the reference is on the left, with the number that the scene has there", () => {
  const all = facts(
    [
      [0, 0, 0],
      [0.5, 0.6, 0.1],
    ],
    { reference: 1 },
  );
  const addresses = [0, 1, 2].map((planner) => addressOf(all, all.scenes[1], planner));
  assert.deepEqual(addresses, [
    "beside?left=planner-1&right=planner-0#scene=2",
    "beside?left=planner-1&right=planner-2#scene=2",
    "beside?left=planner-1&right=planner-2#scene=2",
  ]);
});

test("scenes are sorted by number, by the value of the reference, and by what a planner gains", () => {
  const all = facts([
    [0.9, 0.1, 0],
    [0.2, 0.3, 0],
    [0.5, 0.5, 0],
  ]);
  const order = (planner, falls) => sorted(all, { planner, falls }).map(({ scene }) => scene);
  assert.deepEqual(order(null, false), [0, 10, 20]);
  assert.deepEqual(order(null, true), [20, 10, 0]);
  assert.deepEqual(order(0, true), [0, 20, 10]);
  assert.deepEqual(order(1, true), [10, 20, 0]);
  assert.deepEqual(order(1, false), [0, 20, 10]);
});
