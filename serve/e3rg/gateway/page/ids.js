// @ts-check
// Random ids: 96 bits, so that nobody guesses a conversation.

/** @param {string} prefix */
export function newId(prefix) {
  const random = crypto.getRandomValues(new Uint8Array(12));
  return `${prefix}_${Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
