"""Commands that are killed at random moments and resumed: nothing finished is lost, and the result is the same."""
