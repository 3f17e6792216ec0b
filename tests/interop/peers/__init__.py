"""What the tests of interoperation share: peers as processes, canonical contents, tables."""
