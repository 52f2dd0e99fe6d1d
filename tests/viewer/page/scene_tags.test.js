import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { emptyFilter, SceneTable } from "l5kit/scene_table";
import { followTags, nextStart, SceneTags } from "l5kit/scene_tags";

const kinds = [
  { name: "cut_in", label: "cut-in", is_known: true },
  { name: "standing", label: "standing", is_known: true },
  { name: "stop_at_red", label: "stop at red", is_known: false },
];
const parts = {
  0: { tags: kinds, scenes: { 0: { standing: [[3, 9]] } }, done: 1, error: "" },
  1: {
    tags: kinds,
    scenes: {
      1: {
        stop_at_red: [[0, 40]],
        cut_in: [
          [5, 6],
          [80, 81],
        ],
      },
    },
    done: 3,
    error: "",
  },
};
const names = (tags) => tags.map(({ name }) => name);

test("tags of a scene come in the order of the kinds, with their events", () => {
  const tags = new SceneTags();
  tags.add(parts[1]);
  assert.deepEqual(names(tags.of(1)), ["cut_in", "stop_at_red"]);
  assert.deepEqual(tags.of(1)[0].events, [
    [5, 6],
    [80, 81],
  ]);
  assert.deepEqual(tags.of(2), []);
  assert.ok(tags.has(1, "cut_in"));
  assert.ok(!tags.has(1, "standing"));
  assert.ok(!tags.has(2, "toString"));
  assert.deepEqual(tags.unknown(), ["stop at red"]);
});

describe("a press on a tag goes to", () => {
  const events = [
    [5, 9],
    [80, 81],
  ];
  const cases = [
    [-1, 5],
    [4, 5],
    [5, 80],
    [79, 80],
    [80, 5],
    [200, 5],
  ];
  for (const [frame, expected] of cases) {
    test(`frame ${expected} from ${frame}`, () => assert.equal(nextStart(events, frame), expected));
  }
});

describe("scenes are found by tags", () => {
  const table = new SceneTable({ host: ["a", "b", "c"] }, 3);
  table.tags.add(parts[0]);
  table.tags.add(parts[1]);
  const listed = (filter) => [...table.listed({ ...emptyFilter(), ...filter }, { key: "scene", descending: false })];
  const cases = [
    ["label", { text: "Stop at red" }, [1]],
    ["label with a hyphen", { text: "cut-in" }, [1]],
    ["the same without", { text: "cut in" }, [1]],
    ["chip", { tags: new Set(["standing"]) }, [0]],
    ["several chips", { tags: new Set(["cut_in", "stop_at_red"]) }, [1]],
    ["chips that no scene has together", { tags: new Set(["cut_in", "standing"]) }, []],
  ];
  for (const [name, filter, scenes] of cases) test(name, () => assert.deepEqual(listed(filter), scenes));
  test("and named in the tooltip", () => assert.match(table.summary(1), /Tags: cut-in, stop at red/));
});

describe("tags are asked for", () => {
  test("until all scenes have been looked at, from where the last answer ended", async () => {
    const asked = [];
    const heard = [];
    const answers = [{ ...parts[0], scenes: {}, done: 0 }, parts[0], { ...parts[0], scenes: {} }, parts[1]];
    const ask = async (first) => {
      asked.push(first);
      return answers[asked.length - 1];
    };
    const pauses = [];
    const tags = await followTags(
      ask,
      3,
      ({ done }) => heard.push(done),
      async (ms) => void pauses.push(ms),
    );
    assert.deepEqual(asked, [0, 0, 1, 1]);
    assert.deepEqual(heard, [0, 1, 3]);
    assert.deepEqual(pauses, [100, 200, 400]);
    assert.deepEqual([names(tags.of(0)), names(tags.of(1))], [["standing"], ["cut_in", "stop_at_red"]]);
  });
  test("no more after an error", async () => {
    let count = 0;
    const ask = async () => ({ ...parts[0], done: 1, error: `broken ${++count}` });
    const tags = await followTags(
      ask,
      3,
      () => {},
      async () => {},
    );
    assert.equal(tags.error, "broken 1");
  });
});
