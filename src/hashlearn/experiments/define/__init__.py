"""Definition of an experiment: its TOML file, its datasets and methods with their settings, its measures, its tasks."""
