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

async function updateModel() {
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
