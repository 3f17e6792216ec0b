"""One file per group of endpoints: from a request and its caller to an answer."""
