// @ts-check
// The conversation as text.
//
// role=log announces whole lines only: a reply that is still written stands beside the log and moves
// into it when it has ended. What the person typed, or has heard as sound, is not read to them again.

import { $, make } from "./dom.js";

/** @typedef {"you" | "listener" | "note"} Kind */

export class Log {
  #log = $("log");
  #pending = $("pending");
  #scroll = $("scroll");
  #hint = /** @type {HTMLElement} */ (this.#scroll.querySelector(".hint"));

  /**
   * @param {Kind} kind
   * @param {string} who
   * @param {string} text
   * @param {boolean} announce read it to those who use a screen reader
   */
  add(kind, who, text, announce) {
    this.#hint.hidden = true;
    this.#append(this.#log, line(kind, who, text, announce));
  }

  /** Something about the conversation, if there is one. @param {string} text */
  note(text) {
    if (this.#log.childElementCount) this.add("note", "", text, true);
  }

  /**
   * A line that grows.
   * @param {string} who
   */
  open(who) {
    this.#hint.hidden = true;
    const element = line("listener", who, "", true);
    element.hidden = true;
    element.setAttribute("aria-busy", "true");
    this.#append(this.#pending, element);
    const words = /** @type {HTMLElement} */ (element.lastElementChild);
    return {
      /** @param {string} text */
      write: (text) => {
        element.hidden = false;
        words.append(text);
        this.#follow();
      },
      /**
       * @param {boolean} announce
       * @param {string} [mark] why it ends early
       */
      close: (announce, mark = "") => {
        if (!element.isConnected) return;
        element.removeAttribute("aria-busy");
        if (!announce) element.setAttribute("aria-live", "off");
        if (mark) words.append(make("em", {}, ` (${mark})`));
        if (element.hidden) element.remove();
        else this.#append(this.#log, element);
      },
    };
  }

  clear() {
    this.#log.replaceChildren();
    this.#pending.replaceChildren();
    this.#hint.hidden = false;
  }

  /**
   * @param {HTMLElement} parent
   * @param {HTMLElement} element
   */
  #append(parent, element) {
    const follow = this.#atEnd;
    parent.append(element);
    if (follow) this.#follow();
  }

  get #atEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroll;
    return scrollHeight - scrollTop - clientHeight < 80;
  }

  #follow() {
    this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }
}

/**
 * @param {Kind} kind
 * @param {string} who
 * @param {string} text
 * @param {boolean} announce
 */
function line(kind, who, text, announce) {
  const element = make("p", { className: kind });
  if (!announce) element.setAttribute("aria-live", "off");
  if (who) element.append(make("span", { className: "sr" }, `${who}: `));
  element.append(make("span", {}, text));
  return element;
}
