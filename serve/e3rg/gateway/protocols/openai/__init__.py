"""The OpenAI-compatible endpoints, one file each."""
