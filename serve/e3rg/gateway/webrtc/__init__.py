"""Realtime sessions over WebRTC."""
