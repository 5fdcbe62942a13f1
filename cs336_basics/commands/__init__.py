"""The command lines: one file a command, each a thin front over one library call."""
