// The views of a text's tokens and of a word's merges.

import { ask } from "./backend.js";
import {
  $, Steps, asker, make, number, numBytes, partElements, plain, several, tableRow, tokenElement,
} from "./common.js";

let server;

// --- tokens ---------------------------------------------------------------------------------

const askTokens = asker("tokens");
const askParts = asker("parts");

async function updateTokens() {
  const section = $("#text");
  const value = (name) => $(`[name=${name}]`, section).value;
  const checked = (name) => $(`[name=${name}]`, section).checked;
  const text = value("text");
  for (const name of ["ids", "bytes", "words"]) section.classList.toggle(name, checked(name));
  const chosen = [value("a"), value("b")].filter((index) => index !== "").map(Number);
  const answers = await askTokens((signal) => {
    if (text.length > server.most_text) {
      throw new Error(`the text must have at most ${number(server.most_text)} characters, got ` +
        `${number(text.length)}; use the tokenize command for longer texts`);
    }
    return Promise.all(chosen.map((tokenizer) => ask("tokens", { text, tokenizer }, signal)));
  });
  if (!answers) return;
  const parts = checked("parts") && (await askParts((signal) =>
    Promise.all(chosen.map((tokenizer) => ask("parts", { text, tokenizer }, signal)))));
  if (parts === undefined) return;
  ["a", "b"].forEach((side, index) => showParts(side, parts && parts[index]));
  $("#second").hidden = chosen.length < 2;
  const all = answers.map((answer) => boundaries(answer.tokens));
  answers.forEach((answer, index) => {
    const side = "ab"[index];
    $(`#name-${side}`).textContent = server.tokenizers[chosen[index]];
    showTokens(side, answer, all[1 - index], { ids: checked("ids"), bytes: checked("bytes") });
  });
  $(".differs-legend", section).hidden = chosen.length < 2;
  $(".word-legend", section).hidden = !checked("words");
}

/** Return the starts of tokens in bytes. */
function boundaries(tokens) {
  const starts = new Set();
  let at = 0;
  for (const token of tokens) {
    starts.add(at);
    at += numBytes(token);
  }
  starts.end = at;
  return starts;
}

function showTokens(side, answer, other, { ids, bytes }) {
  let counts = `${several(answer.num_tokens, "token")}, ` +
    `${several(answer.num_characters, "character")}, ${several(answer.num_bytes, "byte")}, ` +
    several(answer.num_words, "pre-token");
  if (answer.num_tokens) {
    counts += `; ${number(answer.num_bytes / answer.num_tokens, 2)} bytes per token`;
  }
  let differing = 0;
  let at = 0;
  const items = answer.tokens.map((token, index) => {
    const item = tokenElement(token.parts, index, { special: token.special, breaks: true });
    const kind = token.special ? "special token" : "token";
    item.title = `${kind} ${plain(token.parts)}\nid ${token.id}\nbytes ${token.bytes}`;
    item.classList.toggle("first", token.first);
    if (other && at < other.end && !other.has(at)) {
      item.classList.add("differs");
      differing += 1;
    }
    at += numBytes(token);
    if (ids) item.append(make("span", { class: "note" }, token.id));
    if (bytes) item.append(make("span", { class: "note" }, token.bytes));
    return item;
  });
  if (other) {
    counts += `; ${several(differing, "boundary", "boundaries")} that the other tokenizer ` +
      "does not have";
  }
  if (answer.num_tokens > items.length) counts += `; the first ${number(items.length)} are shown`;
  $(`#counts-${side}`).textContent = counts;
  $(`#tokens-${side}`).replaceChildren(...items);
}

/** Show the parts of a tokenizer and what they do to the text, or nothing. */
function showParts(side, answer) {
  const place = $(`#parts-${side}`);
  place.hidden = !answer;
  if (!answer) return;
  $("dl", place).replaceChildren(...Object.entries(answer.tokenizer).flatMap(
    ([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
  const shown = answer.parts.length;
  $("caption", place).textContent = "What each part does to the text" +
    (answer.num_parts > shown ? `; the first ${number(shown)} rows are shown` : "");
  $("tbody", place).replaceChildren(...answer.parts.map((row, index) => {
    const { change, tokens } = row;
    const special = row.part !== "split";
    const result = change ? change.map(([text]) => text).join(" → ")
      : tokens.map(({ parts }, at) => tokenElement(parts, index + at, { special }).firstChild);
    const ids = change ? change.map(([, codes]) => codes).join(" → ")
      : tokens.map((token) => token.id).join(", ");
    return tableRow([`${number(row.start)} – ${number(row.stop)}`, row.part, result,
      row.merges, [make("span", {}, ids)]]);
  }));
}

// --- merges ---------------------------------------------------------------------------------

const askMerges = asker("merges");
let steps;
let moments = [];

async function updateMerges() {
  const section = $("#merges");
  const text = $("[name=word]", section).value;
  const tokenizer = Number($("[name=tokenizer]", section).value);
  const answer = await askMerges((signal) => ask("merges", { text, tokenizer }, signal));
  if (!answer) return;
  moments = momentsOf(answer.words);
  $("#merge-table").replaceChildren(...moments.slice(1).map((moment, index) => {
    const { rank, pair, result } = moment.step;
    return tableRow([index + 1, number(rank),
      [...partElements(pair[0]), " + ", ...partElements(pair[1])], partElements(result)]);
  }));
  steps.reset(moments.length - 1);
}

/** Return the tokens of all words before the first merge and after each one. */
function momentsOf(words) {
  let done = [];
  const found = [{ symbols: words.flatMap((word) => word.symbols), words }];
  const rest = words.map((word) => word.symbols);
  words.forEach((word, number) => {
    let symbols = word.symbols;
    for (const step of word.steps) {
      symbols = symbols.toSpliced(step.position, 2, step.result);
      const later = rest.slice(number + 1).flat();
      found.push({ symbols: [...done, ...symbols, ...later], step,
        changed: done.length + step.position });
    }
    done = [...done, ...symbols];
  });
  found.at(-1).ids = words.flatMap((word) => word.tokens.map((token) => token.id));
  return found;
}

function showMoment(index) {
  const moment = moments[index];
  const items = moment.symbols.map((parts, place) => {
    const item = tokenElement(parts, place);
    if (place === moment.changed) item.firstChild.classList.add("new");
    return item;
  });
  $("#merge-symbols").replaceChildren(...items);
  let said = moment.symbols.length ? "Before the first merge: single bytes and special tokens."
    : "Enter a word.";
  if (moment.step) {
    const { pair, rank, result } = moment.step;
    said = `Merge of rank ${number(rank)}: ${plain(pair[0])} + ${plain(pair[1])} became ` +
      `${plain(result)}.`;
  }
  if (moment.ids?.length) {
    said += ` No other pair is in the list of merges. The ids are ${moment.ids.join(", ")}.`;
  }
  $("#merge-now").textContent = said;
  [...$("#merge-table").children].forEach((row, place) =>
    row.classList.toggle("now", place === index - 1));
}

export const views = {
  text: {
    start: (about) => { server = about; },
    update: updateTokens,
  },
  merges: {
    start: () => {
      steps = new Steps($("#merges"), showMoment);
      $("#merges [name=word]").maxLength = server.most_word;
    },
    update: updateMerges,
    leave: () => steps.pause(),
  },
};
