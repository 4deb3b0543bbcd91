// @ts-check
// Shows what is spoken, in step with the sound.

import { press, pressed } from "./dom.js";

/** @typedef {{text: string, start: number, end: number}} Cue seconds of the reply */

const MAX_CHARS = 84; // two lines of 42, as subtitles have them
const CHARS_PER_S = 15; // of speech whose length is not known yet

/**
 * Cuts a spoken piece into captions, each shown for its share of the characters.
 * @param {{text: string, start: number, duration: number}} piece
 * @returns {Cue[]}
 */
export function cues({ text, start, duration }) {
  const words = text.trim().split(/\s+/).filter(Boolean);
  const whole = words.join(" ").length;
  const parts = Math.ceil(whole / MAX_CHARS) || 1;
  /** @type {string[]} */
  const lines = [];
  let line = "";
  for (const word of words) {
    const longer = line ? `${line} ${word}` : word;
    if (line && (longer.length > MAX_CHARS || line.length >= whole / parts)) {
      lines.push(line);
      line = word;
    } else {
      line = longer;
    }
  }
  if (line) lines.push(line);
  const seconds = duration || whole / CHARS_PER_S;
  const total = lines.reduce((sum, { length }) => sum + length, 0);
  let at = start;
  return lines.map((part) => {
    const cue = { text: part, start: at, end: at + (seconds * part.length) / total };
    at = cue.end;
    return cue;
  });
}

export class Captions {
  /** @type {Cue[]} */
  #cues = [];
  #frame = 0;

  /**
   * @param {HTMLElement} line
   * @param {HTMLElement} button switches them
   * @param {() => number} clock seconds of the reply
   */
  constructor(line, button, clock) {
    this.line = line;
    this.button = button;
    this.clock = clock;
    button.addEventListener("click", () => {
      press(button, !pressed(button));
      this.#show();
    });
  }

  /** @param {{text: string, start: number, duration: number}} piece */
  add(piece) {
    this.#cues.push(...cues(piece));
    if (!this.#frame) this.#tick();
  }

  clear() {
    this.#cues = [];
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.line.textContent = "";
  }

  #tick() {
    this.#frame = requestAnimationFrame(() => this.#tick());
    this.#show();
  }

  #show() {
    const now = this.clock();
    const cue = now > 0 && pressed(this.button)
      ? this.#cues.findLast(({ start, end }) => start <= now && now < end + 0.3)
      : undefined;
    const text = cue?.text ?? "";
    if (this.line.textContent !== text) this.line.textContent = text;
  }
}
