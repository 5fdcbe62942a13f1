// The views of a run's learning curves and samples, and of its model.

import { $, ask, asker, make, number, partElements, plain, showError, stream } from "./common.js";
import { drawChart, swatch } from "./chart.js";

// --- curves ---------------------------------------------------------------------------------

const askCurves = asker();
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
  const said = `Training loss: ${last(train)}; validation loss: ${last(validation)}; ` +
    `${number(seconds)} seconds.`;
  if ($("#run-now").textContent !== said) $("#run-now").textContent = said;
  drawChart($("#run-chart"), [train, validation], { x: "step", y: "loss (nats per token)",
    description: `Loss against steps. ${said}` });
  const shown = [...$("#samples").querySelectorAll("h3")].map((title) => title.textContent);
  if (shown.join() === samples.map((sample) => sample.name).join()) return;
  $("#samples").replaceChildren(...samples.flatMap((sample) =>
    [make("h3", {}, sample.name), make("pre", { class: "prose" }, sample.text)]));
}

// --- the model ------------------------------------------------------------------------------

const askModel = asker();
let generating = null;

function asked() {
  const value = (name) => $(`#model [name=${name}]`).value;
  return { run: Number(value("run")), text: value("text"),
    temperature: Number(value("temperature")), top_p: Number(value("top_p")),
    top_k: value("top_k") ? Number(value("top_k")) : null,
    max_new_tokens: Number(value("max_new_tokens")), seed: Number(value("seed")) };
}

const askAttention = asker();

async function updateAttention() {
  const value = (name) => $(`#model [name=${name}]`).value;
  const answer = await askAttention((signal) => ask("attention", { run: Number(value("run")),
    text: value("text"), layer: Number(value("layer")), head: Number(value("head")),
    token: Number(value("token")) }, signal));
  if (!answer) return;
  const { tokens, weights } = answer;
  const chosen = Math.min(Number(value("token")), tokens.length - 1);
  $("#model [name=layer]").max = answer.num_layers - 1;
  $("#model [name=head]").max = answer.num_heads - 1;
  $("#model [name=token]").max = Math.max(0, tokens.length - 1);
  $("#attention-now").textContent = tokens.length ? `${plain(tokens[chosen].parts)} attends to ` +
    "the underlined tokens; a thicker line is a higher weight." : "";
  $("#attention").replaceChildren(...tokens.map((token, index) => {
    const span = make("span", { class: "token attended" }, ...partElements(token.parts, true));
    span.classList.toggle("new", index === chosen);
    span.style.borderBottomWidth = `${Math.round(12 * weights[index])}px`;
    const percent = `${number(100 * weights[index], 1)} %`;
    const item = make("li", { title: `${plain(token.parts)}\nweight ${percent}` }, span);
    item.addEventListener("click", () => {
      $("#model [name=token]").value = index;
      $("#model [name=token]").dispatchEvent(new Event("input", { bubbles: true }));
    });
    return item;
  }));
}

async function updateModel() {
  updateAttention();
  const request = asked();
  const answers = await askModel((signal) => Promise.all([
    ask("next_tokens", request, signal), ask("losses", request, signal)]));
  if (!answers) return;
  const [next, losses] = answers;
  $("#next").replaceChildren(...next.tokens.map((token) => {
    const bar = make("span", { class: "bar" });
    bar.style.width = `${10 * token.probability / next.tokens[0].probability}rem`;
    return make("tr", { class: token.kept ? "" : "dropped" },
      make("td", {}, ...partElements(token.parts)), make("td", {}, token.id),
      make("td", {}, `${number(100 * token.probability, 2)} %`), make("td", {}, bar),
      make("td", {}, token.kept ? "" : "not sampled"));
  }));
  let total = 0;
  $("#losses").replaceChildren(...losses.tokens.map((token) => {
    total += token.loss;
    const item = make("li", { title: `${plain(token.parts)}\nloss ${number(token.loss, 3)}` },
      make("span", { class: `token loss${Math.min(4, Math.floor(token.loss / 2))}` },
        ...partElements(token.parts, true)));
    return item;
  }));
  const size = losses.tokens.length;
  const cut = losses.num_tokens > size ? `; the first ${number(size)} of ` +
    `${number(losses.num_tokens)} tokens fit the context` : "";
  $("#losses-now").textContent = size ? `${number(total / size, 3)} nats per token${cut}` : "";
}

async function generate() {
  stop();
  const own = (generating = new AbortController());
  setRunning(true);
  showError("");
  const output = $("#generated");
  output.replaceChildren(make("span", { class: "prompt" }, asked().text));
  try {
    for await (const row of stream("generate", asked(), own.signal)) output.append(row.text);
  } catch (error) {
    if (!own.signal.aborted) showError(error.message);
  }
  if (generating === own) setRunning(false);
}

function setRunning(running) {
  $("#generate-start").disabled = running;
  $("#generate-stop").disabled = !running;
}

function stop() {
  generating?.abort();
  generating = null;
  setRunning(false);
}

export const views = {
  run: {
    start: () => $("#run-legend").prepend(swatch(0), " training loss ", swatch(1),
      " validation loss"),
    update: updateCurves,
    leave: () => clearTimeout(timer),
  },
  model: {
    start: () => {
      $("#generate-start").addEventListener("click", generate);
      $("#generate-stop").addEventListener("click", stop);
    },
    update: updateModel,
    leave: stop,
  },
};
