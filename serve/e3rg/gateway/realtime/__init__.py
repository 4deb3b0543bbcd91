"""Realtime sessions: one conversation over one connection."""
