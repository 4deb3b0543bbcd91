// @ts-check
// Base64 and PCM16, little-endian as they come and as every browser's machine is.

/**
 * @param {string} base64
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function bytes(base64) {
  const raw = atob(base64);
  const data = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) data[at] = raw.charCodeAt(at);
  return data;
}

/**
 * @param {string} base64 PCM16
 * @returns {Int16Array}
 */
export function samples(base64) {
  const data = bytes(base64);
  return new Int16Array(data.buffer, 0, data.length >> 1);
}

/**
 * @param {Int16Array} pcm
 * @returns {string}
 */
export function base64(pcm) {
  const data = new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  let raw = "";
  for (let at = 0; at < data.length; at += 0x8000) {
    raw += String.fromCharCode(...data.subarray(at, at + 0x8000));
  }
  return btoa(raw);
}
