"""Video jobs: accepted, worked on and kept."""
