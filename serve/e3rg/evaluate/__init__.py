"""Measures of quality: what the paper reports, computed on this system."""
