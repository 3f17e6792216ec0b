"""The sharing server: the Delta Sharing protocol over HTTP."""
