// @ts-check
// Small helpers around the document.

/**
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id of an element that index.html has
 * @returns {T}
 */
export function $(id) {
  return /** @type {T} */ (document.getElementById(id));
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [properties] set on the element; aria-* and role as attributes
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, String(value));
    else Object.assign(element, { [name]: value });
  }
  element.append(...children);
  return element;
}

/** @param {number} share 0 to 1 */
export const percent = (share) => `${Math.round(100 * share)} %`;

/**
 * A horizontal bar; its number stands beside it in words.
 * @param {number} share 0 to 1
 */
export function bar(share) {
  const fill = make("i");
  fill.style.inlineSize = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return make("span", { className: "bar", "aria-hidden": "true" }, fill);
}

/**
 * @param {HTMLElement} button
 * @param {boolean} on
 */
export function press(button, on) {
  button.setAttribute("aria-pressed", String(on));
}

/** @param {HTMLElement} button */
export const pressed = (button) => button.getAttribute("aria-pressed") === "true";
