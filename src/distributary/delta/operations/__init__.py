"""What is done to a table as a whole: plan, then act."""
