"""The course's experiments: plan the runs, train them, write a report."""
