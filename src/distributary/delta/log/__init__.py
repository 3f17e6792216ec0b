"""The transaction log: actions, files, segments, checkpoints, reconciliation, snapshots, history."""
