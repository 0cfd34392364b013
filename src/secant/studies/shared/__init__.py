"""What two or more studies share: tasks, panels, runs and architectures by width."""
