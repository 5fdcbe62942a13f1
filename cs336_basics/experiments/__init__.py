"""The experiments of the course: plan the runs, train them, write a report."""
