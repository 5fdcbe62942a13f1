// Runs the library with Pyodide. A message [name, body] is answered with ["row", text] for each row
// of a streamed answer, and then with ["answer", text]. Each text is JSON.

import { loadPyodide } from "./pyodide/pyodide.mjs";

const url = (name) => new URL(name, import.meta.url).href;

async function bytes(name) {
  const response = await fetch(url(name));
  if (!response.ok) throw new Error(`${name} is missing (status ${response.status})`);
  return response.arrayBuffer();
}

async function load() {
  const [python, wheel] = await Promise.all([
    loadPyodide({ indexURL: url("pyodide/") }), bytes("library.whl"),
  ]);
  python.unpackArchive(wheel, "wheel");
  const { answer, make_answers } = python.pyimport("cs336_basics.playground.answers");
  const answers = make_answers();
  return (name, body) => answer(answers, name, body, (text) => postMessage(["row", text]));
}

const loaded = load();

onmessage = async ({ data: [name, body] }) => {
  try {
    postMessage(["answer", (await loaded)(name, body)]);
  } catch (error) {
    postMessage(["answer", JSON.stringify({ error: error.message })]);
  }
};
