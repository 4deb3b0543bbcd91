"""Who may use the API: every request is somebody's before it is read."""
