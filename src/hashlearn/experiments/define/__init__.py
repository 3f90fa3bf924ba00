"""What an experiment is: its TOML file, its datasets and methods with their settings, its measures, its tasks."""
