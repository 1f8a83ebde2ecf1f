"""The index table: a transaction log, commits, checkpoints, statistics, maintenance."""
