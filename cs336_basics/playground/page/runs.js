// The views of a run's learning curves and samples, and of its model.

import { ask, stream } from "./backend.js";
import {
  $, asker, bar, make, number, numBytes, partElements, plain, quoted, saveLink, several, showError,
  startAndStop, tableRow,
} from "./common.js";
import { drawChart, swatch } from "./chart.js";

// --- curves ---------------------------------------------------------------------------------

const askCurves = asker("curves");
let timer = null;

async function updateCurves() {
  clearTimeout(timer);
  const run = Number($("#run [name=run]").value);
  const answer = await askCurves((signal) => ask("curves", { run }, signal));
  if (answer) showCurves(answer);
  clearTimeout(timer);
  if (!$("#run").hidden) timer = setTimeout(updateCurves, 3000);
}

function showCurves({ losses, seconds, samples }) {
  const [train, validation] = [losses.train_loss, losses.val_loss];
  const last = (points) => (points.length
    ? `${number(points.at(-1)[1], 3)} at step ${number(points.at(-1)[0])}` : "none yet");
  const said = `Training loss: ${last(train)}. Validation loss: ${last(validation)}. ` +
    `Time: ${several(Math.round(seconds), "second")}.`;
  if ($("#run-now").textContent !== said) $("#run-now").textContent = said;
  drawChart($("#run-chart"), [train, validation], { x: "step", y: "loss (nats per token)",
    description: `Loss against steps. ${said}` });
  const titles = samples.map((sample) => sample.name.replace(/^step_0*(?=.)/, "Step "));
  const shown = [...$("#samples").querySelectorAll("h3")].map((title) => title.textContent);
  if (!titles.length) $("#samples").replaceChildren("none yet");
  if (shown.join() === titles.join()) return;
  $("#samples").replaceChildren(...samples.map((sample, index) => make("details",
    index ? {} : { open: "" }, make("summary", {}, make("h3", {}, titles[index])),
    make("pre", { class: "prose" }, sample.text.trimStart()))));
}

// --- the model ------------------------------------------------------------------------------

const askModel = asker("model");
const askNext = asker("next");
let stopGenerating;
let pointed = null;  // index of the token under the pointer
let pointing = null;  // timer before its distribution is requested
let shown = { text: "", tokens: [], last: -1 };  // the text whose losses are shown

const value = (name) => $(`#model [name=${name}]`).value;
const numberOrNull = (name) => (value(name) ? Number(value(name)) : null);
const percent = (share, digits) => `${number(100 * share, digits)} %`;

function asked() {
  const names = ["run", "temperature", "top_p", "max_new_tokens", "seed", "layer", "head"];
  return { ...Object.fromEntries(names.map((name) => [name, Number(value(name))])),
    text: value("text"), top_k: numberOrNull("top_k"), token: numberOrNull("token") };
}

async function updateModel() {
  clearTimeout(pointing);
  askNext.drop();  // its answer is about earlier settings
  pointed = null;
  const request = asked();
  const isFirst = !$("#next").children.length;
  if (isFirst) $("#next-now").textContent = "The model is loading.";
  const answers = await askModel((signal) => Promise.all(
    ["next_tokens", "losses", "attention"].map((name) => ask(name, request, signal))));
  if (!answers) {
    if (isFirst && !$("#error").hidden) $("#next-now").textContent = "";
    return;
  }
  showError("", "next");
  const [next, losses, attention] = answers;
  shown = { text: request.text, tokens: losses.tokens, last: losses.num_tokens - 1 };
  showLosses(losses);
  showNext(next);
  showAttention(attention);
  followCaret();
}

// The distribution after a token: the chosen token, or the one under the pointer.

function showNext({ after, index, tokens }) {
  const place = after.length ? `After ${quoted(after[0])} (token ${index})` : "At the start";
  const named = (token) => `${quoted(token)} (${percent(token.probability, 2)})`;
  const follows = tokens.find((token) => token.follows);
  const said = tokens.slice(0, 1).map((token) => `${place}, ${named(token)} is most likely.`);
  if (follows) said.push(`The text continues with ${named(follows)}.`);
  $("#next-now").textContent = said.join(" ");
  $("#next").replaceChildren(...tokens.map((token) => {
    const notes = [token.follows && "in the text", !token.kept && "not sampled"].filter(Boolean);
    return tableRow([partElements(token.parts), token.id, percent(token.probability, 2),
      [bar(token.probability / tokens[0].probability)], notes.join(", ")],
    `${token.kept ? "" : "dropped"} ${token.follows ? "now" : ""}`);
  }));
  [...$("#losses").children].forEach((item, at) => item.setAttribute("aria-current", at === index));
}

function point(token) {
  clearTimeout(pointing);
  pointing = setTimeout(async () => {
    const answer = await askNext((signal) => ask("next_tokens", { ...asked(), token }, signal));
    if (answer) showNext(answer);
  }, 50);
}

/** Choose a token. If it is the last one, the last token stays chosen as the text grows. */
function choose(index) {
  const field = $("#model [name=token]");
  const chosen = index === shown.last ? "" : String(index);
  if (field.value === chosen) return;
  field.value = chosen;
  saveLink();
  updateModel();
}

/** Choose the token before the caret of the text. */
function followCaret() {
  const field = $("#model [name=text]");
  if (document.activeElement !== field || field.value !== shown.text) return;
  const before = new TextEncoder().encode(field.value.slice(0, field.selectionStart)).length;
  let end = 0;
  const index = shown.tokens.findIndex((token) => (end += numBytes(token)) >= before);
  choose(index < 0 ? shown.last : index);
}

function followPointer(list) {
  const indexOf = (event) => [...list.children].indexOf(event.target.closest("li"));
  // Unlike pointerover, pointermove is not fired when the list changes under the pointer.
  list.addEventListener("pointermove", (event) => {
    const index = indexOf(event);
    if (index < 0 || index === pointed) return;
    pointed = index;
    point(index);
  });
  list.addEventListener("pointerleave", () => {
    pointed = null;
    point(numberOrNull("token"));
  });
  list.addEventListener("click", (event) => {
    if (indexOf(event) >= 0) choose(indexOf(event));
  });
}

function showLosses({ tokens, num_tokens: total }) {
  let sum = 0;
  $("#losses").replaceChildren(...tokens.map((token) => {
    sum += token.loss;
    return make("li", { title: `${plain(token.parts)}\nloss ${number(token.loss, 3)}` },
      make("span", { class: `token loss${Math.min(4, Math.floor(token.loss / 2))}` },
        ...partElements(token.parts, true)));
  }));
  const size = tokens.length;
  $("#model [name=token]").max = Math.max(0, size - 1);
  const cut = total > size ? `; the first ${number(size)} of ${number(total)} tokens fit in ` +
    "the context" : "";
  $("#losses-now").textContent = size ? `${number(sum / size, 3)} nats per token${cut}` : "";
}

function showAttention({ tokens, weights, index, num_layers: layers, num_heads: heads }) {
  $("#model [name=layer]").max = layers - 1;
  $("#model [name=head]").max = heads - 1;
  $("#attention-now").textContent = tokens.length ? `${quoted(tokens[index])} attends to ` +
    "the underlined tokens. A thicker line means a higher weight." : "";
  $("#attention").replaceChildren(...tokens.map((token, at) => {
    const span = make("span", { class: "token attended" }, ...partElements(token.parts, true));
    span.classList.toggle("new", at === index);
    span.style.borderBottomWidth = `${Math.round(12 * weights[at])}px`;
    const item = make("li", { title: `${plain(token.parts)}\nweight ${percent(weights[at], 1)}` },
      span);
    item.addEventListener("click", () => choose(at));
    return item;
  }));
}

async function generate(signal) {
  const output = $("#generated");
  output.replaceChildren(make("span", { class: "prompt" }, asked().text));
  await stream("generate", asked(), signal, (row) => output.append(row.text));
}

export const views = {
  run: {
    start: () => $("#run-legend").append(make("span", {}, swatch(0), " training loss"),
      make("span", {}, swatch(1), " validation loss")),
    update: updateCurves,
    leave: () => clearTimeout(timer),
  },
  model: {
    start: () => {
      stopGenerating = startAndStop("generate", generate);
      followPointer($("#losses"));
      document.addEventListener("selectionchange", followCaret);
    },
    update: updateModel,
    leave: () => {
      clearTimeout(pointing);
      stopGenerating();
    },
  },
};
