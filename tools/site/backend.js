// Sends requests to Python in the browser: a web worker runs the library with Pyodide.

import { $, make } from "./common.js";

let worker = null;
let running = null; // the request that the worker answers
const waiting = [];
const notice = make("p", { role: "status" },
  "Python and the library are loading. This takes a few seconds.");

function next() {
  if (running || !waiting.length) return;
  if (!worker) start();
  running = waiting.shift();
  worker.postMessage([running.name, running.body]);
}

function start() {
  $("header").after(notice);
  worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  worker.onmessage = ({ data: [kind, text] }) => {
    notice.remove();
    const value = JSON.parse(text);
    if (kind === "row") return running.take(value);
    const done = running;
    running = null;
    if (value.error) done.reject(new Error(value.error));
    else done.resolve(value);
    next();
  };
  worker.onerror = (event) => {
    const done = running;
    stop();
    done?.reject(new Error(`Python cannot be loaded: ${event.message ?? "a file is missing"}`));
  };
}

function stop() {
  notice.remove();
  worker.terminate();
  worker = running = null;
}

/** Return the answer to a request. Call `take` with the objects of a streamed answer. */
export function ask(name, body, signal, take) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const request = { name, body: JSON.stringify(body), take, resolve, reject };
    signal?.addEventListener("abort", () => {
      reject(signal.reason);
      if (waiting.includes(request)) waiting.splice(waiting.indexOf(request), 1);
      // Python cannot be interrupted, and a short answer is not worth restarting it.
      else if (request === running && take) {
        stop();
        next();
      }
    });
    waiting.push(request);
    next();
  });
}

export const stream = ask;

