import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { DRIVEN_FIELDS, emptyFilter, FIELDS, SceneTable } from "l5kit/scene_table";

const table = new SceneTable(
  {
    num_frames: [250, 100, null, 250],
    length_s: [25, 10.04, null, 25],
    agents_per_frame: [3, 40, null, 3.25],
    distance_m: [120.4, null, null, 7],
    turn: ["left", null, null, "standing"],
    turn_deg: [88, null, null, 0],
    speed_mps: [4.8, null, null, 0.28],
    host: ["host-a013", "host-a101", null, "HOST-B"],
    error: { 2: "frames/3 is missing" },
    doubt: { 1: "ego_translation is not finite" },
  },
  4,
);
const listed = (filter = {}, key = "scene", descending = false) => [
  ...table.listed({ ...emptyFilter(), ...filter }, { key, descending }),
];

describe("scenes pass a filter", () => {
  const cases = [
    ["none", {}, [0, 1, 2, 3]],
    ["of a host, whatever its case", { text: " A0 " }, [0]],
    ["of a host in capitals", { text: "host-b" }, [3]],
    ["of a number", { text: "2" }, [2]],
    ["of a turn", { turns: new Set(["left", "standing"]) }, [0, 3]],
    ["at least, with the bound", { ranges: { length_s: { min: 25, max: null } } }, [0, 3]],
    ["at most, with the bound", { ranges: { length_s: { min: null, max: 10.04 } } }, [1]],
    ["unknown values pass no bound", { ranges: { distance_m: { min: 0, max: null } } }, [0, 3]],
    ["a range that is not set", { ranges: { distance_m: { min: null, max: null } } }, [0, 1, 2, 3]],
    ["all together", { text: "host", turns: new Set(["left"]), ranges: { scene: { min: 1, max: null } } }, []],
  ];
  for (const [name, filter, scenes] of cases) test(name, () => assert.deepEqual(listed(filter), scenes));
});

describe("scenes are sorted", () => {
  const cases = [
    ["scene", false, [0, 1, 2, 3]],
    ["scene", true, [3, 2, 1, 0]],
    ["agents_per_frame", false, [0, 3, 1, 2]],
    ["agents_per_frame", true, [1, 3, 0, 2]],
    ["num_frames", true, [0, 3, 1, 2]],
    ["turn", false, [0, 3, 1, 2]],
    ["turn", true, [3, 0, 1, 2]],
  ];
  for (const [key, descending, scenes] of cases) {
    test(`by ${key}, ${descending ? "falling" : "rising"}`, () =>
      assert.deepEqual(listed({}, key, descending), scenes));
  }
});

test("cells show what is known", () => {
  const cells = (scene) => FIELDS.map((field) => table.cell(scene, field));
  assert.deepEqual(cells(0), ["0", "25.0", "250", "3.0", "120", "left", "4.8"]);
  assert.deepEqual(cells(1), ["1", "10.0", "100", "40.0", "\u2013", "damaged", "\u2013"]);
  assert.equal(cells(2)[5], "");
});

test("the summary has it all, or what is wrong", () => {
  const lines = ["Scene 0, host host-a013", "25.0 s, 250 frames", "3.0 agents a frame"];
  assert.equal(table.summary(0), [...lines, "120.4 m driven, 4.80 m/s on average", "left (88\u00b0)"].join("\n"));
  assert.equal(table.summary(2), "Scene 2\nframes/3 is missing");
  assert.match(table.summary(1), /\nDamaged: ego_translation is not finite$/);
});

test("a table of a server that knows nothing is empty", () => {
  const empty = new SceneTable({}, 2);
  assert.deepEqual([...empty.listed(emptyFilter(), { key: "turn", descending: false })], [0, 1]);
  assert.equal(empty.error(0), null);
  assert.equal(empty.cell(0, FIELDS[5]), "");
});

describe("scenes of a simulation", () => {
  const drives = new SceneTable(
    {
      score: [1, 0.25, null, 0],
      failed: [[], ["uncomfortable"], [], ["collision", "off road"]],
      log_scene: [0, 1, 2, 7],
      host: ["a", "b", "c", "d"],
      error: { 2: "not driven to its end" },
    },
    4,
  );
  const order = ({ key, descending }) => [...drives.listed(emptyFilter(), { key, descending })];

  test("have columns of their own, the lowest score first, and those without one last", () => {
    assert.equal(drives.fields, DRIVEN_FIELDS);
    assert.equal(table.fields, FIELDS);
    assert.deepEqual(order(drives.order), [3, 1, 0, 2]);
    assert.deepEqual(order(table.order), [0, 1, 2, 3]);
  });
  test("are sorted by the number of metrics that failed", () => {
    assert.deepEqual(order({ key: "failed", descending: true }), [3, 1, 0, 2]);
  });
  test("name what failed", () => {
    const failed = DRIVEN_FIELDS.find(({ key }) => key === "failed");
    assert.equal(drives.cell(3, failed), "collision, off road");
    assert.equal(drives.cell(0, failed), "");
    assert.match(drives.summary(3), /Scene 7 of the log\nScore 0.000, failed: collision, off road/);
    assert.match(drives.summary(0), /failed: nothing/);
  });
  test("are found by what failed", () => {
    assert.deepEqual([...drives.listed({ ...emptyFilter(), text: "Off Road" }, drives.order)], [3]);
  });
});
