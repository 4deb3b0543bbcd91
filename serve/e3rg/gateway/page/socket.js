// @ts-check
// The realtime API's events over a WebSocket.

import { LOST, Trouble } from "./messages.js";

const BEHIND = 1_000_000; // bytes that may wait to be sent before sound is dropped

/**
 * A way to a realtime session.
 * @typedef {object} Channel
 * @property {(event: object) => void} send
 * @property {() => void} close
 * @property {boolean} behind the network does not keep up
 * @property {MediaStream | null} media the listener's tracks; null where media come as events
 * @property {(track: MediaStreamTrack | null) => Promise<void>} [speak] send the microphone's track
 */

/**
 * @param {(event: any) => void} received
 * @param {(why: Trouble) => void} lost called once, when it ends unasked
 * @param {AbortSignal} signal
 * @returns {Promise<Channel>}
 */
export async function openSocket(received, lost, signal) {
  const address = new URL("/v1/realtime?model=e3rg", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const socket = new WebSocket(address, ["realtime"]);
  let closing = false;
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve, { once: true });
    socket.addEventListener("close", ({ reason }) => reject(new Trouble(reason || LOST, "lost")), { once: true });
    signal.addEventListener("abort", () => socket.close(), { once: true });
  });
  socket.addEventListener("message", ({ data }) => {
    if (!closing) received(JSON.parse(data));
  });
  socket.addEventListener("close", ({ reason }) => {
    if (!closing) lost(new Trouble(reason ? `The voice connection has ended: ${reason}.` : LOST, "lost"));
  });
  return {
    send: (event) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(event));
    },
    close: () => {
      closing = true;
      socket.close(1000);
    },
    get behind() {
      return socket.bufferedAmount > BEHIND;
    },
    media: null,
  };
}
