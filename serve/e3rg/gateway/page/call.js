// @ts-check
// The realtime API's events on a data channel, sound and picture on WebRTC tracks.
// https://platform.openai.com/docs/guides/realtime-webrtc

import { LOST, refusal, Trouble } from "./messages.js";

const GATHER_MS = 2_000; // candidates that come later are not waited for
const CONNECT_MS = 15_000;
const NO_WAY = "A direct connection to the server could not be made. Under “Settings”, choose WebSocket as the connection.";

/**
 * @param {object} session as in session.update
 * @param {boolean} picture pictures are wanted
 * @param {(event: any) => void} received
 * @param {(why: Trouble) => void} lost called once, when it ends unasked
 * @param {AbortSignal} signal
 * @returns {Promise<import("./socket.js").Channel>}
 */
export async function openCall(session, picture, received, lost, signal) {
  const peer = new RTCPeerConnection({ iceServers: await iceServers() });
  const media = new MediaStream();
  const sound = peer.addTransceiver("audio", { direction: "sendrecv" });
  media.addTrack(sound.receiver.track);
  if (picture) media.addTrack(peer.addTransceiver("video", { direction: "recvonly" }).receiver.track);
  const events = peer.createDataChannel("oai-events");
  let closing = false;
  const close = () => {
    closing = true;
    peer.close(); // the server notices: hanging up by HTTP would come too late
  };
  signal.addEventListener("abort", close, { once: true });
  events.addEventListener("message", ({ data }) => {
    if (!closing) received(JSON.parse(data));
  });
  try {
    await negotiate(peer, session);
    await opened(peer, events);
  } catch (error) {
    close();
    throw error;
  }
  const end = () => {
    if (!closing) lost(new Trouble(LOST, "lost"));
    close();
  };
  events.addEventListener("close", end);
  peer.addEventListener("connectionstatechange", () => {
    if (peer.connectionState === "failed") end();
  });
  return {
    send: (event) => {
      if (events.readyState === "open") events.send(JSON.stringify(event));
    },
    close,
    get behind() {
      return events.bufferedAmount > 200_000;
    },
    media,
    speak: (track) => sound.sender.replaceTrack(track),
  };
}

async function iceServers() {
  const response = await fetch("/v1/realtime/ice");
  if (!response.ok) throw await refusal(response);
  return (await response.json()).ice_servers;
}

/**
 * @param {RTCPeerConnection} peer
 * @param {object} session
 */
async function negotiate(peer, session) {
  await peer.setLocalDescription(await peer.createOffer());
  await gathered(peer);
  const body = new FormData();
  body.set("sdp", peer.localDescription?.sdp ?? "");
  body.set("session", JSON.stringify(session));
  const response = await fetch("/v1/realtime/calls?model=e3rg", { method: "POST", body });
  if (!response.ok) throw await refusal(response);
  await peer.setRemoteDescription({ type: "answer", sdp: await response.text() });
}

/** @param {RTCPeerConnection} peer */
function gathered(peer) {
  return /** @type {Promise<void>} */ (new Promise((resolve) => {
    const timer = setTimeout(resolve, GATHER_MS);
    const look = () => {
      if (peer.iceGatheringState !== "complete") return;
      clearTimeout(timer);
      resolve();
    };
    peer.addEventListener("icegatheringstatechange", look);
    look();
  }));
}

/**
 * @param {RTCPeerConnection} peer
 * @param {RTCDataChannel} events
 */
function opened(peer, events) {
  return /** @type {Promise<void>} */ (new Promise((resolve, reject) => {
    const fail = () => reject(new Trouble(NO_WAY, "no_way"));
    const timer = setTimeout(fail, CONNECT_MS);
    events.addEventListener("open", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
    peer.addEventListener("connectionstatechange", () => {
      if (peer.connectionState === "failed" || peer.connectionState === "closed") fail();
    });
  }));
}
