// @ts-check
// What passes between the page's modules; types only. The wire is described in docs/api.md.

/**
 * @typedef {object} Identity
 * @property {string} id
 * @property {string} name
 * @property {string} gender
 * @property {string} age
 * @property {string} voice
 * @property {string} portrait address of the picture
 */

/**
 * @typedef {object} Emotion
 * @property {string} label one of 32
 * @property {string} category one of 8
 * @property {number} intensity 0 to 1
 * @property {number} confidence 0 to 1: that the category is right
 * @property {Record<string, number>} categories
 * @property {Record<string, {confidence: number, categories: Record<string, number>}>} modalities
 * @property {{expression: string, intensity: number}} listener
 */

/**
 * @typedef {object} Memory
 * @property {{id: string, emotion: string, situation: string, similarity: number}[]} exemplars
 * @property {{id: string, emotion: string, text: string, created: number, similarity: number}[]} episodes
 */

/** @typedef {{wanted: string, given: string, code: string, message: string}} Degraded */

/**
 * One spoken piece. `start` and `duration` are seconds of the reply.
 * @typedef {object} Chunk
 * @property {string} text
 * @property {number} start
 * @property {number} duration
 * @property {number} rate samples a second
 * @property {Int16Array} pcm mono
 */

/**
 * A piece of the reply's MP4, with picture and sound.
 * @typedef {object} Segment
 * @property {string} mime
 * @property {Uint8Array<ArrayBuffer>} data
 * @property {number} frames
 */

/** @typedef {"video" | "audio" | "text"} Modality */

/**
 * @typedef {object} Choices
 * @property {Modality} reply
 * @property {"empathise" | "mirror"} policy
 * @property {"automatic" | "websocket" | "webrtc"} connection
 * @property {string | null} user
 */

/**
 * What a turn or a session is asked with.
 * @typedef {object} Asking
 * @property {string} identity
 * @property {string} conversation
 * @property {Choices} choices
 */

export {};
