"""The wire of the Delta Sharing protocol, shared by server and client."""
