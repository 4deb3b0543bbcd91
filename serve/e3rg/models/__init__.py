"""Model files: what they are (manifest), where they come from (sources), where they lie (store)."""
