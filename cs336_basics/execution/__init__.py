"""Running a job on pieces of work: here, in threads, in worker processes, or on Ray."""
