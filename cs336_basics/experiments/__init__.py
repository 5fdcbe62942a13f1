"""The course's experiments: plan the runs, train them, and write a report."""
