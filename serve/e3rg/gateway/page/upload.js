// @ts-check
// Adds a listener: a portrait and who it is; what is wrong is said at the field.

import { $, make } from "./dom.js";
import { LOST, refusal } from "./messages.js";

const MAX_BYTES = 20_000_000;
const FIELDS = ["portrait", "name", "gender", "age", "voice", "profile"];

export class Upload {
  #dialog = /** @type {HTMLDialogElement} */ ($("dialog"));
  #form = /** @type {HTMLFormElement} */ ($("upload"));
  #preview = /** @type {HTMLImageElement} */ ($("up-preview"));
  #sending = false;

  /**
   * @param {import("./identities.js").Identities} identities
   * @param {(id: string) => void} added
   */
  constructor(identities, added) {
    this.identities = identities;
    this.added = added;
    $("add").addEventListener("click", () => this.#open());
    $("up-cancel").addEventListener("click", () => this.#dialog.close());
    $("up-portrait").addEventListener("change", () => this.#look());
    $("up-gender").addEventListener("change", () => this.#suggestVoice());
    $("up-age").addEventListener("change", () => this.#suggestVoice());
    this.#dialog.addEventListener("close", () => this.#showPreview(null));
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.#sending) this.#send();
    });
  }

  #open() {
    const seen = new Set();
    const voices = this.identities.all.filter(({ voice }) => !seen.has(voice) && seen.add(voice));
    $("up-voice").replaceChildren(...voices.map(({ voice, name }) =>
      make("option", { value: voice }, `like ${name}`)));
    this.#suggestVoice();
    this.#clear();
    this.#dialog.showModal();
  }

  #suggestVoice() {
    const { gender, age } = this.#values();
    const like = this.identities.all.find((identity) => identity.gender === gender && identity.age === age)
      ?? this.identities.all.find((identity) => identity.gender === gender);
    if (like) /** @type {HTMLSelectElement} */ ($("up-voice")).value = like.voice;
  }

  #look() {
    this.#clear();
    const file = this.#file();
    this.#showPreview(file);
    if (file && file.size > MAX_BYTES) this.#fault("portrait", "The file is larger than 20 MB; please choose a smaller one.");
  }

  /** @param {File | null} file */
  #showPreview(file) {
    if (this.#preview.src) URL.revokeObjectURL(this.#preview.src);
    this.#preview.hidden = !file;
    if (file) this.#preview.src = URL.createObjectURL(file);
    else this.#preview.removeAttribute("src");
  }

  async #send() {
    this.#clear();
    const file = this.#file();
    const { name, ...rest } = this.#values();
    if (!file) this.#fault("portrait", "Please choose a picture.");
    if (!name) this.#fault("name", "Please give a name.");
    if (!file || !name) return;
    const body = new FormData();
    for (const [field, value] of Object.entries({ id: slug(name), name, ...rest })) body.set(field, value);
    body.set("portrait", file);
    this.#busy(true);
    try {
      const response = await fetch("/v1/identities", { method: "POST", body });
      if (!response.ok) await this.#refused(response);
      else {
        const { id } = await response.json();
        await this.identities.load(id);
        this.#form.reset();
        this.#dialog.close();
        this.added(id);
      }
    } catch {
      this.#fault("", LOST);
    } finally {
      this.#busy(false);
    }
  }

  /** @param {Response} response */
  async #refused(response) {
    const answer = await response.clone().json().catch(() => ({}));
    const { param, message } = answer.error ?? {};
    const words = message ? `${message.charAt(0).toUpperCase()}${message.slice(1)}.` : (await refusal(response)).message;
    // The id is made of the name.
    this.#fault(param === "id" ? "name" : FIELDS.includes(param) ? param : "", words);
  }

  #values() {
    const data = new FormData(this.#form);
    /** @type {Record<string, string>} */
    const values = {};
    for (const field of FIELDS.slice(1)) values[field] = String(data.get(field) ?? "").trim();
    return values;
  }

  #file() {
    return /** @type {HTMLInputElement} */ ($("up-portrait")).files?.[0] ?? null;
  }

  /**
   * @param {string} field empty for the whole form
   * @param {string} words
   */
  #fault(field, words) {
    $(field ? `up-${field}-error` : "up-error").textContent = words;
    if (!field) return;
    const input = $(`up-${field}`);
    input.setAttribute("aria-invalid", "true");
    if (!this.#form.querySelector("[aria-invalid]:focus")) input.focus();
  }

  #clear() {
    for (const error of this.#form.querySelectorAll(".error")) error.textContent = "";
    for (const input of this.#form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  }

  /** @param {boolean} on */
  #busy(on) {
    this.#sending = on;
    $("up-send").textContent = on ? "Looking at the picture …" : "Add";
    this.#form.setAttribute("aria-busy", String(on));
  }
}

/** @param {string} name */
function slug(name) {
  const plain = name.normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  return plain.slice(0, 64) || `face-${crypto.getRandomValues(new Uint32Array(1))[0]}`;
}
