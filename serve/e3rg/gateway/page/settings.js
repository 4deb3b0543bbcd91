// @ts-check
// What the person chose; kept in this browser only.

import { $ } from "./dom.js";
import { newId } from "./ids.js";

const KEY = "e3rg.choices";

/** Events: `change` (detail: name of the choice). */
export class Settings extends EventTarget {
  #form = /** @type {HTMLFormElement} */ ($("choices"));

  constructor() {
    super();
    this.#restore();
    this.#form.addEventListener("submit", (event) => event.preventDefault());
    this.#form.addEventListener("change", (event) => {
      const { name } = /** @type {HTMLInputElement} */ (event.target);
      if (name === "remember") this.#remember(this.#box("remember").checked);
      this.#keep();
      this.dispatchEvent(new CustomEvent("change", { detail: name }));
    });
  }

  /** @returns {import("./types.js").Choices} */
  get choices() {
    const data = new FormData(this.#form);
    return /** @type {any} */ ({
      reply: data.get("reply"),
      policy: data.get("policy"),
      connection: data.get("connection"),
      user: read("e3rg.user"),
    });
  }

  get mirror() {
    return this.#box("mirror").checked;
  }

  /** @param {boolean} on */
  #remember(on) {
    write("e3rg.user", on ? newId("user") : null);
  }

  #restore() {
    const kept = JSON.parse(read(KEY) ?? "{}");
    for (const name of ["reply", "policy", "connection"]) {
      for (const radio of this.#form.querySelectorAll(`input[name=${name}]`)) {
        const input = /** @type {HTMLInputElement} */ (radio);
        if (input.value === kept[name]) input.checked = true;
      }
    }
    this.#box("mirror").checked = kept.mirror ?? true;
    this.#box("remember").checked = read("e3rg.user") !== null;
  }

  #keep() {
    const { user: _, ...choices } = this.choices;
    write(KEY, JSON.stringify({ ...choices, mirror: this.mirror }));
  }

  /** @param {string} name */
  #box(name) {
    return /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name));
  }
}

/** @param {string} key */
function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // storage is switched off
  }
}

/**
 * @param {string} key
 * @param {string | null} value
 */
function write(key, value) {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // Storage is switched off: the choice holds until the page is left.
  }
}
