// @ts-check
// Who listens: a group of radio buttons with portraits.

import { $, make } from "./dom.js";
import { refusal } from "./messages.js";

/** @typedef {import("./types.js").Identity} Identity */

/** Events: `choose`. */
export class Identities extends EventTarget {
  /** @type {Identity[]} */
  all = [];
  /** @type {Identity | null} */
  chosen = null;

  /** @param {string} [choose] id of the one to choose; otherwise who was, or the default one */
  async load(choose) {
    const response = await fetch("/v1/identities");
    if (!response.ok) throw await refusal(response);
    const answer = await response.json();
    this.all = answer.data;
    const wanted = [choose, this.chosen?.id, answer.default];
    const chosen = wanted.map((id) => this.all.find((identity) => identity.id === id)).find(Boolean)
      ?? this.all[0];
    $("identities").replaceChildren(...this.all.map((identity) => this.#radio(identity, chosen)));
    if (chosen && chosen.id !== this.chosen?.id) this.#choose(chosen);
  }

  /**
   * @param {Identity} identity
   * @param {Identity} chosen
   */
  #radio(identity, chosen) {
    const radio = make("input", {
      type: "radio", name: "identity", value: identity.id, checked: identity === chosen,
    });
    radio.addEventListener("change", () => this.#choose(identity));
    const portrait = make("img", { src: identity.portrait, alt: "", width: 64, height: 64, loading: "lazy" });
    return make("label", {}, radio, portrait, make("span", {}, identity.name));
  }

  /** @param {Identity} identity */
  #choose(identity) {
    this.chosen = identity;
    this.dispatchEvent(new Event("choose"));
  }
}
