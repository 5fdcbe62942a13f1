// Starts the page: the tabs and the views.

import { ask } from "./backend.js";
import {
  $, currentView, forgetErrors, make, restoreLink, saveLink, showError,
} from "./common.js";
import * as learning from "./learning.js";
import * as runs from "./runs.js";
import * as text from "./text.js";

const VIEWS = { ...text.views, ...learning.views, ...runs.views };

function choose(id) {
  const before = currentView();
  for (const section of document.querySelectorAll("main > section")) {
    const chosen = section.id === id;
    section.hidden = !chosen;
    const tab = document.getElementById(`tab-${section.id}`);
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
  }
  if (before.id !== id) VIEWS[before.id].leave?.();
  forgetErrors();
  saveLink();
  VIEWS[id].update();
}

function makeTabs(sections) {
  const tabs = $("nav");
  for (const section of sections) {
    const tab = make("button", { type: "button", role: "tab", id: `tab-${section.id}`,
      "aria-controls": section.id }, section.dataset.title);
    tab.addEventListener("click", () => choose(section.id));
    section.setAttribute("role", "tabpanel");
    section.setAttribute("aria-labelledby", tab.id);
    tabs.append(tab);
  }
  tabs.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const all = [...tabs.children];
    const next = all[(all.indexOf(document.activeElement) + move + all.length) % all.length];
    next.focus();
    next.click();
  });
}

function fillSelects(server) {
  for (const select of document.querySelectorAll("select.tokenizers")) {
    if (select.matches(".optional")) select.append(make("option", { value: "" }, "nothing"));
    server.tokenizers.forEach((name, index) =>
      select.append(make("option", { value: index }, name)));
  }
  for (const select of document.querySelectorAll("select.runs")) {
    select.append(...server.runs.map((name, index) => make("option", { value: index }, name)));
  }
  for (const select of document.querySelectorAll("select.stages")) {
    select.append(...server.stages.map((name) => make("option", { value: name }, name)));
  }
}

async function start() {
  const server = await ask("start", {});
  $("main").hidden = false;
  for (const section of document.querySelectorAll("main > section")) {
    if (section.dataset.needs && !server[section.dataset.needs].length) section.remove();
  }
  const sections = [...document.querySelectorAll("main > section")];
  fillSelects(server);
  if (server.tokenizers.length > 1) $("#text [name=b]").value = "1";
  makeTabs(sections);
  for (const section of sections) VIEWS[section.id].start?.(server);
  const open = () => choose(restoreLink() ?? currentView().id);
  for (const section of sections) {
    section.addEventListener("input", (event) => {
      saveLink();
      if (event.target.name !== "step") VIEWS[section.id].update();
    });
  }
  addEventListener("hashchange", open);
  open();
}

start().catch((error) => showError(error.message));
