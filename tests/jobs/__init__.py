"""Application code for tests: modules that real workers import with --import."""
