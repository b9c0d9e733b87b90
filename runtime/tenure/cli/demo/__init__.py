"""`tenure demo`: the main job on real input, with its workers killed while it runs."""
