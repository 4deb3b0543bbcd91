// @ts-check
// One answer as the page shows it, from its first word to the end of its sound.

import { loss } from "./messages.js";

/**
 * @typedef {object} View
 * @property {import("./player.js").Player} player
 * @property {import("./captions.js").Captions} captions
 * @property {import("./log.js").Log} log
 * @property {import("./panels.js").Panels} panels
 */

export class Exchange {
  #live = true;
  #spoken = false;
  #line;

  /**
   * @param {View} view
   * @param {string} name of the listener
   * @param {boolean} pictures are expected
   */
  constructor(view, name, pictures) {
    this.view = view;
    view.player.begin(pictures);
    view.captions.clear();
    view.panels.clear();
    this.#line = view.log.open(name);
  }

  /** It goes on: it is being made or being heard. */
  get live() {
    return this.#live;
  }

  /** @param {import("./types.js").Emotion} emotion */
  emotion(emotion) {
    if (this.#live) this.view.panels.emotion(emotion);
  }

  /** @param {import("./types.js").Memory} memory */
  memory(memory) {
    if (this.#live) this.view.panels.memory(memory);
  }

  /** @param {string} text */
  text(text) {
    if (this.#live) this.#line.write(text);
  }

  /** @param {{text: string, start: number, duration: number}} piece */
  piece(piece) {
    if (this.#live) this.view.captions.add(piece);
  }

  /** @param {import("./types.js").Chunk} chunk */
  chunk(chunk) {
    if (!this.#live) return;
    this.#spoken = true;
    this.view.player.chunk(chunk);
  }

  /** @param {import("./types.js").Segment} segment */
  segment(segment) {
    if (!this.#live) return;
    this.#spoken = true;
    this.view.player.segment(segment);
  }

  /** @param {import("./types.js").Degraded} degraded */
  degraded(degraded) {
    if (!this.#live) return;
    this.view.log.add("note", "", loss(degraded), true);
    if (degraded.wanted === "video" && degraded.given !== "still") this.view.player.goOnWithoutPictures();
  }

  /**
   * @param {Record<string, number>} timings
   * @param {string | null} turn
   */
  timings(timings, turn) {
    if (!this.#live) return;
    this.view.panels.timings(timings);
    if (turn) this.view.player.stored(turn);
  }

  /** All has come; it ends when it was heard. */
  finish() {
    if (this.#live) this.view.player.finish();
  }

  /** It was heard to its end. */
  heard() {
    if (!this.#live) return;
    this.#live = false;
    this.#line.close(!this.#spoken);
    this.view.captions.clear();
  }

  /**
   * It ends here.
   * @param {string} [mark] why, for the log
   * @returns {number} seconds that were heard
   */
  stop(mark = "interrupted") {
    if (!this.#live) return 0;
    this.#live = false;
    const seconds = this.view.player.stop();
    this.view.captions.clear();
    this.#line.close(false, mark);
    return seconds;
  }
}
