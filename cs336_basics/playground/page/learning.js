// The views of training, step by step, and of the race between all stages.

import { ask, stream } from "./backend.js";
import {
  $, NUM_COLORS, Steps, asker, bar, make, number, partElements, plain, several, startAndStop,
  tableRow,
} from "./common.js";
import { drawChart, swatch } from "./chart.js";

let server;

// --- one training ---------------------------------------------------------------------------

const askWatch = asker("watch");
let steps;

const pairText = (pair) => `(${plain(pair[0])}, ${plain(pair[1])})`;

async function watch(step) {
  const section = $("#training");
  const text = $("[name=text]", section).value;
  const stage = $("[name=stage]", section).value;
  const state = await askWatch((signal) => ask("watch", { text, stage, step }, signal));
  if (!state) return;
  if (steps.last !== state.last) {
    steps.range.max = state.last;
    steps.range.value = state.step;
    steps.output.textContent = `${state.step} of ${state.last}`;
  }
  showState(state, stage);
}

function showState(state, stage) {
  const done = state.merged ? `Merged ${pairText(state.merged)}. ` : "";
  $("#training-now").textContent = done + nextMerge(state);
  const marked = state.pairs.length ? "; the marked ones contain the next pair" : "";
  $("#words-caption").textContent =
    caption("word", state.words.length, state.num_words) + marked;
  $("#training-words").replaceChildren(...state.words.map((word) => tableRow([number(word.count),
    word.symbols.map((parts, index) =>
      make("span", { class: `token c${index % NUM_COLORS}` }, ...partElements(parts)))],
  word.has_best ? "now" : "")));
  $("#pairs-caption").textContent = caption("pair", state.pairs.length, state.num_pairs);
  const most = state.pairs[0]?.count;
  $("#training-pairs").replaceChildren(...state.pairs.map(({ pair, count }, index) => {
    const look = index === 0 ? "now" : index < state.num_tied ? "tied" : "";
    return tableRow([[...partElements(pair[0]), " + ", ...partElements(pair[1])], number(count),
      [bar(count / most)]], look);
  }));
  $("#training-work").textContent = workText(state.work, stage);
  $("#drawing").textContent = state.drawing ??
    (state.num_words ? "Only words with at most 500 bytes in total are drawn." : "");
}

const caption = (what, some, all) =>
  several(all, what) + (some < all ? `; the first ${number(some)} are shown` : "");

function nextMerge(state) {
  if (!state.pairs.length) return "No pair is left.";
  if (state.step >= state.last) return "The training ends here.";
  const { pair, count } = state.pairs[0];
  const next = `Next: ${pairText(pair)}, which occurs ${several(count, "time")}`;
  if (state.num_tied < 2) return `${next}, more than any other pair.`;
  return `${next}. Of the ${number(state.num_tied)} pairs with this count, it is the greatest in ` +
    "byte order.";
}

function workText(work, stage) {
  if (!work) return "";
  const parts = [`reads ${several(work.positions, server.read_units[stage])}`];
  if (work.words) parts[0] += ` of ${several(work.words, "word")}`;
  if (work.pairs_searched) parts.push(`compares ${several(work.pairs_searched, "pair")}`);
  if (work.heap_entries) {
    parts.push(`moves ${several(work.heap_entries, "heap entry", "heap entries")}`);
  }
  parts.push(`updates counts ${several(work.pairs_updated, "time")}`);
  return `For the next merge, ${stage} ${parts.join(", ")}, and merges ` +
    `${several(work.occurrences, "occurrence")}.`;
}

// --- the race -------------------------------------------------------------------------------

let stopRace;

async function race(signal) {
  const section = $("#race");
  const value = (name) => $(`[name=${name}]`, section).value;
  const results = newResults();
  showRace(results);
  const asked = { text: value("text"), merges: Number(value("merges")),
    seconds: Number(value("seconds")) };
  try {
    $("#race-now").textContent = `${server.stages[0]} is learning`;
    await stream("race", asked, signal, (row) => {
      results.get(row.stage).push(...row.points);
      showRace(results);
      const next = server.stages[server.stages.indexOf(row.stage) + 1];
      if (row.ended && !row.same) throw new Error(`${row.stage} learned different merges`);
      $("#race-now").textContent = !row.ended ? `${row.stage} is learning`
        : next ? `${next} is learning` : "Finished. All stages learned the same merges.";
    });
  } catch (error) {
    $("#race-now").textContent = signal.aborted ? "Stopped." : "";
    throw error;
  }
}

const newResults = () => new Map(server.stages.map((stage) => [stage, []]));

function showRace(results) {
  const all = [...results.values()];
  const ended = [...results].filter(([, points]) => points.length).map(([stage, points]) =>
    `${stage}: ${points.at(-1).merges} merges in ${number(points.at(-1).seconds, 3)} seconds`);
  drawChart($("#race-chart"), all.map((points) => points.map((p) => [p.seconds, p.merges])),
    { x: "seconds (logarithmic)", y: "merges", logX: true, fromZero: true,
      description: `Merges against time. ${ended.join("; ")}` });
  $("#race-table").replaceChildren(...[...results].map(([stage, points], index) => {
    const last = points.at(-1);
    const each = (name) => number(last[name] / last.merges,
      last[name] && last[name] < 10 * last.merges ? 1 : 0);
    const cells = last ? [number(last.merges), number(last.seconds, 4),
      number(last.merges / last.seconds), each("positions"), each("pairs_searched"),
      each("heap_entries")] : Array(6).fill("–");
    return tableRow([[swatch(index), ` ${stage}`], ...cells]);
  }));
}

export const views = {
  training: {
    start: (about) => {
      server = about;
      steps = new Steps($("#training"), watch);
    },
    update: () => steps.go(steps.now),
    leave: () => steps.pause(),
  },
  race: {
    start: () => {
      stopRace = startAndStop("race", race);
      const names = server.stages.filter((stage) => server.read_units[stage] === "occurrence");
      if (names.length) {
        $("#occurrences-note").textContent =
          `Occurrences of the pair instead of symbols: ${names.join(", ")}.`;
      }
      showRace(newResults());
    },
    update: () => {},
    leave: () => stopRace(),
  },
};
