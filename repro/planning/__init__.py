"""What a run is resolved to before any process starts: data, layers, cut, schedule, hash."""
