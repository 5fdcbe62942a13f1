// Parts that all views share: tokens as elements, step controls, and the deep link.

/** The number of colors in style.css for lines and for the backgrounds of tokens. */
export const NUM_COLORS = 6;

export const $ = (selector, root = document) => root.querySelector(selector);

/** Return a new element. Strings become text, never markup. */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") element.className = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.map((child) => (typeof child === "number" ? String(child) : child)));
  return element;
}

const errors = new Map(); // by source

/** Show an error until its source succeeds or the view changes. An empty message removes it. */
export function showError(message, source) {
  errors.delete(source);
  if (message) errors.set(source, message);
  const messages = new Set(errors.values());
  $("#error").replaceChildren(...[...messages].map((text) => make("div", {}, text)));
  $("#error").hidden = !messages.size;
}

export function forgetErrors() {
  errors.clear();
  showError("");
}

/** Return a function that drops its earlier request and makes a new one, as `work(signal)`.
 * It returns undefined if the request is dropped or fails. */
export function asker(source) {
  let running = null;
  const asking = async (work) => {
    running?.abort();
    const own = (running = new AbortController());
    try {
      const answer = await work(own.signal);
      if (own.signal.aborted) return undefined;
      showError("", source);
      return answer;
    } catch (error) {
      if (!own.signal.aborted) showError(error.message, source);
      return undefined;
    }
  };
  asking.drop = () => running?.abort();
  return asking;
}

/** Let the buttons `NAME-start` and `NAME-stop` run and stop `work(signal)`.
 * Return a function that stops it. */
export function startAndStop(name, work) {
  let running = null;
  const set = (controller) => {
    running = controller;
    $(`#${name}-start`).disabled = Boolean(running);
    $(`#${name}-stop`).disabled = !running;
  };
  const stop = () => {
    running?.abort();
    set(null);
  };
  $(`#${name}-start`).addEventListener("click", async () => {
    const own = new AbortController();
    set(own);
    showError("", name);
    try {
      await work(own.signal);
    } catch (error) {
      if (!own.signal.aborted) showError(error.message, name);
    }
    if (running === own) set(null);
  });
  $(`#${name}-stop`).addEventListener("click", stop);
  return stop;
}

/** Return the parts of a token as elements. If `breaks` is true, a line feed breaks the line. */
export function partElements(parts, breaks = false) {
  return parts.flatMap(([text, kind]) => {
    if (!breaks || kind !== "blank") return [make("span", { class: kind }, text)];
    return text.split(/(?<=↵)/).flatMap((piece) =>
      piece.endsWith("↵") ? [make("span", { class: kind }, piece), make("br")]
        : [make("span", { class: kind }, piece)]);
  });
}

export const plain = (parts) => parts.map(([text]) => text).join("");
export const quoted = (token) => `“${plain(token.parts)}”`;

/** Return the size of a token in bytes. */
export const numBytes = (token) => (token.bytes.length + 1) / 3;

/** Return a token as a list item. */
export function tokenElement(parts, index, { special, breaks } = {}) {
  const look = special ? "special" : `c${index % NUM_COLORS}`;
  return make("li", {}, make("span", { class: `token ${look}` }, ...partElements(parts, breaks)));
}

export const number = (value, digits = 0) => value.toLocaleString("en", {
  minimumFractionDigits: digits, maximumFractionDigits: digits });

export const several = (count, one, more = `${one}s`) =>
  `${number(count)} ${count === 1 ? one : more}`;

/** Return a table row. A cell is a text, a number or a list of elements. */
export const tableRow = (cells, look = "") => make("tr", { class: look }, ...cells.map((cell) =>
  make("td", { class: /^(–|[\d,.]+( %)?)$/.test(cell) ? "number" : "" }, ...[cell].flat())));

/** Return a bar for a share from 0 to 1. The style sheet sets the length for 1. */
export function bar(share) {
  const element = make("span", { class: "bar" });
  element.style.setProperty("--share", share);
  return element;
}

/** Buttons and a slider that move through the steps of a view. */
export class Steps {
  constructor(section, show) {
    this.show = show;
    this.timer = null;
    const button = (name, text, label, act) => {
      const element = make("button", { type: "button", "data-go": name, "aria-label": label }, text);
      element.addEventListener("click", act);
      return element;
    };
    const move = (name, text, label, to) => button(name, text, label, () => {
      this.pause();
      this.go(to());
    });
    const place = $(".steps", section);
    this.range = make("input", { type: "range", name: "step", min: 0, max: 0, value: 0 });
    this.range.addEventListener("input", () => this.go(this.now));
    this.output = make("output");
    this.playButton = button("play", "Play", "Play or pause",
      () => (this.timer ? this.pause() : this.play()));
    place.append(
      move("first", "|◀", "First step", () => 0),
      move("back", "◀", "Step back", () => this.now - 1),
      this.playButton,
      move("forward", "▶", "Step forward", () => this.now + 1),
      move("last", "▶|", "Last step", () => this.last),
      make("label", {}, `${place.dataset.label} `, this.range),
      this.output,
    );
  }
  get now() { return Number(this.range.value); }
  get last() { return Number(this.range.max); }
  /** Set the number of steps. */
  reset(last, step = this.now) {
    this.range.max = last;
    this.go(step);
  }
  go(step) {
    this.range.value = Math.max(0, Math.min(this.last, step));
    this.output.textContent = `${this.now} of ${this.last}`;
    saveLink();
    return this.show(this.now);
  }
  play() {
    if (this.now >= this.last) this.go(0);
    this.playButton.textContent = "Pause";
    const next = async () => {
      await this.go(this.now + 1);
      if (!this.timer) return;
      if (this.now >= this.last) this.pause();
      else this.timer = setTimeout(next, 900);
    };
    this.timer = setTimeout(next, 300);
  }
  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.playButton.textContent = "Play";
  }
}

// The deep link stores the view and its controls in the fragment, which no server receives.

const MOST_IN_LINK = 10000;
const controls = (section) => section.querySelectorAll("[name]");
export const currentView = () => $("main > section:not([hidden])");

export function saveLink() {
  const section = currentView();
  const parameters = new URLSearchParams({ view: section.id });
  for (const control of controls(section)) {
    const value = control.type === "checkbox" ? Number(control.checked) : control.value;
    if (String(value).length <= MOST_IN_LINK) parameters.set(control.name, value);
  }
  history.replaceState(null, "", `#${parameters}`);
}

/** Restore the controls of the view in the link, and return its id. */
export function restoreLink() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const section = document.getElementById(parameters.get("view") ?? "");
  if (!section?.matches("main > section")) return null;
  for (const control of controls(section)) {
    const value = parameters.get(control.name);
    if (value === null) continue;
    if (control.type === "checkbox") control.checked = value === "1";
    else {
      // A slider has no steps before its view has an answer.
      if (control.type === "range") control.max = Math.max(control.max, Number(value) || 0);
      const before = control.value;
      control.value = value;
      if (control.matches("select") && control.selectedIndex < 0) control.value = before;
    }
  }
  return section.id;
}
