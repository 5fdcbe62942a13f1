"""The experiments of the course, as training runs with a report: plan, run, report."""
